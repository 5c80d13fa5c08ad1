"""Consolidation through the gateway: whole cycles, large publications, discovery."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.figures import Figure, latency_figures
from benchmarks.http_load import Connection, run_clients
from benchmarks.importing import SCOPE

_COMMANDS = "/api/v1/memory/consolidation/commands"
_CONTEXT = "/api/v1/memory/consolidation/context"
_INSPECT = "/api/v1/memory/consolidation/inspect"
_QUERY = "/api/v1/memory/consolidation/query"
_MEMORY_COMMANDS = "/api/v1/memory/commands"

_CYCLES = 50
_CYCLES_A_WORKER = 20
_LISTED_JOBS = 10_000
_PUBLICATIONS = 20
# A manifest of 16 sources whose walk meets 64 records: three ancestors below each.
_SOURCES_MAX = 16
_ANCESTORS_A_SOURCE = 3

Ref = dict[str, Any]


def measure_jobs(connect: Callable[[], Connection], *, workers: int) -> list[Figure]:
    """Figures of consolidation over memories that are there already.

    Args:
        connect: Opens a connection whose key may read and write the measured scope.
        workers: Workers side by side.
    """
    connection = connect()
    refs = _some_records(connection)
    seconds = [_run_cycle(connection, refs[:4], assertions=4, name=f"cycle-{number}") for number in range(_CYCLES)]
    figures = latency_figures("job cycle, 4 assertions", seconds, p50_ms=40.0)
    figures.append(
        Figure(f"job cycles, {workers} workers", "rate", _cycle_rate(connect, refs, workers), "1/s", 100, "above")
    )
    figures += latency_figures("publish, 16 assertions, 64 ancestors", _publish_seconds(connection), p50_ms=15.0)
    figures += latency_figures(f"discovery, {_LISTED_JOBS:,} jobs", _page_seconds(connect, refs, workers), p50_ms=10.0)
    connection.close()
    return figures


def _cycle_rate(connect: Callable[[], Connection], refs: Sequence[Ref], workers: int) -> float:
    def work(connection: Connection, worker: int) -> None:
        for number in range(_CYCLES_A_WORKER):
            _run_cycle(connection, refs[worker * 4 : worker * 4 + 4], assertions=4, name=f"worker-{worker}-{number}")

    return workers * _CYCLES_A_WORKER / run_clients(connect, work, clients=workers)


def _run_cycle(connection: Connection, sources: Sequence[Ref], *, assertions: int, name: str) -> float:
    """Create, claim, read the context, publish; the seconds of all four."""
    begin = time.perf_counter()
    job_id = _create(connection, sources, name)
    fence = _claim(connection, job_id, name)
    _post(connection, _CONTEXT, job_id=job_id, expected_revision=2, fence=fence)
    _publish(connection, job_id, fence, sources, assertions=assertions, name=name)
    return time.perf_counter() - begin


def _publish_seconds(connection: Connection) -> list[float]:
    sources = [_derived_record(connection, number) for number in range(_SOURCES_MAX)]
    seconds = []
    for number in range(_PUBLICATIONS):
        name = f"large-{number}"
        job_id = _create(connection, sources, name)
        fence = _claim(connection, job_id, name)
        begin = time.perf_counter()
        _publish(connection, job_id, fence, sources, assertions=_SOURCES_MAX, name=name)
        seconds.append(time.perf_counter() - begin)
    return seconds


def _page_seconds(connect: Callable[[], Connection], refs: Sequence[Ref], workers: int) -> list[float]:
    def fill(connection: Connection, worker: int) -> None:
        for number in range(_LISTED_JOBS // workers):
            _create(connection, refs[:2], f"listed-{worker}-{number}")

    run_clients(connect, fill, clients=workers)
    connection = connect()
    seconds: list[float] = []
    after = None
    while True:
        begin = time.perf_counter()
        query = {"limit": 100, "scan_limit": 100, "after": after, "status": None}
        after = _post(connection, _QUERY, query=query)["page"]["next_after"]
        seconds.append(time.perf_counter() - begin)
        if after is None:
            connection.close()
            return seconds


def _create(connection: Connection, sources: Sequence[Ref], name: str) -> str:
    spec = {
        "sources": list(sources),
        "objective": "Find which of these passages speak of the same subject.",
        "policy_ref": "policy:benchmark",
        "extractor": {
            "origin": "tool_observation",
            "method": "benchmark-extractor",
            "method_revision": "1",
            "evidence_ref": "benchmark:extractor",
        },
        "max_relations": 16,
        "max_attempts": 3,
        "lease_millis": 60_000,
        "max_attempt_millis": 600_000,
    }
    job_id: str = _command(connection, f"create-{name}", {"type": "create", "spec": spec})["job_id"]
    return job_id


def _claim(connection: Connection, job_id: str, name: str) -> str:
    claim = {"type": "claim", "job_id": job_id, "expected_revision": 1, "worker_id": "benchmark"}
    _command(connection, f"claim-{name}", claim)
    fence: str = _post(connection, _INSPECT, job_id=job_id)["inspection"]["job"]["attempts"][-1]["fence"]
    return fence


def _publish(
    connection: Connection, job_id: str, fence: str, sources: Sequence[Ref], *, assertions: int, name: str
) -> None:
    pairs = [(sources[number % len(sources)], sources[(number + 1) % len(sources)]) for number in range(assertions)]
    publish = {
        "type": "publish",
        "job_id": job_id,
        "expected_revision": 2,
        "fence": fence,
        "assertions": [
            {"source": source, "target": target, "kind": "same_entity", "evidence_ref": f"benchmark:{number}"}
            for number, (source, target) in enumerate(pairs)
        ],
        "usage": {"status": "unknown"},
        "evidence_ref": "benchmark:run",
    }
    _command(connection, f"publish-{name}", publish)


def _derived_record(connection: Connection, number: int) -> Ref:
    ancestors = [
        _memory_command(
            connection, f"ancestor-{number}-{part}", {"type": "create", "record": _record("An observation.")}
        )
        for part in range(_ANCESTORS_A_SOURCE)
    ]
    derivation = {
        "sources": ancestors,
        "method": "benchmark-summary",
        "method_revision": "1",
        "evidence_ref": "benchmark:summary",
    }
    operation = {"type": "derive", "record": _record("A summary."), "derivation": derivation}
    return _memory_command(connection, f"derived-{number}", operation)


def _record(text: str) -> dict[str, Any]:
    return {"episode_type": "Observation", "content": {"primary": text}, "event_time_millis": 1_700_000_000_000}


def _memory_command(connection: Connection, key: str, operation: dict[str, Any]) -> Ref:
    receipt = _post(connection, _MEMORY_COMMANDS, idempotency_key=key, operation=operation)["receipt"]
    return {"record_id": receipt["record_id"], "revision": receipt["revision"]}


def _some_records(connection: Connection) -> list[Ref]:
    page = _post(connection, "/api/v1/memory/query", filter={"limit": 64})["page"]
    return [{"record_id": record["record_id"], "revision": record["revision"]} for record in page["records"]]


def _command(connection: Connection, key: str, operation: dict[str, Any]) -> dict[str, Any]:
    receipt: dict[str, Any] = _post(connection, _COMMANDS, idempotency_key=key, operation=operation)["receipt"]
    return receipt


def _post(connection: Connection, path: str, **members: Any) -> dict[str, Any]:
    body = json.dumps({"contract_version": 1, "scope": SCOPE, **members}).encode()
    answer: dict[str, Any] = json.loads(connection.post(path, body).checked().body)
    return answer

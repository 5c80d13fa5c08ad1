"""C28: a whole suite on a volume that is full: writes are refused with a reason, reads go on, nothing is lost."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from services.storage.client import GrpcStore
from tests.harness import builders, verdict
from tests.harness.api import Api
from tests.harness.suite import SERVICES, Suite, running_suite, wait_until
from tests.harness.untouched import dump

pytestmark = pytest.mark.fault

MIB = 1024 * 1024
VOLUME_BYTES = 48 * MIB
Json = dict[str, Any]
Request = tuple[str, Json]


def mount(path: Path, size: int) -> Iterator[Path]:
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a small volume needs root")
    try:
        yield path
    finally:
        subprocess.run(["umount", str(path)], check=True)


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    """A small volume for the data of `small_suite`."""
    yield from mount(tmp_path / "data", VOLUME_BYTES)


@pytest.fixture
def small_suite(tmp_path: Path, volume: Path) -> Iterator[Suite]:
    """A suite whose data lie on the volume and whose log does not."""
    assert volume == tmp_path / "data"
    with running_suite(tmp_path) as suite:
        yield suite


def fill(volume: Path, *, leaving: int = 0) -> Path:
    """Take all the room, or all but so much; removing the file gives it back."""
    path = volume / "filler"
    with path.open("ab", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            pass
        file.truncate(max(0, file.tell() - leaving))
    return path


class Job:
    """A running attempt, ready to be published."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.pair = [api.create("one"), api.create("two")]
        spec = {
            "sources": self.pair, "objective": "o", "policy_ref": "p", "extractor": builders.provenance_json(),
            "max_relations": 1, "max_attempts": 1, "lease_millis": 900_000, "max_attempt_millis": 900_000,
        }  # fmt: skip
        self.job_id = self.run({"type": "create", "spec": spec})["job_id"]
        self.run({"type": "claim", "job_id": self.job_id, "expected_revision": 1, "worker_id": "w"})
        inspected = api.expect("memory/consolidation/inspect", {"job_id": self.job_id})["inspection"]
        self.fence = inspected["job"]["attempts"][0]["fence"]

    def run(self, operation: Json) -> Json:
        body = {"idempotency_key": builders.new_key(), "operation": operation}
        receipt: Json = self.api.expect("memory/consolidation/commands", body)["receipt"]
        return receipt

    @property
    def publication(self) -> Request:
        operation = {
            "type": "publish", "job_id": self.job_id, "expected_revision": 2, "fence": self.fence,
            "assertions": [
                {"source": self.pair[0], "target": self.pair[1], "kind": "supports", "evidence_ref": "e"}
            ],
            "usage": {"status": "unknown"}, "evidence_ref": "e",
        }  # fmt: skip
        return "memory/consolidation/commands", {"idempotency_key": builders.new_key(), "operation": operation}


def commands(api: Api) -> list[Request]:
    """One command of every family, a publication among them."""
    job = Job(api)
    first, second = job.pair
    command = {
        "contract_version": 1, "idempotency_key": builders.new_key(), **api.create("third"),
        "disposition": "approved", "evidence_ref": "e",
    }  # fmt: skip
    command["expected_revision"] = command.pop("revision")
    delete = {"type": "delete", "record_id": api.create("fourth")["record_id"], "expected_revision": 1}
    return [
        ("memory/commands", builders.create_body(api.scope, "refused at first")),
        ("memory/commands", {"idempotency_key": builders.new_key(), "operation": delete}),
        ("memory/embeddings", builders.attach_body(api.scope, first["record_id"], [1.0, 2.0, 3.0])),
        ("memory/relations/commands", builders.assert_body(api.scope, first, second)),
        ("memory/reviews", {"command": command}),
        job.publication,
    ]


def send(api: Api, request: Request) -> httpx.Response:
    path, body = request
    if "command" in body:
        return api.client.post(f"/api/v1/{path}", json={"scope": api.scope, **body})
    return api.post(path, body)


def reads(api: Api) -> list[Any]:
    """Answers of all kinds of reads, without their times."""
    lexical = {"mode": "lexical", "query": {"text": "one", "limit": 9}}
    seed = {"ranking_version": "typed_path_balanced_v1", "seed": {"mode": "lexical", "text": "one"}, "limit": 9}
    pages = [
        api.expect("memory/query", {"filter": {"limit": 100}})["page"]["records"],
        api.expect("memory/query/ordered", {"query": {}})["page"]["records"],
        api.expect("memory/search/lexical", lexical)["page"]["hits"],
        api.expect("memory/search/graph", {"query": seed})["page"]["hits"],
    ]
    jobs = api.expect("memory/consolidation/query", {"query": {"limit": 9, "scan_limit": 9}})["page"]["jobs"]
    return [*pages, jobs]


def assert_alive(suite: Suite, starts: int) -> None:
    """Every process runs on and says so; nobody was started again."""
    assert suite.is_healthy()
    assert set(SERVICES) == set(suite.process_ids())
    assert starts == len(suite.events("started"))
    for name in SERVICES:
        if name != "gateway":
            with grpc.insecure_channel(suite.address(name)) as channel:
                answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=20.0)
            assert health_pb2.HealthCheckResponse.SERVING == answer.status, name


def is_writable(suite: Suite) -> bool:
    with GrpcStore(suite.address("storage")) as store:
        return store.status().writable


def test_writes_are_refused_with_a_reason_and_reads_go_on(small_suite: Suite, volume: Path, scope: Json) -> None:
    """503 `storage_full` for every family, nothing written, all processes alive; with room the same keys go through."""
    with small_suite.client() as client:
        api = Api(client, scope)
        requests = commands(api)
        told, starts, before = reads(api), len(small_suite.events("started")), dump(small_suite, scope)
        filler = fill(volume, leaving=256 * 1024)
        wait_until(lambda: not is_writable(small_suite), "storage has seen that its volume is full")
        for _ in range(2):
            for request in requests:
                refused = send(api, request)
                assert (503, "storage_full") == (refused.status_code, refused.json()["error"]["code"]), request[0]
                assert "no-store" == refused.headers["cache-control"]
        with small_suite.client(small_suite.admin_key) as admin:
            spec = {"subject_id": "s", "capabilities": ["memory_read"], "grants": []}
            refused = admin.post("/api/v1/credentials", json={"contract_version": 1, "spec": spec})
        assert (503, "storage_full") == (refused.status_code, refused.json()["error"]["code"])
        assert before == dump(small_suite, scope)
        assert told == reads(api)
        assert_alive(small_suite, starts)
        filler.unlink()
        wait_until(lambda: is_writable(small_suite), "storage has seen that there is room")
        receipts = [send(api, request) for request in requests]
        assert [200] * len(requests) == [response.status_code for response in receipts]
        assert receipts[0].json() == send(api, requests[0]).json()
        assert_alive(small_suite, starts)
    verdict.check_partition(small_suite, scope)
    verdict.check_ordinary(small_suite, scope)
    small_suite.stop()
    verdict.check_stopped(small_suite, scope)


def test_a_volume_that_fills_up_from_outside(small_suite: Suite, volume: Path, scope: Json) -> None:
    """Sixteen writers meet the very end: what was acknowledged is there, each other key tells what became of it."""
    text = "x" * 40_000
    start = threading.Barrier(17)

    def write(number: int) -> list[tuple[str, int, Any]]:
        outcomes = []
        with small_suite.client() as client:
            api = Api(client, scope)
            start.wait()
            for turn in range(12):
                key = f"{number}-{turn}"
                response = send(api, ("memory/commands", builders.create_body(scope, f"{text} {key}", key=key)))
                outcomes.append((key, response.status_code, response.json()))
        return outcomes

    with ThreadPoolExecutor(16) as pool:
        writers = [pool.submit(write, number) for number in range(16)]
        start.wait()
        filler = fill(volume)
        outcomes = [outcome for writer in writers for outcome in writer.result()]
    assert {200, 500, 503} >= {status for _, status, _ in outcomes}
    assert any(status != 200 for _, status, _ in outcomes)
    codes = {document["error"]["code"] for _, status, document in outcomes if status != 200}
    assert {"storage_full", "internal_error"} >= codes
    filler.unlink()
    wait_until(lambda: is_writable(small_suite), "storage writes again")
    with small_suite.client() as client:
        api = Api(client, scope)
        for key, status, document in outcomes:
            if status == 200:
                read = api.get(document["receipt"]["record_id"])
                assert f"{text} {key}" == read.json()["record"]["payload"]["content"]["primary"]
        for key, status, document in outcomes[::4]:
            again = send(api, ("memory/commands", builders.create_body(scope, f"{text} {key}", key=key)))
            assert 200 == again.status_code
            assert status != 200 or document == again.json()
    rows = verdict.check_partition(small_suite, scope)
    made = sum(status == 200 for _, status, _ in outcomes)
    assert made <= len(rows.records) <= len(outcomes)
    verdict.check_ordinary(small_suite, {**scope, "agent_id": "beside"})


@pytest.fixture
def log_volume(tmp_path: Path) -> Iterator[Path]:
    yield from mount(tmp_path / "logs", 64 * 1024)


def test_a_full_log_volume_stops_nobody(tmp_path: Path, log_volume: Path, scope: Json) -> None:
    """When no line can be written any more requests are served all the same, and processes end orderly."""
    with running_suite(tmp_path) as suite:
        suite.stop()
        suite.log = log_volume / "suite.log"
        suite.environment = {"WAGGLE_LOG_LEVEL": "debug"}
        suite.start()
        filler = fill(log_volume)
        with suite.client() as client:
            api = Api(client, scope)
            for number in range(20):
                api.create(f"record {number}")
                assert 404 == client.get("/api/v1/nope").status_code
            suite.kill("memory")
            api.create("after a kill")
        verdict.check_ordinary(suite, scope)
        filler.unlink()
        assert 0 == suite.stop()

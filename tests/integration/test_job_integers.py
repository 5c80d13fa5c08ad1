"""Integers of 64 bits through every hop of a job: gateway, gRPC, storage, SDK and the worker's journal.

No job lives long enough to get there, so records and a job are put there past the rules.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from qilbeedb import (
    ConsolidationClient,
    ConsolidationInput,
    ConsolidationResult,
    ConsumerTransportError,
    ExternalConsolidationWorker,
    SQLiteConsolidationJournal,
)
from services.domain import keys
from services.domain.canonical_json import canonical_bytes, parse_canonical
from services.domain.job_summaries import summary_of_job
from services.domain.jobs import decode_job, encode_job_history
from services.domain.scope import partition_id, scope_from_json
from services.storage.client import GrpcStore
from services.storage.contract import Commit, PartitionCommit, Put
from tests.harness import builders
from tests.harness.api import Api
from tests.harness.both_ways import BothWays
from tests.harness.documented_jobs import new_job
from tests.harness.documented_requests import Known
from tests.harness.partition_audit import read_rows
from tests.harness.suite import COMPANY, Suite

U64_MAX = 2**64 - 1
# A claim, a renewal and a publication before the last revision.
FIRST = U64_MAX - 3
USAGE = {
    "status": "reported",
    "model_calls": U64_MAX,
    "input_tokens": U64_MAX - 1,
    "output_tokens": 2**63 + 1,
    "cost_microusd": 2**53 + 1,
}


@dataclass(frozen=True)
class Far:
    """A job near its last revision, over two records at theirs."""

    known: Known
    job_id: str
    client: ConsolidationClient


@pytest.fixture
def far(suite: Suite, api: Api) -> Far:
    """Make records and job, and move them on."""
    partition = partition_id(COMPANY, scope_from_json(api.scope), None)
    pair = [api.create("one"), api.create("two")]
    with GrpcStore(suite.address("storage")) as store:

        def put(key: bytes, value: bytes) -> None:
            store.commit(Commit([PartitionCommit(partition, writes=[Put(key, value)])]))

        for record in pair:
            key = keys.record_key(record["record_id"])
            put(key, canonical_bytes(parse_canonical(read_rows(store, partition)[key]) | {"revision": U64_MAX}))
        known = Known(api, *({**record, "revision": U64_MAX} for record in (*pair, pair[1])), "")
        job_id = new_job(known)
        rows = read_rows(store, partition)
        job = replace(decode_job(rows[keys.job_key("writer", job_id)]), revision=FIRST)
        receipt = parse_canonical(rows[keys.job_history_key("writer", job_id, 1)])["receipt"] | {"revision": FIRST}
        put(keys.job_key("writer", job_id), job.encode())
        put(keys.job_summary_key("writer", job_id), summary_of_job(job, job_bytes=len(job.encode())).encode())
        put(keys.job_history_key("writer", job_id, FIRST), encode_job_history(job, receipt))
    client = ConsolidationClient(
        suite.url, suite.writer_key, tenant_id=COMPANY, subject_id="writer", scope=api.scope, timeout=30
    )
    return Far(known, job_id, client)


def losing_publications(client: ConsolidationClient) -> Callable[..., Any]:
    """The client's `command`, for which no publication gets through."""
    send = client.command

    def command(operation: dict[str, Any], *, idempotency_key: str) -> Any:
        if operation["type"] == "publish":
            raise ConsumerTransportError("transport_failure")
        return send(operation, idempotency_key=idempotency_key)

    return command


def extract(given: ConsolidationInput) -> ConsolidationResult:
    """Renew once, and link what was given."""
    given.renew()
    assert [U64_MAX, U64_MAX] == [record["revision"] for record in given.records]
    first, second = given.spec["sources"]
    found = {"source": first, "target": second, "kind": "same_entity", "evidence_ref": "seen"}
    return ConsolidationResult([found], USAGE, "run")


def forbidden(_: ConsolidationInput) -> ConsolidationResult:
    raise AssertionError("the extractor was called")


def test_every_digit_survives_every_hop(far: Far, both: BothWays, tmp_path: Path) -> None:
    """Revisions, references and counts up to 2^64-1 come back as they were, also after a restart of the worker."""
    client, known, job_id = far.client, far.known, far.job_id
    journal = tmp_path / "journal"
    worker = ExternalConsolidationWorker(client, SQLiteConsolidationJournal(journal), worker_id="w")
    send, client.command = client.command, losing_publications(client)  # type: ignore[method-assign]
    with pytest.raises(ConsumerTransportError):
        worker.run_once(job_id, extract)
    (state,) = sqlite3.connect(journal / "consolidation.sqlite3").execute("SELECT state FROM attempts").fetchone()
    for number in (U64_MAX, U64_MAX - 1, 2**63 + 1, 2**53 + 1):
        assert f"{number}" in state
    client.command = send  # type: ignore[method-assign]
    # As a new process would, from what the journal holds.
    worker = ExternalConsolidationWorker(client, SQLiteConsolidationJournal(journal), worker_id="w")
    result = worker.run_once(job_id, forbidden)
    assert ("published", U64_MAX) == (result["receipt"]["action"], result["receipt"]["revision"])
    job = result["inspection"]["job"]
    assert (U64_MAX, USAGE) == (job["revision"], job["attempts"][0]["usage"])
    assert [known.first, known.second] == job["spec"]["sources"]
    for revision in range(FIRST, U64_MAX + 1):
        history = client.revision(job_id, revision)
        assert revision == history["job"]["revision"] == history["receipt"]["revision"]
    assert [U64_MAX] == [summary["revision"] for summary in client.query()["jobs"]]

    scope = {"scope": known.scope}
    for path, body in (
        ("inspect", {"job_id": job_id}),
        ("revision", {"job_id": job_id, "revision": U64_MAX}),
        ("query", {"query": {"limit": 1, "scan_limit": 1}}),
    ):
        outcome = both.post(f"memory/consolidation/{path}", {**scope, **body})
        assert 200 == outcome.status
        assert f'"revision":{U64_MAX}' in outcome.text.replace(": ", ":")
    (output,) = job["output_receipts"]
    relation = known.api.expect("memory/relations/read", {"relation_id": output["relation_id"]})["relation"]
    assert (known.first, known.second) == (relation["input"]["source"], relation["input"]["target"])
    graph = known.api.expect("memory/graph/typed", {"query": {"root_record_ids": [known.first["record_id"]]}})["graph"]
    assert [output["relation_id"]] == [edge["relation_id"] for edge in graph["edges"]]


def test_context_at_the_last_revisions(far: Far, both: BothWays) -> None:
    """A context echoes the revision it was asked for, and its records theirs."""
    claim = {"type": "claim", "job_id": far.job_id, "expected_revision": FIRST, "worker_id": "w"}
    far.client.command(claim, idempotency_key="claim")
    fence = far.client.inspect(far.job_id)["job"]["attempts"][0]["fence"]
    assert FIRST + 1 == far.client.context(far.job_id, FIRST + 1, fence)["job_revision"]
    body = {"scope": far.known.scope, "job_id": far.job_id, "expected_revision": FIRST + 1, "fence": fence}
    context = both.post("memory/consolidation/context", body).document["context"]
    assert [U64_MAX, U64_MAX] == [record["revision"] for record in context["records"]]
    assert 409 == both.post("memory/consolidation/context", {**body, "expected_revision": U64_MAX}).status


def test_nothing_follows_the_last_revision(far: Far, both: BothWays) -> None:
    """A job at revision 2^64-1 refuses every further step as a bad request, and stays as it is."""
    for revision in range(FIRST, U64_MAX):
        kind = "claim" if (revision - FIRST) % 2 == 0 else "fail"
        operation: dict[str, Any] = {"type": kind, "job_id": far.job_id, "expected_revision": revision}
        if kind == "claim":
            operation["worker_id"] = "w"
        else:
            fence = far.client.inspect(far.job_id)["job"]["attempts"][-1]["fence"]
            operation |= {"fence": fence, "usage": {"status": "unknown"}, "evidence_ref": "e"}
        far.client.command(operation, idempotency_key=builders.new_key("step"))
    before = far.client.inspect(far.job_id)["job"]
    assert (U64_MAX, "running") == (before["revision"], before["status"])
    last = {"job_id": far.job_id, "expected_revision": U64_MAX}
    held = {**last, "fence": before["attempts"][-1]["fence"], "usage": {"status": "unknown"}, "evidence_ref": "e"}
    for operation in (
        {"type": "cancel", **last, "evidence_ref": "e"},
        {"type": "fail", **held},
        {"type": "publish", **held, "assertions": []},
        {"type": "reconcile_usage", **last, "attempt_number": 1, "usage": USAGE, "evidence_ref": "e"},
    ):
        body = {"scope": far.known.scope, "idempotency_key": builders.new_key("last"), "operation": operation}
        outcome = both.post("memory/consolidation/commands", body)
        assert (400, "invalid_request", "operation.expected_revision") == (*outcome.verdict, outcome.member)
    assert before == far.client.inspect(far.job_id)["job"]

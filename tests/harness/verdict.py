"""What must hold once a suite has recovered, judged on its bytes and through its gateway."""

from __future__ import annotations

from services.domain.scope import partition_id, scope_from_json
from services.storage.client import GrpcStore
from services.storage.directory import open_store
from tests.harness import builders
from tests.harness.api import Api
from tests.harness.known_memory import Json
from tests.harness.partition_audit import PartitionRows, read_partition
from tests.harness.suite import Suite
from tests.harness.workload import Client, Workload
from tests.harness.workload_questions import (
    question_of_record,
    question_of_relation,
    searches_of,
    without_times,
)
from tests.harness.workload_turns import WORDS


def check_partition(suite: Suite, scope: Json) -> PartitionRows:
    """Nothing is written by half. Returns the rows of a running suite's partition."""
    with GrpcStore(suite.address("storage")) as store:
        rows = read_partition(store, _partition(suite, scope))
    assert [] == rows.audit()
    return rows


def check_bytes(suite: Suite, load: Workload, scope: Json) -> None:
    """Nothing is written by half, and whatever is not in doubt lies there exactly as acknowledged."""
    rows = check_partition(suite, scope)
    doubtful = sum(len(client.left) for client in load.clients)
    for client in load.clients:
        _check_client(client, rows)
    known = sum(len(client.memory.records) for client in load.clients)
    assert known <= len(rows.records) <= known + doubtful


def _check_client(client: Client, rows: PartitionRows) -> None:
    memory = client.memory
    for record in memory.records.values():
        assert record.in_doubt or rows.records.get(record.id) == record.json
    for relation in memory.relations.values():
        assert relation.in_doubt or rows.relations.get(relation.id) == relation.json
    for job in memory.jobs.values():
        found = rows.jobs.get(job.json["job_id"], {})
        assert job.in_doubt or {name: found.get(name) for name in job.json} == job.json
    acknowledged = [command.receipt for command in client.commands if command.receipt is not None]
    keyed = [receipt for receipt in acknowledged if "idempotency_key" in receipt]
    stored = {receipt["idempotency_key"] + _family(receipt): receipt for receipt in rows.receipts.values()}
    assert keyed == [stored.get(receipt["idempotency_key"] + _family(receipt)) for receipt in keyed]


def check_gateway(suite: Suite, load: Workload, scope: Json) -> None:
    """Everything is read, and every key answered, as it was acknowledged. Nothing may be in doubt any more."""
    for client in load.clients:
        for record in client.memory.records.values():
            load.question(question_of_record(client.memory, record, scope))
        for relation in client.memory.relations.values():
            load.question(question_of_relation(relation))
        for credential in client.memory.credentials.values():
            with suite.client(credential.json["secret"]) as http:
                status = http.get("/api/v1/identity").status_code
            assert (401 if credential.json["is_revoked"] else 200) == status
    load.repeat_all()


def check_searches(suite: Suite, load: Workload, scope: Json) -> None:
    """The replica that followed the log through all failures answers like one that has just been loaded."""
    record_ids = [record.id for client in load.clients for record in client.memory.eligible_records()]
    with suite.client() as http:
        api = Api(http, scope)

        def answers() -> list[Json]:
            return [without_times(api.expect(*asked)) for asked in searches_of(WORDS, record_ids)]

        followed = answers()
        suite.kill("retrieval")
        suite.wait_healthy()
        for before, after in zip(followed, answers(), strict=True):
            assert before == after
        corpus = api.expect("memory/search/lexical", {"mode": "lexical", "query": {"text": "load", "limit": 1}})
        assert len(record_ids) == corpus["page"]["corpus_records"]


def check_ordinary(suite: Suite, scope: Json) -> None:
    """A write and a search succeed at once."""
    with suite.client() as http:
        api = Api(http, scope)
        record = api.create("afterwards")
        asked = {"mode": "lexical", "query": {"text": "afterwards", "limit": 9}}
        hits = [hit["record"] for hit in api.expect("memory/search/lexical", asked)["page"]["hits"]]
        assert [record] == [builders.reference(hit["record_id"], hit["revision"]) for hit in hits]


def check_stopped(suite: Suite, scope: Json) -> PartitionRows:
    """The store of a suite that does not run agrees with itself, log and counts included. Returns its rows."""
    with open_store(suite.data_directory) as store:
        assert [] == store.verify().problems
        rows = read_partition(store, _partition(suite, scope))
    assert [] == rows.audit()
    return rows


def _family(receipt: Json) -> str:
    return next(name for name in ("relation_id", "job_id", "vector_digest", "review", "record_id") if name in receipt)


def _partition(suite: Suite, scope: Json) -> bytes:
    return partition_id(suite.company, scope_from_json(scope), None)

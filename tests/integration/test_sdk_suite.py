"""The SDK against a running suite: the documented snippet as it stands, jobs to the last digit, and all of memory."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from qilbeedb import (
    ConsolidationClient,
    ConsolidationInput,
    ConsolidationResult,
    ConsumerAPIError,
    ConsumerError,
    ConsumerProtocolError,
    ExternalConsolidationWorker,
    MemoryClient,
    SQLiteConsolidationJournal,
)
from qilbeedb._transport import Response
from tests.harness import builders
from tests.harness.api import Api
from tests.harness.spoiling import spoiled, without
from tests.harness.suite import COMPANY, Suite

README = Path(__file__).resolve().parents[2] / "sdk" / "README.md"
U64_MAX = 2**64 - 1
SPACE = {**builders.SPACE, "dimensions": 2}


@pytest.fixture
def jobs(suite: Suite, scope: dict[str, Any]) -> ConsolidationClient:
    return ConsolidationClient(
        suite.url, suite.writer_key, tenant_id=COMPANY, subject_id="writer", scope=scope, timeout=30
    )


@pytest.fixture
def memory(suite: Suite, scope: dict[str, Any]) -> MemoryClient:
    return MemoryClient(
        suite.url, suite.writer_key, tenant_id=COMPANY, subject_id="writer", scope=scope, timeout=30, retries=5
    )


def create_job(jobs: ConsolidationClient, *sources: dict[str, Any], **members: Any) -> str:
    """Create a job over these sources and return its id."""
    spec = {
        "sources": list(sources),
        "objective": "link what belongs together",
        "policy_ref": "policy:1",
        "extractor": builders.provenance_json(),
        "max_relations": 4,
        "max_attempts": 2,
        "lease_millis": 60_000,
        "max_attempt_millis": 600_000,
        **members,
    }
    receipt = jobs.command({"type": "create", "spec": spec}, idempotency_key=builders.new_key("job"))
    job_id: str = receipt["job_id"]
    return job_id


def test_the_documented_snippet(
    suite: Suite, api: Api, jobs: ConsolidationClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Word for word: it publishes what the extractor found, and a graph walks it."""
    snippet = snippets()[0]
    opened: list[str] = []

    class JournalBelow(SQLiteConsolidationJournal):
        """The journal of the snippet, whose absolute directory stands for one of the test's own."""

        def __init__(self, directory: str) -> None:
            opened.append(directory)
            super().__init__(tmp_path / directory.lstrip("/"))

    monkeypatch.setattr("qilbeedb.SQLiteConsolidationJournal", JournalBelow)
    one, two = api.create("The hive swarmed."), api.create("A swarm hangs in the oak.")
    usage = {"status": "reported", "model_calls": 1, "input_tokens": U64_MAX, "output_tokens": 0, "cost_microusd": None}

    def application_extractor(given: ConsolidationInput) -> ConsolidationResult:
        assert ["The hive swarmed.", "A swarm hangs in the oak."] == [
            record["payload"]["content"]["primary"] for record in given.records
        ]
        given.renew()
        found = {"source": given.spec["sources"][0], "target": given.spec["sources"][1], "kind": "same_entity"}
        return ConsolidationResult([{**found, "evidence_ref": "swarm"}], usage, "run:1")

    names: dict[str, Any] = {
        "api_url": suite.url,
        "api_key": suite.writer_key,
        "company_id": COMPANY,
        "authenticated_worker_subject": "writer",
        "authorized_scope": api.scope,
        "job_id": create_job(jobs, one, two),
        "application_extractor": application_extractor,
    }
    run_snippet(snippet, names)
    assert ["/var/lib/my-agent/consolidation"] == opened
    receipt, inspection = names["result"]["receipt"], names["result"]["inspection"]
    assert ("published", 4) == (receipt["action"], receipt["revision"])
    assert usage == inspection["job"]["attempts"][0]["usage"]
    (output,) = inspection["job"]["output_receipts"]
    graph = api.expect("memory/graph/typed", {"query": {"root_record_ids": [one["record_id"]]}})["graph"]
    assert [output["relation_id"]] == [edge["relation_id"] for edge in graph["edges"]]


def test_the_rest_of_the_readme(suite: Suite, scope: dict[str, Any], jobs: ConsolidationClient, tmp_path: Path) -> None:
    """Memories, a graph search, a job over them and its extractor: what the reader types works in this order."""
    _, extractor, job, memories = snippets()
    names: dict[str, Any] = {
        "api_url": suite.url,
        "api_key": suite.writer_key,
        "company_id": COMPANY,
        "authenticated_subject": "writer",
        "authorized_scope": scope,
        "client": jobs,
    }
    for snippet in (memories, extractor, job):
        run_snippet(snippet, names)
    texts = [hit["record"]["payload"]["content"]["primary"] for hit in names["page"]["hits"]]
    assert ["Scouts found nectar in the southern field, for hive 7", "Hive 7 moved south"] == texts
    assert [0, 1] == [len(hit["graph"]["steps"]) for hit in names["page"]["hits"]]
    worker = ExternalConsolidationWorker(jobs, SQLiteConsolidationJournal(tmp_path / "journal"), worker_id="reader")
    result = worker.run_once(names["job_id"], names["application_extractor"])
    assert ("published", 1) == (result["receipt"]["action"], len(result["inspection"]["job"]["output_receipts"]))


def snippets() -> list[str]:
    """The Python of the SDK's README, block by block."""
    return re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def run_snippet(snippet: str, names: dict[str, Any]) -> None:
    exec(compile(snippet, "README.md", "exec"), names)  # noqa: S102 - the snippet is ours


def test_every_reading_of_jobs(api: Api, jobs: ConsolidationClient) -> None:
    """Discovery, inspection and history of real jobs pass every check, in each status."""
    sources = [api.create("one"), api.create("two")]
    ids = [create_job(jobs, *sources, max_attempts=1) for _ in range(5)]
    for job_id in ids[1:]:
        claim = {"type": "claim", "job_id": job_id, "expected_revision": 1, "worker_id": "w"}
        jobs.command(claim, idempotency_key=builders.new_key("claim"))
    fences = {job_id: jobs.inspect(job_id)["job"]["attempts"][0]["fence"] for job_id in ids[1:]}
    end = {"usage": {"status": "unknown"}, "evidence_ref": "e", "expected_revision": 2}
    assert 2 == len(jobs.context(ids[1], 2, fences[ids[1]])["records"])
    for job_id, kind, members in (
        (ids[2], "publish", {"assertions": []}),
        (ids[3], "fail", {}),
    ):
        operation = {"type": kind, "job_id": job_id, "fence": fences[job_id], **end, **members}
        jobs.command(operation, idempotency_key=builders.new_key(kind))
    cancel = {"type": "cancel", "job_id": ids[4], "expected_revision": 2, "evidence_ref": "e"}
    jobs.command(cancel, idempotency_key="cancel")
    usage = {"status": "reported", "model_calls": U64_MAX, "input_tokens": 0, "output_tokens": 0, "cost_microusd": 1}
    reconcile = {
        "type": "reconcile_usage", "job_id": ids[3], "expected_revision": 3, "attempt_number": 1, "usage": usage,
        "evidence_ref": "invoice",
    }  # fmt: skip
    jobs.command(reconcile, idempotency_key="reconcile")
    statuses = ["ready", "running", "published", "exhausted", "cancelled"]
    assert statuses == [jobs.inspect(job_id)["job"]["status"] for job_id in ids]
    for job_id in ids:
        for revision in range(1, jobs.inspect(job_id)["job"]["revision"] + 1):
            assert revision == jobs.revision(job_id, revision)["job"]["revision"]
    for status in [None, *statuses]:
        found: list[str] = []
        after = None
        while True:
            page = jobs.query(limit=1, scan_limit=2, after=after, status=status)
            found += [summary["job_id"] for summary in page["jobs"]]
            after = page["next_after"]
            if after is None:
                break
        assert (sorted(ids) if status is None else [ids[statuses.index(status)]]) == found


def record(text: str, **members: Any) -> dict[str, Any]:
    return builders.record_json(text, **members)


def reference(receipt: dict[str, Any]) -> dict[str, Any]:
    return builders.reference(receipt["record_id"], receipt["revision"])


def test_records(memory: MemoryClient) -> None:
    """Create, replay, update, derive, read in every way, review, delete."""
    first = memory.create(record("nectar in the south", metadata={"big": U64_MAX}), idempotency_key="1")
    assert first == memory.create(record("nectar in the south", metadata={"big": U64_MAX}), idempotency_key="1")
    assert U64_MAX == memory.read(first["record_id"])["payload"]["metadata"]["big"]
    second = memory.create(record("rain in the north", tags=["weather"]), idempotency_key="2")
    updated = memory.update(second["record_id"], 1, record("snow", tags=["weather"]), idempotency_key="3")
    assert 2 == updated["revision"]
    derivation = {
        "sources": [reference(first), reference(updated)], "method": "m", "method_revision": "1", "evidence_ref": "e",
    }  # fmt: skip
    derived = memory.derive(record("fly south"), derivation, idempotency_key="4")
    ids = sorted(receipt["record_id"] for receipt in (first, second, derived))
    pages, after = [], None
    while True:
        page = memory.query(limit=1, after=after)
        pages += [found["record_id"] for found in page["records"]]
        after = page["next_after"]
        if after is None:
            break
    assert ids == pages
    assert [second["record_id"]] == [found["record_id"] for found in memory.query(tag="weather")["records"]]
    assert 2 == len(memory.query_ordered(limit=2, order="created_asc")["records"])
    asked = [derived["record_id"], "00000000-0000-4000-8000-000000000000"]
    assert [True, False] == [entry["record"] is not None for entry in memory.read_batch(asked)["entries"]]
    assert 3 == len(memory.ancestry([derived["record_id"]])["nodes"])
    assert memory.eligibility(derived["record_id"])["eligible"]
    review = memory.review(updated["record_id"], 2, "rejected", "seen", idempotency_key="5")
    assert review == memory.review_receipt(updated["record_id"], 3)
    assert "rejected" == memory.review_state(updated["record_id"])["review"]["disposition"]
    assert "source_revision_changed" == memory.eligibility(derived["record_id"])["first_failure"]["reason"]
    assert "deleted" == memory.delete(first["record_id"], 1, idempotency_key="6")["action"]
    with pytest.raises(ConsumerAPIError) as caught:
        memory.read(first["record_id"])
    assert ("record_not_found", 404) == (caught.value.code, caught.value.status)


@pytest.fixture
def linked(memory: MemoryClient) -> tuple[dict[str, Any], dict[str, Any], str]:
    """Two records with vectors and a relation between them."""
    one = reference(memory.create(record("nectar in the south"), idempotency_key="one"))
    two = reference(memory.create(record("the hive moved"), idempotency_key="two"))
    for number, found in enumerate((one, two)):
        memory.attach_embedding(found["record_id"], 1, SPACE, [1.0, float(number)], idempotency_key=f"vector {number}")
    relation = {"source": one, "target": two, "kind": "causal_claim", "provenance": builders.provenance_json()}
    receipt = memory.assert_relation(relation, idempotency_key="relation")
    return one, two, receipt["relation_id"]


def test_relations(memory: MemoryClient, linked: tuple[dict[str, Any], dict[str, Any], str]) -> None:
    """Assert, read, review, retire, restore, inspect, history, walk."""
    one, _, relation_id = linked
    assert "causal_claim" == memory.read_relation(relation_id)["input"]["kind"]
    assert 2 == memory.review_relation(relation_id, 1, "approved", "e", idempotency_key="1")["revision"]
    assert "retired" == memory.retire_relation(relation_id, 2, "e", idempotency_key="2")["action"]
    assert "retired" == memory.inspect_relation(relation_id)["eligibility"]["reason"]
    assert "restored" == memory.restore_relation(relation_id, 3, "e", idempotency_key="3")["action"]
    assert "retired" == memory.relation_revision(relation_id, 3)["relation"]["state"]
    graph = memory.traverse([one["record_id"]], direction="outgoing", max_depth=1)
    assert [relation_id] == [edge["relation_id"] for edge in graph["edges"]]


def test_searches(memory: MemoryClient, linked: tuple[dict[str, Any], dict[str, Any], str]) -> None:
    """All four searches and both catalogs."""
    one, two, relation_id = linked
    both = [one["record_id"], two["record_id"]]
    assert both == [hit["record"]["record_id"] for hit in memory.search_semantic(SPACE, [1, 0])["hits"]]
    assert both[:1] == [hit["record"]["record_id"] for hit in memory.search_lexical("nectar")["hits"]]
    hybrid = memory.search_hybrid("nectar", SPACE, [1, 0], ranking_version="weighted_rrf_v2")
    assert both == [hit["record"]["record_id"] for hit in hybrid["hits"]]
    seeds: list[dict[str, Any]] = [
        {"mode": "lexical", "text": "nectar"},
        {"mode": "semantic", "space": SPACE, "vector": [1, 0], "min_score": 0.9},
        {"mode": "hybrid", "text": "nectar", "space": SPACE, "vector": [1, 0], "ranking_version": "weighted_rrf_v1"},
    ]
    for seed in seeds:
        page = memory.search_graph(seed)
        assert both == [hit["record"]["record_id"] for hit in page["hits"]]
        # Whoever the base search finds itself needs no path, unless a path is the better reason.
        found_by_path = [relation_id] if seed["mode"] != "hybrid" else []
        assert found_by_path == [relation["relation_id"] for relation in page["relations"]]
    assert "bm25_v1" == memory.ranking_profiles()["component_versions"]["lexical"]
    assert 4 == len(memory.graph_ranking_profiles()["graph_profiles"])


class Replaying:
    """A transport that proves the identity for real, and answers the rest with a document of the test's."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.endpoint = inner.endpoint
        self.document: Any = None
        self.identity: Response | None = None

    def exchange(self, method: str, path: str, body: bytes | None = None) -> Response:
        if path == "/api/v1/identity":
            self.identity = self.identity or self.inner.exchange(method, path, body)
            return self.identity
        if self.document is None:
            response: Response = self.inner.exchange(method, path, body)
            self.document = response.document
        return Response(200, self.document)


# Members that the documentation lets a server leave out.
OPTIONAL = re.compile(
    r"(review|derivation|secondary|context|data|embedding|valid_until_millis|valid_from_millis|tags|metadata|model"
    r"|mission_id|dependency_work|evidence_sources)$"
)
FREE = ("data", "metadata", "error")


@dataclass(frozen=True)
class Linked:
    """What the calls below are about."""

    memory: MemoryClient
    record_id: str
    relation_id: str


CALLS: dict[str, Callable[[Linked], Any]] = {
    "create": lambda given: given.memory.create(record("nectar in the south"), idempotency_key="one"),
    "attach": lambda given: given.memory.attach_embedding(
        given.record_id, 1, SPACE, [1.0, 0.0], idempotency_key="vector 0"
    ),
    "read": lambda given: given.memory.read(given.record_id),
    "batch": lambda given: given.memory.read_batch([given.record_id, given.relation_id]),
    "query": lambda given: given.memory.query(limit=1),
    "ordered": lambda given: given.memory.query_ordered(limit=1),
    "state": lambda given: given.memory.review_state(given.record_id),
    "eligibility": lambda given: given.memory.eligibility(given.record_id),
    "read relation": lambda given: given.memory.read_relation(given.relation_id),
    "inspect relation": lambda given: given.memory.inspect_relation(given.relation_id),
    "relation revision": lambda given: given.memory.relation_revision(given.relation_id, 1),
    "traverse": lambda given: given.memory.traverse([given.record_id]),
    "ancestry": lambda given: given.memory.ancestry([given.record_id]),
    "semantic": lambda given: given.memory.search_semantic(SPACE, [1, 0]),
    "lexical": lambda given: given.memory.search_lexical("nectar"),
    "hybrid": lambda given: given.memory.search_hybrid("hive", SPACE, [1, 0], ranking_version="weighted_rrf_v2"),
    "graph": lambda given: given.memory.search_graph({"mode": "lexical", "text": "nectar"}),
    "graph by vector": lambda given: given.memory.search_graph({"mode": "semantic", "space": SPACE, "vector": [1, 0]}),
    "profiles": lambda given: given.memory.ranking_profiles(),
    "graph profiles": lambda given: given.memory.graph_ranking_profiles(),
}


@pytest.mark.parametrize("name", CALLS)
def test_every_member_of_every_answer_is_checked(
    memory: MemoryClient, linked: tuple[dict[str, Any], dict[str, Any], str], name: str
) -> None:
    """A real answer with any one member taken away, added, or of another type is refused."""
    replaying = Replaying(memory._session.transport)
    memory._session.transport = replaying  # type: ignore[assignment]
    given = Linked(memory, linked[0]["record_id"], linked[2])
    CALLS[name](given)
    whole = replaying.document
    changes = [
        (what, document)
        for what, document in spoiled(whole, free=FREE)
        if what.endswith((" replaced", " with another member", " as an array", " as text"))
    ]
    changes += [(what, document) for what, document in without(whole, free=FREE) if not OPTIONAL.search(what)]
    accepted = []
    for what, document in changes:
        replaying.document = document
        try:
            CALLS[name](given)
        except ConsumerProtocolError:
            continue
        accepted.append(what)
    # A free member may be replaced by anything; only the record's own content has such.
    assert [] == [what for what in accepted if not re.search(r"(data|metadata) (replaced|with another member)$", what)]


@pytest.fixture
def stranger(suite: Suite, scope: dict[str, Any]) -> MemoryClient:
    return MemoryClient(suite.url, suite.writer_key, tenant_id=COMPANY, subject_id="stranger", scope=scope)


def test_somebody_elses_credential(stranger: MemoryClient) -> None:
    """Nothing is written with a credential of another subject."""
    with pytest.raises(ConsumerError) as caught:
        stranger.create(record("x"), idempotency_key="1")
    assert ("credential_identity_mismatch", "not_attempted") == (caught.value.code, caught.value.checkpoint_outcome)

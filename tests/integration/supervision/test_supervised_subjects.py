"""Graphs, relations and jobs of a company as its administrator sees them, and the cancellation of a job."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

from tests.harness import builders
from tests.harness.api import Api
from tests.harness.company import Company, workspace_of
from tests.harness.suite import COMPANY, Suite

ABSENT = "00000000-0000-4000-8000-00000000dead"
OWNERS = ["a", "a ", "a!", 'a"b', "a\\", "é", "日本", "\N{HONEYBEE}"]


def create_job(api: Api, *sources: dict[str, Any]) -> str:
    """Create a job over these sources and return its id."""
    spec = builders.job_spec_json(*sources)
    body = {"idempotency_key": builders.new_key("job"), "operation": {"type": "create", "spec": spec}}
    job_id: str = api.expect("memory/consolidation/commands", body)["receipt"]["job_id"]
    return job_id


def test_graphs_are_those_of_the_owner(api: Api, company: Company) -> None:
    """Typed graph and ancestry answer what the scoped routes answer, and hold only what is served."""
    first, second = api.create("The beam cracked."), api.create("The roof fell.")
    relation_id = api.relate(first, second)
    derive = {
        "type": "derive",
        "record": builders.record_json("Both."),
        "derivation": {"sources": [first, second], "method": "m", "method_revision": "1", "evidence_ref": "e"},
    }
    body = {"idempotency_key": builders.new_key("derive"), "operation": derive}
    derived = api.expect("memory/commands", body)["receipt"]["record_id"]
    workspace = company.find(api.scope)
    for path, root in (("graph/typed", first["record_id"]), ("graph", derived)):
        query = {"query": {"root_record_ids": [root, ABSENT]}}
        document = company.expect(path, {"workspace_id": workspace["workspace_id"], **query})
        own = api.expect(f"memory/{path}", query)["graph"]
        assert (document["company_id"], document["workspace"]) == (COMPANY, workspace)
        assert document["graph"] == {**own, "evaluated_at_millis": document["graph"]["evaluated_at_millis"]}
        assert [found["status"] for found in own["roots"]] == ["included", "unavailable"]
    changed = api.update(second, "The roof stands.")
    assert changed["revision"] == 2
    body = {"workspace_id": workspace["workspace_id"], "query": {"root_record_ids": [first["record_id"], derived]}}
    graph = company.expect("graph/typed", body)["graph"]
    assert (graph["edges"], graph["roots"][1]["status"]) == ([], "unavailable")
    inspected = company.expect("relations/inspect", {**workspace_of(workspace), "relation_id": relation_id})
    assert inspected["inspection"]["eligibility"]["reason"] == "endpoint_revision_changed"


def test_relations_of_any_state(api: Api, company: Company) -> None:
    """A retired relation is shown with its verdict, and each of its revisions with its receipt."""
    first, second = api.create("one"), api.create("two")
    relation_id = api.relate(first, second)
    retire = {"type": "retire", "relation_id": relation_id, "expected_revision": 1, "evidence_ref": "e"}
    body = {"idempotency_key": builders.new_key("retire"), "operation": retire}
    receipt = api.expect("memory/relations/commands", body)["receipt"]
    named = {**workspace_of(company.find(api.scope)), "relation_id": relation_id}
    inspection = company.expect("relations/inspect", named)["inspection"]
    assert (inspection["relation"]["state"], inspection["eligibility"]["reason"]) == ("retired", "retired")
    history = [company.expect("relations/revision", {**named, "revision": number})["history"] for number in (1, 2)]
    assert [entry["relation"]["state"] for entry in history] == ["active", "retired"]
    assert history[1]["receipt"] == receipt
    assert company.refusal("relations/revision", {**named, "revision": 3}) == (404, "record_not_found")


def test_jobs_of_owners_with_odd_names(
    suite: Suite, company: Company, open_api: Callable[..., Api], scope: dict[str, Any]
) -> None:
    """By the UTF-8 bytes of the JSON text of the owner, then by id, over pages of any size; cursors are objects."""
    expected: list[tuple[str, str]] = []
    for owner in OWNERS:
        api = open_api(suite.issue(owner, ["memory_read", "memory_write"]), scope)
        sources = api.create("one"), api.create("two")
        expected += [(owner, create_job(api, *sources)) for _ in range(2)]
    expected.sort(key=lambda pair: (json.dumps(pair[0], ensure_ascii=False).encode(), uuid.UUID(pair[1]).bytes))
    named = workspace_of(company.find(scope))
    for limit, scan_limit in ((100, 1000), (1, 1), (5, 3)):
        found: list[tuple[str, str]] = []
        after: dict[str, str] | None = None
        while True:
            query: dict[str, Any] = {"limit": limit, "scan_limit": scan_limit, "after": after}
            page = company.expect("consolidation/query", {**named, "query": query})["page"]
            found += [(job["owner_id"], job["summary"]["job_id"]) for job in page["jobs"]]
            after = page["next_after"]
            if after is None:
                break
            assert (after["owner_id"], after["job_id"]) == found[-1]
        assert found == expected
    owner, job_id = expected[3]
    inspection = company.expect("consolidation/inspect", {**named, "owner_id": owner, "job_id": job_id})["inspection"]
    assert (inspection["job"]["created_by"]["subject_id"], inspection["source_failure"]) == (owner, None)
    other = next(name for name in OWNERS if name != owner)
    wrong_owner = {**named, "owner_id": other, "job_id": job_id}
    assert company.refusal("consolidation/inspect", wrong_owner) == (404, "record_not_found")
    query = {"limit": 1, "scan_limit": 1000, "status": "published", "after": None}
    page = company.expect("consolidation/query", {**named, "query": query})["page"]
    assert (page["jobs"], page["next_after"], page["records_examined"]) == ([], None, len(expected))
    wrong: list[dict[str, Any]] = [
        {"limit": 1}, {"limit": 0, "scan_limit": 1}, {"limit": 1, "scan_limit": 1001},
        {"limit": 1, "scan_limit": 1, "after": {"owner_id": "a"}}, {"limit": 1, "scan_limit": 1, "after": ABSENT},
        {"limit": 1, "scan_limit": 1, "after": {"owner_id": "", "job_id": ABSENT}},
        {"limit": 1, "scan_limit": 1, "after": {"owner_id": "a", "job_id": ABSENT, "more": 1}},
    ]  # fmt: skip
    for members in wrong:
        assert company.refusal("consolidation/query", {**named, "query": members}) == (400, "invalid_request")


def test_cancelling_a_job(api: Api, company: Company) -> None:
    """The administrator is the author; replays return the first receipt, to the owner too; stale and ended are told."""
    job_id = create_job(api, api.create("one"), api.create("two"))
    named = {**workspace_of(company.find(api.scope)), "owner_id": "writer", "job_id": job_id}
    key = builders.new_key("cancel")
    command = {**named, "expected_revision": 1, "idempotency_key": key, "evidence_ref": "ticket:1"}
    stale = {**command, "expected_revision": 9}
    assert company.refusal("consolidation/cancel", stale) == (409, "revision_conflict")
    receipt = company.expect("consolidation/cancel", command)["receipt"]
    assert (receipt["action"], receipt["revision"], receipt["author"]["subject_id"]) == (
        "cancelled", 2, "administrator",
    )  # fmt: skip
    assert company.expect("consolidation/cancel", command)["receipt"] == receipt
    operation = {"type": "cancel", "job_id": job_id, "expected_revision": 1, "evidence_ref": "ticket:1"}
    replayed = api.expect("memory/consolidation/commands", {"idempotency_key": key, "operation": operation})
    assert replayed["receipt"] == receipt
    assert company.refusal("consolidation/cancel", stale) == (409, "idempotency_conflict")
    ended = {**command, "expected_revision": 2, "idempotency_key": builders.new_key("cancel")}
    assert company.refusal("consolidation/cancel", ended) == (400, "invalid_request")
    assert company.refusal("consolidation/cancel", {**ended, "owner_id": "other"}) == (404, "record_not_found")
    history = company.expect("consolidation/revision", {**named, "revision": 2})["history"]
    own = api.expect("memory/consolidation/revision", {"job_id": job_id, "revision": 2})["history"]
    assert history == own
    assert (history["receipt"], history["job"]["created_by"]["subject_id"]) == (receipt, "writer")
    assert history["job"]["status"] == "cancelled"

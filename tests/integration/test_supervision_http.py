"""Supervision of a company through the gateway of a running suite: authority, answers, order, cursors, cancellation."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.harness import builders
from tests.harness.api import Api
from tests.harness.closed_shapes import ClosedShapes
from tests.harness.suite import COMPANY, Suite

ABSENT = "00000000-0000-4000-8000-00000000dead"
NOWHERE = "0" * 64
OWNERS = ["a", "a ", "a!", 'a"b', "a\\", "é", "日本", "\N{HONEYBEE}"]
CANCEL = {"expected_revision": 1, "idempotency_key": "k", "evidence_ref": "ticket:1"}
JOB = {"owner_id": "writer", "job_id": ABSENT}

# Every route on one workspace, with a body that is in order but for the workspace.
IN_WORKSPACE: dict[str, dict[str, Any]] = {
    "query": {"filter": {}},
    "read": {"record_id": ABSENT},
    "graph": {"query": {"root_record_ids": [ABSENT]}},
    "graph/typed": {"query": {"root_record_ids": [ABSENT]}},
    "relations/inspect": {"relation_id": ABSENT},
    "relations/revision": {"relation_id": ABSENT, "revision": 1},
    "consolidation/query": {"query": {"limit": 10, "scan_limit": 100}},
    "consolidation/inspect": JOB,
    "consolidation/revision": {**JOB, "revision": 1},
    "consolidation/cancel": {**JOB, **CANCEL},
}
# What does not exist in a workspace that does is 404 on these; the others answer with what there is.
WITH_SUBJECT = sorted(set(IN_WORKSPACE) - {"query", "graph", "graph/typed", "consolidation/query"})


class Company:
    """An administrator's client."""

    def __init__(self, client: httpx.Client, shapes: ClosedShapes) -> None:
        self.client = client
        self.shapes = shapes

    def post(self, path: str, body: dict[str, Any]) -> httpx.Response:
        """POST to a route below /api/v1/company/memory; the answer must have its declared shape."""
        route = f"/api/v1/company/memory/{path}"
        response = self.client.post(route, json={"contract_version": 1, **body})
        assert self.shapes.faults("POST", route, response.status_code, response.json()) == []
        assert response.headers["cache-control"] == "no-store"
        return response

    def expect(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """POST, and return the JSON of a 200."""
        response = self.post(path, body)
        assert response.status_code == 200, response.text
        document: dict[str, Any] = response.json()
        return document

    def refusal(self, path: str, body: dict[str, Any]) -> tuple[int, str]:
        """POST, and return status and code of the refusal."""
        response = self.post(path, body)
        return response.status_code, response.json()["error"]["code"]

    def workspaces(self, **query: Any) -> dict[str, Any]:
        """A page of the directory."""
        response = self.client.get("/api/v1/company/memory/workspaces", params={"contract_version": 1, **query})
        assert response.status_code == 200, response.text
        document: dict[str, Any] = response.json()
        assert self.shapes.faults("GET", "/api/v1/company/memory/workspaces", 200, document) == []
        return document

    def find(self, scope: dict[str, Any], subject: str | None = None) -> dict[str, Any]:
        """The workspace of a scope."""
        after: dict[str, str] = {}
        while True:
            page = self.workspaces(limit=100, **after)["page"]
            for workspace in page["workspaces"]:
                if (workspace["scope"], workspace["private_subject_id"]) == (scope, subject):
                    found: dict[str, Any] = workspace
                    return found
            assert page["next_after_workspace_id"] is not None, "the directory lacks a workspace"
            after = {"after_workspace_id": page["next_after_workspace_id"]}


@pytest.fixture(scope="module")
def shapes(suite: Suite) -> ClosedShapes:
    """The published answers."""
    with suite.client("") as client:
        return ClosedShapes(client.get("/openapi.json").json())


@pytest.fixture
def company(suite: Suite, shapes: ClosedShapes) -> Iterator[Company]:
    """The company's administrator."""
    with suite.client(suite.admin_key) as client:
        yield Company(client, shapes)


@pytest.fixture
def rival(suite: Suite, shapes: ClosedShapes) -> Iterator[Company]:
    """The administrator of another company."""
    with suite.client(suite.other_admin_key) as client:
        yield Company(client, shapes)


@pytest.fixture
def open_api(suite: Suite) -> Iterator[Callable[..., Api]]:
    """Opens clients with keys and scopes of their own."""
    clients: list[httpx.Client] = []

    def open_client(key: str, scope: dict[str, Any]) -> Api:
        clients.append(suite.client(key))
        return Api(clients[-1], scope)

    yield open_client
    for client in clients:
        client.close()


def create_job(api: Api, *sources: dict[str, Any]) -> str:
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
    }
    body = {"idempotency_key": builders.new_key("job"), "operation": {"type": "create", "spec": spec}}
    job_id: str = api.expect("memory/consolidation/commands", body)["receipt"]["job_id"]
    return job_id


@pytest.mark.parametrize("path", IN_WORKSPACE)
def test_only_administrators(suite: Suite, api: Api, shapes: ClosedShapes, company: Company, path: str) -> None:
    """403 for a writer with every memory capability, whether the workspace exists or not; 401 without a key."""
    api.create("something")
    for workspace_id in (company.find(api.scope)["workspace_id"], NOWHERE):
        body = {"workspace_id": workspace_id, **IN_WORKSPACE[path]}
        assert Company(api.client, shapes).refusal(path, body) == (403, "forbidden")
        with suite.client("") as client:
            assert Company(client, shapes).refusal(path, body) == (401, "unauthorized")


def test_only_administrators_see_the_company(suite: Suite, api: Api, shapes: ClosedShapes) -> None:
    """The same for the two routes that name no workspace."""
    assert Company(api.client, shapes).refusal("query/ordered", {"query": {}}) == (403, "forbidden")
    response = api.client.get("/api/v1/company/memory/workspaces", params={"contract_version": 1})
    assert (response.status_code, response.json()["error"]["code"]) == (403, "forbidden")


@pytest.mark.parametrize("path", IN_WORKSPACE)
def test_foreign_and_unknown_workspaces_are_one(api: Api, company: Company, rival: Company, path: str) -> None:
    """404 in the very same words for a workspace of another company and for one that does not exist."""
    api.create("something")
    answers = [
        rival.post(path, {"workspace_id": workspace_id, **IN_WORKSPACE[path]})
        for workspace_id in (company.find(api.scope)["workspace_id"], NOWHERE)
    ]
    assert [answer.status_code for answer in answers] == [404, 404]
    assert answers[0].json() == answers[1].json()
    assert answers[0].json()["error"]["code"] == "record_not_found"


@pytest.mark.parametrize("path", WITH_SUBJECT)
def test_what_a_workspace_lacks(api: Api, company: Company, path: str) -> None:
    """An unknown record, relation, job, owner or revision is 404."""
    api.create("something")
    body = {"workspace_id": company.find(api.scope)["workspace_id"], **IN_WORKSPACE[path]}
    assert company.refusal(path, body) == (404, "record_not_found")


@pytest.mark.parametrize("path", IN_WORKSPACE)
@pytest.mark.parametrize("workspace_id", ["", "0" * 63, "F" * 64, "g" * 64, None, 7])
def test_malformed_workspace_ids(company: Company, path: str, workspace_id: Any) -> None:
    """Anything but 64 lower-case hexadecimal digits is 400."""
    assert company.refusal(path, {"workspace_id": workspace_id, **IN_WORKSPACE[path]}) == (400, "invalid_request")


def test_private_memory_of_a_revoked_writer(
    suite: Suite, company: Company, open_api: Callable[..., Api], scope: dict[str, Any]
) -> None:
    """What a subject wrote in private stays readable to the administrator, also once its key is revoked."""
    private = {**scope, "visibility": "private"}
    key = suite.issue("leaver", ["memory_read", "memory_write"])
    record = open_api(key, private).create("left behind")
    workspace = company.find(private, "leaver")
    credential = f"/api/v1/credentials/{uuid.UUID(key.split('_')[1])}"
    revoked = company.client.post(f"{credential}/revoke", json={"contract_version": 1, "expected_revision": 1})
    assert revoked.status_code == 200, revoked.text
    found = company.expect("read", {"workspace_id": workspace["workspace_id"], "record_id": record["record_id"]})
    assert (found["company_id"], found["workspace"]) == (COMPANY, workspace)
    assert found["entry"]["record"]["payload"]["content"]["primary"] == "left behind"
    page = company.expect("query", {"workspace_id": workspace["workspace_id"], "filter": {}})["page"]
    assert [entry["record"]["record_id"] for entry in page["entries"]] == [record["record_id"]]
    ordered = company.expect("query/ordered", {"query": {}, "selection": {"private_subject_id": "leaver"}})["page"]
    assert ordered["entries"][0]["workspace"] == workspace


def test_tombstones_and_views(api: Api, company: Company) -> None:
    """A tombstone is retained with payload null and the verdict `deleted`, and is not current."""
    kept, deleted = api.create("kept"), api.delete(api.create("deleted"))
    workspace_id = company.find(api.scope)["workspace_id"]
    page = company.expect("query", {"workspace_id": workspace_id, "filter": {}})["page"]
    by_id = {entry["record"]["record_id"]: entry for entry in page["entries"]}
    assert list(by_id) == sorted([kept["record_id"], deleted["record_id"]])
    tombstone = by_id[deleted["record_id"]]
    assert (tombstone["record"]["payload"], tombstone["record"]["revision"]) == (None, 2)
    assert tombstone["eligibility"]["first_failure"] == {
        "record_id": deleted["record_id"],
        "expected_revision": None,
        "actual_revision": 2,
        "reason": "deleted",
    }
    assert (page["stop_reason"], page["next_after"], page["scanned_records"]) == ("exhausted", None, 2)
    read = company.expect("read", {"workspace_id": workspace_id, "record_id": deleted["record_id"]})
    assert read["entry"] == {**tombstone, "eligibility": read["entry"]["eligibility"]}
    assert 0 < read["record_bytes"] < page["record_bytes"]
    for wanted in ({"view": "current"}, {"text_contains": ""}, {"tag": None, "text_contains": "KEPT"}):
        found = company.expect("query", {"workspace_id": workspace_id, "filter": wanted})["page"]
        assert [entry["record"]["record_id"] for entry in found["entries"]] == [kept["record_id"]]
    assert api.get(deleted["record_id"]).status_code == 404


def test_inventory_pages(api: Api, company: Company) -> None:
    """The continuation is the last examined id; pages join; out of bounds is 400."""
    made = sorted(api.create(f"record {number}")["record_id"] for number in range(5))
    body = {"workspace_id": company.find(api.scope)["workspace_id"]}
    found, after = [], None
    while True:
        page = company.expect("query", {**body, "filter": {"limit": 2, "after": after}})["page"]
        found += [entry["record"]["record_id"] for entry in page["entries"]]
        after = page["next_after"]
        if after is None:
            break
        assert (page["stop_reason"], after) == ("record_limit", found[-1])
    assert found == made
    wrong: list[dict[str, Any]] = [
        {"limit": 0}, {"limit": 101}, {"scan_limit": 10_001}, {"view": "all"}, {"view": None}, {"other": 1},
        {"text_contains": "x" * 4097}, {"tag": "é" * 129}, {"after": "x"},
    ]  # fmt: skip
    for members in wrong:
        assert company.refusal("query", {**body, "filter": members}) == (400, "invalid_request")


def test_directory_pages(api: Api, company: Company, rival: Company) -> None:
    """Ascending ids without repetition, the whole address of each; empty for a company without memory."""
    api.create("something")
    found: list[dict[str, Any]] = []
    after: dict[str, str] = {}
    while True:
        document = company.workspaces(limit=2, **after)
        assert document["company_id"] == COMPANY
        found += document["page"]["workspaces"]
        if document["page"]["next_after_workspace_id"] is None:
            break
        assert document["page"]["next_after_workspace_id"] == found[-1]["workspace_id"]
        after = {"after_workspace_id": found[-1]["workspace_id"]}
    ids = [workspace["workspace_id"] for workspace in found]
    assert ids == sorted(set(ids))
    assert {workspace["company_id"] for workspace in found} == {COMPANY}
    assert api.scope in [workspace["scope"] for workspace in found]
    foreign = rival.workspaces()["page"]["workspaces"]
    assert [workspace for workspace in foreign if workspace["company_id"] == COMPANY] == []
    for query in ({}, {"contract_version": 2}, {"contract_version": 1, "limit": 0}, {"contract_version": 1, "x": 1}):
        assert company.client.get("/api/v1/company/memory/workspaces", params=query).status_code == 400


def test_order_across_workspaces(
    company: Company, rival: Company, open_api: Callable[..., Api], suite: Suite, scope: dict[str, Any]
) -> None:
    """One walk over private and shared workspaces, by time, workspace and record, in both directions."""
    project = scope["project_id"]
    apis = [open_api(suite.writer_key, {**scope, "visibility": word}) for word in ("private", "shared")]
    for number in range(6):
        apis[number % 2].create(f"record {number}", tags=["t"])
    selection = {"project_id": project}

    def places(entries: list[dict[str, Any]]) -> list[tuple[int, str, str]]:
        return [
            (
                entry["record"]["created_at_millis"],
                entry["workspace"]["workspace_id"],
                entry["record"]["record_id"],
            )
            for entry in entries
        ]

    def walk(**members: Any) -> list[tuple[int, str, str]]:
        found, cursor = [], None
        while True:
            body = {"query": {**members, "cursor": cursor}, "selection": selection}
            page = company.expect("query/ordered", body)["page"]
            found += places(page["entries"])
            cursor = page["next_cursor"]
            if cursor is None:
                return found

    ascending = walk(order="created_asc", limit=4)
    assert ascending == sorted(ascending)
    assert len(set(ascending)) == 6
    assert walk(limit=1) == ascending[::-1]
    assert walk(limit=100, scan_limit=2, tag="t", text_contains="RECORD") == ascending[::-1]
    only_private = {**selection, "visibility": "private", "agent_id": None}
    found = company.expect("query/ordered", {"query": {}, "selection": only_private, "view": "current"})["page"]
    assert (len(found["entries"]), found["stop_reason"]) == (3, "exhausted")
    assert rival.expect("query/ordered", {"query": {}, "selection": selection})["page"]["entries"] == []
    unknown = {"query": {}, "selection": {"workspace_id": ascending[0][1]}}
    assert rival.refusal("query/ordered", unknown) == (404, "record_not_found")


def test_cursors_of_the_company(api: Api, company: Company, rival: Company) -> None:
    """A cursor that was changed, or belongs to another walk, company or endpoint, is 400."""
    for number in range(2):
        api.create(f"record {number}")
    selection = {"project_id": api.scope["project_id"]}
    body: dict[str, Any] = {"query": {"limit": 1}, "selection": selection}
    cursor = company.expect("query/ordered", body)["page"]["next_cursor"]
    own = api.expect("memory/query/ordered", {"query": {"limit": 1}})["page"]["next_cursor"]
    flipped = ("1" if cursor[60] == "0" else "0").join((cursor[:60], cursor[61:]))
    for wrong in (flipped, cursor[:-2], cursor.upper(), own, "", "zz"):
        spoilt = {**body, "query": {"limit": 1, "cursor": wrong}}
        assert company.refusal("query/ordered", spoilt) == (400, "invalid_request")
    going_on = {"limit": 1, "cursor": cursor}
    others = [
        {**body, "query": going_on, "view": "current"},
        {"query": going_on},
        {**body, "query": {**going_on, "order": "created_asc"}},
        {**body, "query": {**going_on, "tag": "t"}},
    ]
    for other in others:
        assert company.refusal("query/ordered", other) == (400, "invalid_request")
    assert rival.refusal("query/ordered", {**body, "query": going_on}) == (400, "invalid_request")
    assert api.post("memory/query/ordered", {"query": going_on}).status_code == 400
    last = company.expect("query/ordered", {**body, "query": {"limit": 9, "cursor": cursor}})["page"]
    assert (len(last["entries"]), last["stop_reason"]) == (1, "exhausted")


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


def workspace_of(workspace: dict[str, Any]) -> dict[str, str]:
    """The member that names a workspace in a request."""
    return {"workspace_id": workspace["workspace_id"]}


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


def test_no_agent_is_registered(fresh_suite: Suite, shapes: ClosedShapes, scope: dict[str, Any]) -> None:
    """Looking at a workspace leaves the company's agents as they were."""
    with fresh_suite.client() as writer, fresh_suite.client(fresh_suite.admin_key) as client:
        api, company = Api(writer, scope), Company(client, shapes)
        api.create("something")
        before = client.get("/api/v1/agents", params={"contract_version": 1}).json()
        assert [agent["agent_id"] for agent in before["page"]["agents"]] == [scope["agent_id"]]
        named = workspace_of(company.find(scope))
        for path, body in IN_WORKSPACE.items():
            company.post(path, {**named, **body})
        assert client.get("/api/v1/agents", params={"contract_version": 1}).json() == before

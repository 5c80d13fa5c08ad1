"""Supervision of a company through the gateway of a running suite: authority, shapes, order and cursors."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from tests.harness.api import Api
from tests.harness.closed_shapes import ClosedShapes
from tests.harness.company import Company, workspace_of
from tests.harness.suite import COMPANY, Suite

ABSENT = "00000000-0000-4000-8000-00000000dead"
NOWHERE = "0" * 64
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

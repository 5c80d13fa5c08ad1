"""C22: cursors that were touched, and positions that were never given out, on every route that has one."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest

from tests.harness import builders
from tests.harness.api import Api
from tests.harness.bulk import import_deletions, import_records
from tests.harness.suite import Suite

pytestmark = pytest.mark.both_entrances(edge_in_depth=True)

Json = dict[str, Any]
ZERO, LAST = "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"


@dataclass(frozen=True)
class Walk:
    """A route that is walked in ascending order of ids by position.

    Attributes:
        body: (limits and position) -> body.
        ids: Page -> the ids that it holds.
        scans: The member that bounds a page's work exists.
    """

    path: str
    body: Callable[[Json], Json]
    ids: Callable[[Json], list[str]]

    def page(self, api: Api, **members: Any) -> Json:
        page: Json = api.expect(self.path, self.body(members))["page"]
        return page

    def status(self, api: Api, **members: Any) -> int:
        return api.post(self.path, self.body(members)).status_code


def hits(page: Json) -> list[str]:
    return [hit["record"]["record_id"] for hit in page["hits"]]


EAST = {"space": builders.SPACE, "vector": [1.0, 0.0, 0.0]}
WALKS = {
    "query": Walk(
        "memory/query",
        lambda members: {"filter": {"limit": 100, **members}},
        lambda page: [record["record_id"] for record in page["records"]],
    ),
    "lexical": Walk(
        "memory/search/lexical",
        lambda members: {"mode": "lexical", "query": {"text": "hive", "limit": 100, **members}},
        hits,
    ),
    "semantic": Walk("memory/search", lambda members: {"query": {**EAST, "limit": 100, **members}}, hits),
    "hybrid": Walk(
        "memory/search/hybrid",
        lambda members: {
            "mode": "hybrid",
            "query": {"text": "hive", **EAST, "ranking_version": "weighted_rrf_v1", "limit": 100, **members},
        },
        hits,
    ),
    "jobs": Walk(
        "memory/consolidation/query",
        lambda members: {"query": {"limit": 100, "scan_limit": 1000, **members}},
        lambda page: [job["job_id"] for job in page["jobs"]],
    ),
}


def create_job(api: Api, *sources: Json) -> str:
    spec = {
        "sources": list(sources),
        "objective": "o", "policy_ref": "p", "extractor": builders.provenance_json(),
        "max_relations": 1, "max_attempts": 1, "lease_millis": 900_000, "max_attempt_millis": 900_000,
    }  # fmt: skip
    body = {"idempotency_key": builders.new_key(), "operation": {"type": "create", "spec": spec}}
    job_id: str = api.expect("memory/consolidation/commands", body)["receipt"]["job_id"]
    return job_id


def fill(api: Api) -> dict[str, list[str]]:
    """Ten bound records and ten jobs; ids of what each walk comes across, ascending."""
    records = [api.create("the hive moved") for _ in range(10)]
    for record in records:
        api.attach(record, [1.0, 0.0, 0.0])
    jobs = sorted(create_job(api, *records[:2]) for _ in range(10))
    ids = sorted(record["record_id"] for record in records)
    return {name: jobs if name == "jobs" else ids for name in WALKS}


@pytest.fixture(scope="module")
def filled(suite: Suite) -> Iterator[tuple[Api, dict[str, list[str]], list[str]]]:
    """A scope that the tests of this module share, what lies in it, and ids of another scope."""
    with suite.client() as client:
        api = Api(client, builders.scope_json(builders.new_key("cursors")))
        elsewhere = Api(client, builders.scope_json(builders.new_key("elsewhere")))
        yield api, fill(api), fill(elsewhere)["query"]


@pytest.mark.parametrize("name", WALKS)
def test_any_uuid_is_only_a_position(filled: tuple[Api, dict[str, list[str]], list[str]], name: str) -> None:
    """Never issued, issued in another scope, in capitals, the first or last possible: what lies behind it comes."""
    api, known, foreign = filled
    walk, ids = WALKS[name], known[name]
    for position in (ZERO, LAST, ids[0], ids[4], ids[-1], ids[4].upper(), *foreign[:3], *(str(uuid.uuid4()),) * 3):
        found = walk.ids(walk.page(api, after=position))
        assert [known_id for known_id in ids if known_id > position.lower()] == sorted(found), position


@pytest.mark.parametrize("name", WALKS)
def test_what_is_no_position_is_refused(filled: tuple[Api, dict[str, list[str]], list[str]], name: str) -> None:
    """Anything but a UUID is 400; null is the beginning."""
    api, known, _ = filled
    for wrong in ("", "x", ZERO[:-1], ZERO + "0", " " + ZERO, "{" + ZERO + "}", "g" + ZERO[1:], 0, True, [ZERO], {}):
        assert 400 == WALKS[name].status(api, after=wrong), wrong
    assert known[name] == sorted(WALKS[name].ids(WALKS[name].page(api, after=None)))


@pytest.mark.parametrize("name", WALKS)
@pytest.mark.parametrize("limit", [1, 3, 10])
def test_every_continuation_advances(
    filled: tuple[Api, dict[str, list[str]], list[str]], name: str, limit: int
) -> None:
    """Scans of a few candidates meet everything once, each position behind the one before, also with nothing found."""
    api, known, _ = filled
    walk = WALKS[name]
    nothing: Json = {"jobs": {"status": "exhausted"}}.get(name, {"tag": "nobody's"})
    for narrowed in ({}, nothing):
        # A tag narrows the candidates of a search before any is looked at; elsewhere what does not match is scanned.
        positions: list[str] = []
        found: list[str] = []
        while True:
            after = positions[-1] if positions else None
            page = walk.page(api, scan_limit=limit, after=after, **narrowed)
            found += walk.ids(page)
            if page["next_after"] is None:
                break
            positions.append(page["next_after"])
        assert all(first < second for first, second in pairwise(positions))
        assert ([] if narrowed else known[name]) == sorted(found)
        if not narrowed or name in ("query", "jobs"):
            assert len(positions) >= 10 // limit - 1


ORDERED = "memory/query/ordered"


def test_every_digit_of_an_ordered_cursor_counts(filled: tuple[Api, dict[str, list[str]], list[str]]) -> None:
    """One digit flipped anywhere, cut anywhere, longer, in capitals, reversed: 400, never another page."""
    api, *_ = filled
    query: Json = {"limit": 2, "order": "created_asc"}
    cursor = api.expect(ORDERED, {"query": query})["page"]["next_cursor"]
    flipped = [cursor[:at] + f"{(int(cursor[at], 16) + 1) % 16:x}" + cursor[at + 1 :] for at in range(len(cursor))]
    cut = [cursor[:at] for at in (0, 1, 2, len(cursor) // 2, len(cursor) - 1)]
    for wrong in (*flipped, *cut, cursor + "00", "00" + cursor, cursor.upper(), cursor[::-1], " " + cursor, "zz"):
        response = api.post(ORDERED, {"query": {**query, "cursor": wrong}})
        assert (400, "invalid_request") == (response.status_code, response.json()["error"]["code"]), wrong


def test_an_ordered_cursor_belongs_to_its_walk(
    suite: Suite, filled: tuple[Api, dict[str, list[str]], list[str]]
) -> None:
    """Another order, filter, scope or company is 400; limits may change."""
    api, known, _ = filled
    query: Json = {"limit": 2, "order": "created_asc", "text_contains": "hive"}
    cursor = api.expect(ORDERED, {"query": query})["page"]["next_cursor"]
    going_on = {**query, "cursor": cursor}
    others = [{"order": "created_desc"}, {"text_contains": "Hive!"}, {"text_contains": None}, {"tag": "t"}]
    others += [{"episode_type": "Observation"}]
    for other in others:
        assert 400 == api.post(ORDERED, {"query": {**going_on, **other}}).status_code, other
    for members in ({"agent_id": "b"}, {"mission_id": "m"}, {"visibility": "private"}, {"project_id": "q"}):
        elsewhere = {"query": going_on, "scope": {**api.scope, **members}}
        assert 400 == api.post(ORDERED, elsewhere).status_code, members
    key = suite.issue("writer", ["memory_read"], admin_key=suite.other_admin_key)
    with suite.client(key) as stranger:
        assert 400 == Api(stranger, api.scope).post(ORDERED, {"query": going_on}).status_code
    key = suite.issue("somebody else", ["memory_read"])
    with suite.client(key) as colleague:
        page = Api(colleague, api.scope).expect(ORDERED, {"query": {**going_on, "limit": 100, "scan_limit": 10_000}})
    assert len(known["query"]) - 2 == len(page["page"]["records"])


def test_a_directory_cursor_belongs_to_its_company(suite: Suite) -> None:
    """A list of credentials goes on with its own cursor only: not touched, and not another company's."""
    for _ in range(3):
        suite.issue("somebody", ["memory_read"], grants=[])
        suite.issue("somebody", ["memory_read"], grants=[], admin_key=suite.other_admin_key)
    path = "/api/v1/credentials"
    with suite.client(suite.admin_key) as admin, suite.client(suite.other_admin_key) as rival:
        asked: Json = {"contract_version": 1, "limit": 1}
        cursor = admin.get(path, params=asked).json()["page"]["next_cursor"]
        assert 200 == admin.get(path, params={**asked, "limit": 100, "cursor": cursor}).status_code
        assert 400 == rival.get(path, params={**asked, "cursor": cursor}).status_code
        spoilt = [cursor[:at] + ("B" if cursor[at] == "A" else "A") + cursor[at + 1 :] for at in range(len(cursor))]
        for wrong in (*spoilt[::5], cursor[:-1], cursor + "A", cursor.swapcase(), cursor[::-1], "", "x" * 8193):
            assert 400 == admin.get(path, params={**asked, "cursor": wrong}).status_code, wrong


@pytest.mark.parametrize("order", ["created_asc", "created_desc"])
def test_walks_while_others_write(suite: Suite, api: Api, order: str) -> None:
    """Records come and go between pages; those that were there throughout come exactly once, on every walk."""
    stay = import_records(suite, api.scope, ["the hive stays"] * 200)
    go = import_records(suite, api.scope, ["the hive goes"] * 200, prefix="going")
    query = WALKS["query"]
    seen: dict[str, list[str]] = {"query": [], "lexical": [], "ordered": []}
    after: dict[str, str | None] = {"query": None, "lexical": None, "ordered": None}
    running = set(seen)
    turn = 0
    while running:
        if "query" in running:
            page = query.page(api, limit=60, after=after["query"])
            seen["query"] += query.ids(page)
            after["query"] = page["next_after"]
        if "lexical" in running:
            page = WALKS["lexical"].page(api, scan_limit=60, after=after["lexical"])
            seen["lexical"] += hits(page)
            after["lexical"] = page["next_after"]
        if "ordered" in running:
            asked = {"order": order, "limit": 60, "cursor": after["ordered"]}
            page = api.expect(ORDERED, {"query": asked})["page"]
            seen["ordered"] += [record["record_id"] for record in page["records"]]
            after["ordered"] = page["next_cursor"]
        running = {name for name in running if after[name] is not None}
        import_deletions(suite, api.scope, go[turn * 40 : turn * 40 + 40])
        import_records(suite, api.scope, ["the hive comes"] * 10 if turn < 10 else [], prefix=f"turn {turn}")
        turn += 1
    for name, found in seen.items():
        assert len(found) == len(set(found)), name
        assert set(stay) <= set(found), name


@pytest.mark.fault
def test_cursors_outlive_a_restart(fresh_suite: Suite, fresh_api: Api) -> None:
    """After everything was stopped and started, and then the services killed, both kinds of cursor go on as before."""
    ids = sorted(fresh_api.create("the hive")["record_id"] for _ in range(6))
    query: Json = {"limit": 2, "order": "created_asc"}
    first = fresh_api.expect(ORDERED, {"query": query})["page"]
    directory: Json = {"contract_version": 1, "limit": 1}
    with fresh_suite.client(fresh_suite.admin_key) as admin:
        listed = admin.get("/api/v1/credentials", params=directory).json()["page"]
    fresh_suite.stop()
    fresh_suite.start(fresh_suite.port)
    for name in ("storage", "memory", "identity"):
        fresh_suite.kill(name)
    fresh_suite.wait_healthy()
    with fresh_suite.client() as client, fresh_suite.client(fresh_suite.admin_key) as admin:
        rest = Api(client, fresh_api.scope).expect(ORDERED, {"query": {**query, "cursor": first["next_cursor"]}})
        again = Api(client, fresh_api.scope).expect(ORDERED, {"query": {**query, "limit": 100}})["page"]["records"]
        assert again[2:4] == rest["page"]["records"]
        assert ids == sorted(record["record_id"] for record in again)
        following = admin.get("/api/v1/credentials", params={**directory, "cursor": listed["next_cursor"]})
        assert listed["items"][0]["id"] != following.json()["page"]["items"][0]["id"]

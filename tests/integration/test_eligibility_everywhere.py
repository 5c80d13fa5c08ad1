"""A record that may not be served vanishes from every route alike, at once, whatever the reason."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.harness import builders
from tests.harness.api import Api
from tests.harness.both_ways import BothWays
from tests.harness.clocked_suite import ClockedSuite, running_clocked_suite

Json = dict[str, Any]
EAST = {"space": builders.SPACE, "vector": [1.0, 0.0, 0.0]}


@pytest.fixture(scope="module")
def clocked() -> Iterator[ClockedSuite]:
    with running_clocked_suite() as suite:
        yield suite


@pytest.fixture(scope="module")
def both(clocked: ClockedSuite) -> Iterator[BothWays]:
    with BothWays(clocked) as caller:  # type: ignore[arg-type]
        yield caller


class Hive:
    """anchor -> record -> beyond, with a vector and a word of its own for the record, which is derived from `root`."""

    def __init__(self, clocked: ClockedSuite, both: BothWays, api: Api) -> None:
        self.clocked, self.both, self.api = clocked, both, api
        self.expires_at_ms = clocked.clock.ms + 1_000
        self.root = api.create("root of it", valid_until_millis=self.expires_at_ms + 1_000)
        operation = {
            "type": "derive",
            "record": builders.record_json("unique nectar", valid_until_millis=self.expires_at_ms),
            "derivation": {"sources": [self.root], "method": "m", "method_revision": "1", "evidence_ref": "e"},
        }
        receipt = self.command("memory/commands", operation)
        self.record = builders.reference(receipt["record_id"])
        self.anchor, self.beyond = api.create("anchor"), api.create("beyond")
        api.attach(self.record, [1.0, 0.0, 0.0])
        self.before = api.relate(self.anchor, self.record)
        self.after = api.relate(self.record, self.beyond)

    def command(self, path: str, operation: Json) -> Json:
        receipt: Json = self.api.expect(path, {"idempotency_key": builders.new_key(), "operation": operation})[
            "receipt"
        ]
        return receipt

    def post(self, path: str, **body: Any) -> Json:
        outcome = self.both.post(path, {"scope": self.api.scope, **body})
        assert (200, "") == outcome.verdict, outcome.text
        return outcome.document

    def status(self, path: str, **body: Any) -> int:
        return self.both.post(path, {"scope": self.api.scope, **body}).status

    def seen(self) -> dict[str, bool]:
        """Whether each route shows the record."""
        record_id = self.record["record_id"]
        words = {"text": "nectar", "limit": 10}
        found: dict[str, bool] = {}
        query = {name: value for name, value in self.api.scope.items() if value is not None}
        read = self.both.send("GET", f"memory/records/{record_id}", query={"contract_version": 1, **query})
        assert read.verdict in ((200, ""), (404, "record_not_found"))
        found["read"] = read.status == 200
        batch = self.post("memory/records/batch", record_ids=[record_id])["batch"]["entries"]
        found["batch"] = batch[0]["record"] is not None
        pages = {
            "query": ("memory/query", {"filter": {"limit": 100}}),
            "query text": ("memory/query", {"filter": {"limit": 100, "text_contains": "nectar"}}),
            "ordered": ("memory/query/ordered", {"query": {}}),
            "semantic": ("memory/search", {"query": {**EAST, "limit": 10}}),
            "lexical": ("memory/search/lexical", {"mode": "lexical", "query": words}),
            "hybrid": (
                "memory/search/hybrid",
                {"mode": "hybrid", "query": {**words, **EAST, "ranking_version": "weighted_rrf_v2"}},
            ),
        }
        for name, (path, body) in pages.items():
            page = self.post(path, **body)["page"]
            records = page.get("records") or [hit["record"] for hit in page.get("hits", [])]
            found[name] = record_id in {record["record_id"] for record in records}
        for name, seed in {
            "anchor": {"mode": "lexical", "text": "nectar"},
            "vector anchor": {"mode": "semantic", **EAST},
            "path": {"mode": "lexical", "text": "anchor"},
        }.items():
            query = {"ranking_version": "typed_path_balanced_v1", "seed": seed, "limit": 10}
            page = self.post("memory/search/graph", query=query)["page"]
            hits = {hit["record"]["record_id"] for hit in page["hits"]}
            found[f"graph {name}"] = record_id in hits
            if name == "path":
                found["graph bridge"] = self.beyond["record_id"] in hits
                found["graph relations"] = {self.before, self.after} == {r["relation_id"] for r in page["relations"]}
        root = self.post("memory/graph/typed", query={"root_record_ids": [record_id]})["graph"]
        found["typed root"] = "included" == root["roots"][0]["status"]
        walk = self.post("memory/graph/typed", query={"root_record_ids": [self.anchor["record_id"]]})["graph"]
        found["typed neighbour"] = record_id in {node["record"]["record_id"] for node in walk["nodes"]}
        found["typed bridge"] = self.beyond["record_id"] in {node["record"]["record_id"] for node in walk["nodes"]}
        found["typed edge"] = bool(walk["edges"])
        ancestry = self.post("memory/graph", query={"root_record_ids": [record_id]})["graph"]
        found["ancestry"] = "included" == ancestry["roots"][0]["status"]
        for relation_id in (self.before, self.after):
            status = self.status("memory/relations/read", relation_id=relation_id)
            assert status in (200, 404)
            found[f"relation {relation_id}"] = status == 200
            inspection = self.post("memory/relations/inspect", relation_id=relation_id)["inspection"]
            found[f"relation eligible {relation_id}"] = inspection["eligibility"]["eligible"]
        eligibility = self.post("memory/eligibility", record_id=record_id)["eligibility"]
        found["diagnosis"] = eligibility["eligible"]
        assert eligibility["eligible"] == (eligibility["first_failure"] is None)
        return found

    def uses(self) -> dict[str, tuple[int, str]]:
        """What becomes of commands that build upon the record."""
        scope, record, other = self.api.scope, self.record, self.anchor
        spec = {
            "sources": [record, other], "objective": "o", "policy_ref": "p", "extractor": builders.provenance_json(),
            "max_relations": 1, "max_attempts": 1, "lease_millis": 1_000, "max_attempt_millis": 1_000,
        }  # fmt: skip
        derivation = {"sources": [record], "method": "m", "method_revision": "1", "evidence_ref": "e"}
        derive = {"type": "derive", "record": builders.record_json("d"), "derivation": derivation}
        evidence = builders.assert_body(scope, other, self.beyond, evidence_sources=[record])
        vector = [0.0, 1.0, 0.0, 0.0]
        bodies = {
            "endpoint": ("memory/relations/commands", builders.assert_body(scope, record, other)),
            "other endpoint": ("memory/relations/commands", builders.assert_body(scope, other, record)),
            "evidence": ("memory/relations/commands", evidence),
            "derive": ("memory/commands", {"scope": scope, "idempotency_key": builders.new_key(), "operation": derive}),
            "attach": ("memory/embeddings", builders.attach_body(scope, record["record_id"], vector)),
            "job": (
                "memory/consolidation/commands",
                {"scope": scope, "idempotency_key": builders.new_key(), "operation": {"type": "create", "spec": spec}},
            ),
        }
        return {name: self.both.post(path, body).verdict for name, (path, body) in bodies.items()}

    def review(self, record: Json, disposition: str) -> None:
        command = {
            "contract_version": 1, "idempotency_key": builders.new_key(), "record_id": record["record_id"],
            "expected_revision": record["revision"], "disposition": disposition, "evidence_ref": "e",
        }  # fmt: skip
        self.post("memory/reviews", command=command)


def expire(hive: Hive) -> None:
    hive.clocked.clock.ms = hive.expires_at_ms


def let_the_source_expire(hive: Hive) -> None:
    hive.clocked.clock.ms = hive.expires_at_ms + 1_000


WAYS: dict[str, Callable[[Hive], Any]] = {
    "deleted": lambda hive: hive.api.delete(hive.record),
    "rejected": lambda hive: hive.review(hive.record, "rejected"),
    "expired": expire,
    "source changed": lambda hive: hive.api.update(hive.root, "another root"),
    "source deleted": lambda hive: hive.api.delete(hive.root),
    "source rejected": lambda hive: hive.review(hive.root, "rejected"),
    "source approved": lambda hive: hive.review(hive.root, "approved"),
    "source expired": let_the_source_expire,
}
# What a relation bound to one revision no longer shows, although the record itself may be served.
OF_A_REVISION = {"graph path", "graph bridge", "graph relations", "typed neighbour", "typed bridge", "typed edge"}
OF_A_REVISION |= {"semantic", "graph vector anchor"}


@pytest.fixture
def hive(clocked: ClockedSuite, both: BothWays) -> Iterator[Hive]:
    with clocked.client() as client:
        yield Hive(clocked, both, Api(client, builders.scope_json(f"project-{uuid.uuid4()}")))


@pytest.mark.parametrize("way", WAYS)
def test_it_vanishes_from_every_route_alike(hive: Hive, way: str) -> None:
    """Before, every route shows it and every command may use it; afterwards none does, and none leads through it."""
    assert {True} == set(hive.seen().values())
    assert {(200, "")} == set(hive.uses().values())
    WAYS[way](hive)
    assert {} == {route: shown for route, shown in hive.seen().items() if shown}
    used = hive.uses()
    assert {404, 409} >= {status for status, _ in used.values()}, used
    assert {"record_not_found", "revision_conflict"} >= {code for _, code in used.values()}
    assert [(409, "revision_conflict")] * 4 == [
        used[name] for name in ("endpoint", "other endpoint", "evidence", "job")
    ]


def test_the_millisecond_of_its_end(hive: Hive) -> None:
    """Shown by every route while the clock is before `valid_until_millis`, by none from then on."""
    hive.clocked.clock.ms = hive.expires_at_ms - 1
    assert {True} == set(hive.seen().values())
    hive.clocked.clock.ms = hive.expires_at_ms
    assert {False} == set(hive.seen().values())


def test_an_approval_takes_only_what_is_bound_to_the_revision(hive: Hive) -> None:
    """The record goes on to be served, with another revision that vectors and relations do not know."""
    hive.review(hive.record, "approved")
    shown = hive.seen()
    gone = {route for route, is_shown in shown.items() if not is_shown}
    relations = {route for route in shown if route.startswith("relation ")}
    assert OF_A_REVISION | relations == gone


def test_a_rejection_can_be_taken_back(hive: Hive) -> None:
    """Rejected, then unreviewed: served again by the routes that do not ask for the revision."""
    hive.review(hive.record, "rejected")
    assert {False} == set(hive.seen().values())
    hive.review({**hive.record, "revision": 2}, "unreviewed")
    shown = hive.seen()
    assert all(shown[route] for route in shown if route not in OF_A_REVISION and not route.startswith("relation "))


@pytest.mark.parametrize("way", WAYS)
def test_supervision_still_sees_it(hive: Hive, way: str) -> None:
    """The company's administrator sees the record in the inventory with the reason, and nothing of it in graphs."""
    WAYS[way](hive)
    with hive.clocked.client(hive.clocked.admin_key) as admin:
        path = "/api/v1/company/memory"
        after: Json = {}
        workspace_id = ""
        while not workspace_id:
            page = admin.get(f"{path}/workspaces", params={"contract_version": 1, "limit": 100, **after}).json()["page"]
            for workspace in page["workspaces"]:
                if workspace["scope"] == hive.api.scope:
                    workspace_id = workspace["workspace_id"]
            after = {"after_workspace_id": page["next_after_workspace_id"]}
        asked = {"contract_version": 1, "workspace_id": workspace_id}
        record_id = hive.record["record_id"]
        entry = admin.post(f"{path}/read", json={**asked, "record_id": record_id}).json()["entry"]
        assert not entry["eligibility"]["eligible"]
        reason = entry["eligibility"]["first_failure"]["reason"]
        expected = {"deleted": "deleted", "rejected": "rejected", "expired": "expired", "source expired": "expired"}
        assert expected.get(way, "source_revision_changed") == reason
        for view, is_listed in (("retained", True), ("current", False)):
            body = {**asked, "filter": {"view": view}}
            entries = admin.post(f"{path}/query", json=body).json()["page"]["entries"]
            assert is_listed == (record_id in {found["record"]["record_id"] for found in entries})
        walk = {**asked, "query": {"root_record_ids": [record_id]}}
        assert "unavailable" == admin.post(f"{path}/graph/typed", json=walk).json()["graph"]["roots"][0]["status"]

"""What a job publishes is found by graph search and walked, exactly as long as every source of the job holds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.harness import builders
from tests.harness.api import Api
from tests.harness.documented_jobs import claim, command, new_job
from tests.harness.documented_requests import Known, derivation
from tests.harness.suite import wait_until

# An endpoint of the assertion, a source of the job that is none, and a record that such a source was made of.
ROLES = ("source", "target", "evidence", "ancestor")
SEED = "zebra"
# Long enough to publish and to look, on a busy machine too.
LIFETIME_MS = 5_000

Json = dict[str, Any]


@dataclass(frozen=True)
class Published:
    """An assertion that a job has published.

    Attributes:
        api: Its owner.
        records: Reference of each role's record.
        relation_id: The relation.
    """

    api: Api
    records: dict[str, Json]
    relation_id: str

    def paths(self) -> list[str]:
        """Relations on the paths by which a search for the source's word finds the target."""
        query = {
            "ranking_version": "typed_path_balanced_v1",
            "seed": {"mode": "lexical", "text": SEED},
            "limit": 10,
        }
        page = self.api.expect("memory/search/graph", {"query": query})["page"]
        target = self.records["target"]["record_id"]
        found = [hit["graph"] for hit in page["hits"] if hit["record"]["record_id"] == target]
        return [step["relation_id"] for graph in found if graph is not None for step in graph["steps"]]

    def walked(self) -> list[str]:
        """Relations that a traversal from the source walks."""
        query = {"root_record_ids": [self.records["source"]["record_id"]], "direction": "outgoing"}
        graph = self.api.expect("memory/graph/typed", {"query": query})["graph"]
        return [edge["relation_id"] for edge in graph["edges"]]


def publish(api: Api, **valid_until: int) -> Published:
    """Publish one assertion over records of all roles, of which those named are valid until a time only."""

    def record(role: str, text: str) -> Json:
        return api.create(text, valid_until_millis=valid_until.get(role))

    ancestor = record("ancestor", "a page of a notebook")
    operation = {
        "type": "derive",
        "record": builders.record_json("a summary of the page", valid_until_millis=valid_until.get("derived")),
        "derivation": derivation(ancestor),
    }
    receipt = api.expect("memory/commands", {"idempotency_key": builders.new_key(), "operation": operation})["receipt"]
    records = {
        "source": record("source", f"the {SEED} was seen"),
        "target": record("target", "an animal at the river"),
        "evidence": record("evidence", "tracks in the mud"),
        "derived": builders.reference(receipt["record_id"]),
        "ancestor": ancestor,
    }
    known = Known(api, records["source"], records["target"], records["derived"], "")
    manifest = [records[role] for role in ("evidence", "source", "derived", "target")]
    held = claim(known, new_job(known, sources=manifest))
    found = {
        "source": records["source"],
        "target": records["target"],
        "kind": "same_entity",
        "evidence_ref": "river:1",
    }
    usage = {"status": "unknown"}
    command(known, {"type": "publish", **held, "assertions": [found], "usage": usage, "evidence_ref": "run"})
    job = api.expect("memory/consolidation/inspect", {"job_id": held["job_id"]})["inspection"]["job"]
    (output,) = job["output_receipts"]
    return Published(api, records, output["relation_id"])


def review(api: Api, record: Json, disposition: str) -> None:
    decision = {
        "contract_version": 1, "idempotency_key": builders.new_key("review"), "record_id": record["record_id"],
        "expected_revision": record["revision"], "disposition": disposition, "evidence_ref": "e",
    }  # fmt: skip
    body = {"scope": api.scope, "command": decision}
    assert 200 == api.client.post("/api/v1/memory/reviews", json=body).status_code


CHANGES: dict[str, Callable[[Api, Json], object]] = {
    "updated": lambda api, record: api.update(record, f"{SEED}, but otherwise"),
    "rejected": lambda api, record: review(api, record, "rejected"),
    "approved": lambda api, record: review(api, record, "approved"),
    "deleted": lambda api, record: api.delete(record),
}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("change", CHANGES)
def test_it_vanishes_with_any_source(api: Api, change: str, role: str) -> None:
    """It is found by search and traversal, and by neither once one source, or what that was made of, has changed."""
    published = publish(api)
    assert [published.relation_id] == published.paths() == published.walked()
    CHANGES[change](api, published.records[role])
    assert [] == published.paths()
    assert [] == published.walked()
    # It is still there to be inspected, and says why it is not served.
    inspected = api.expect("memory/relations/inspect", {"relation_id": published.relation_id})
    assert inspected["inspection"]["relation"]["state"] == "active"
    assert not inspected["inspection"]["eligibility"]["eligible"]


def test_it_vanishes_when_a_source_expires(api: Api) -> None:
    """The same at the end of a source's validity, in each role, without any write."""
    published = {}
    for role in (*ROLES, "derived"):
        in_own_scope = Api(api.client, api.scope | {"mission_id": role})
        until_ms = time.time_ns() // 1_000_000 + LIFETIME_MS
        published[role] = publish(in_own_scope, **{role: until_ms})
        assert [published[role].relation_id] == published[role].paths() == published[role].walked()
    for role, found in published.items():
        wait_until(lambda found=found: found.walked() == [], f"the {role} has expired")
        assert [] == found.paths()

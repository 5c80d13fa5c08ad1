"""The documented JSON of the memory and relation routes, member by member, through the gateway of a running suite."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.harness import builders
from tests.harness.api import Api

ABSENT = "00000000-0000-4000-8000-00000000dead"
AUTHOR = {"credential_id", "subject_id"}
NO_WORK = {"records_examined": 0, "bytes_examined": 0}


def refusal(api: Api, path: str, body: dict[str, Any]) -> tuple[int, str]:
    """Status and code of a refusal, whose envelope must be the documented one."""
    response = api.post(path, body)
    document = response.json()
    assert response.headers["cache-control"] == "no-store"
    assert set(document) == {"contract_version", "error"}
    assert set(document["error"]) == {"code", "message"}
    return response.status_code, document["error"]["code"]


def operate(api: Api, operation: dict[str, Any], key: str = "") -> dict[str, Any]:
    """A memory command; its receipt."""
    body = {"idempotency_key": key or builders.new_key(), "operation": operation}
    receipt: dict[str, Any] = api.expect("memory/commands", body)["receipt"]
    return receipt


def relate(api: Api, operation: dict[str, Any]) -> dict[str, Any]:
    """A relation command; its receipt."""
    body = {"idempotency_key": builders.new_key(), "operation": operation}
    receipt: dict[str, Any] = api.expect("memory/relations/commands", body)["receipt"]
    return receipt


def review(api: Api, record: dict[str, Any], disposition: str = "approved") -> dict[str, Any]:
    """A review decision; its receipt. This route holds its version inside the command."""
    command = {
        "contract_version": 1,
        "idempotency_key": builders.new_key(),
        "record_id": record["record_id"],
        "expected_revision": record["revision"],
        "disposition": disposition,
        "evidence_ref": "ref:1",
    }
    response = api.client.post("/api/v1/memory/reviews", json={"scope": api.scope, "command": command})
    assert response.status_code == 200, response.text
    receipt: dict[str, Any] = response.json()["receipt"]
    return receipt


def test_command_receipts(api: Api) -> None:
    """The four operations answer the documented receipt with their own words."""
    created = operate(api, {"type": "create", "record": builders.record_json("one")}, "k")
    assert set(created) == {
        "contract_version",
        "idempotency_key",
        "record_id",
        "revision",
        "action",
        "committed_at_millis",
        "author",
    }
    assert set(created["author"]) == AUTHOR
    at = {"record_id": created["record_id"]}
    derivation = {
        "sources": [{**at, "revision": 1}],
        "method": "m",
        "method_revision": "1",
        "evidence_ref": "ref",
    }
    derived = operate(api, {"type": "derive", "record": builders.record_json("d"), "derivation": derivation})
    updated = operate(api, {"type": "update", **at, "expected_revision": 1, "record": builders.record_json("two")})
    deleted = operate(api, {"type": "delete", **at, "expected_revision": 2})
    done = [(receipt["action"], receipt["revision"]) for receipt in (created, derived, updated, deleted)]
    assert done == [("created", 1), ("derived", 1), ("updated", 2), ("deleted", 3)]
    assert operate(api, {"type": "create", "record": builders.record_json("one")}, "k") == created


def test_a_record_in_json(api: Api) -> None:
    """Every member is written, unset ones as null or empty; free-form members come back as they were."""
    members = {
        "episode_type": {"Custom": "note"},
        "tags": ["b", "a"],
        "metadata": {"n": 18446744073709551615},
        "content_data": [1.5, None, {"k": "é"}],
        "content_embedding": [0.5, -1],
        "content_secondary": None,
    }
    receipt = operate(api, {"type": "create", "record": builders.record_json("text", **members)})
    answer = api.get(receipt["record_id"]).json()
    assert answer == {
        "contract_version": 1,
        "scope": api.scope,
        "record": {
            "schema_version": 1,
            "record_id": receipt["record_id"],
            "revision": 1,
            "created_at_millis": receipt["committed_at_millis"],
            "modified_at_millis": receipt["committed_at_millis"],
            "author": receipt["author"],
            "payload": {
                "episode_type": {"Custom": "note"},
                "content": {
                    "primary": "text",
                    "secondary": None,
                    "context": None,
                    "data": [1.5, None, {"k": "é"}],
                    "embedding": [0.5, -1.0],
                },
                "event_time_millis": builders.EVENT_TIME_MS,
                "valid_until_millis": None,
                "tags": ["b", "a"],
                "metadata": {"n": 18446744073709551615},
            },
            "review": None,
            "derivation": None,
        },
    }


def test_reads_in_json(api: Api) -> None:
    """Query, ordered query and batch answer closed objects with their counters."""
    made = sorted((api.create(f"text {number}")["record_id"]) for number in range(3))
    page = api.expect("memory/query", {"filter": {"limit": 2}})
    assert set(page) == {"contract_version", "scope", "page"}
    assert [record["record_id"] for record in page["page"].pop("records")] == made[:2]
    assert page["page"] == {"next_after": made[1], "scanned_records": 2, "dependency_work": NO_WORK}
    ordered = api.expect("memory/query/ordered", {"query": {"order": "created_asc"}})
    assert set(ordered) == {"contract_version", "scope", "page"}
    assert sorted(record["record_id"] for record in ordered["page"].pop("records")) == made
    evaluated_at = ordered["page"].pop("evaluated_at_millis")
    record_bytes = ordered["page"].pop("record_bytes")
    assert ordered["page"] == {
        "stop_reason": "exhausted",
        "scanned_records": 3,
        "dependency_work": NO_WORK,
        "next_cursor": None,
    }
    batch = api.expect("memory/records/batch", {"record_ids": [*made, ABSENT]})["batch"]
    assert [entry["record"] and entry["record"]["record_id"] for entry in batch["entries"]] == [*made, None]
    assert (batch["record_bytes"], batch["dependency_work"]) == (record_bytes, NO_WORK)
    assert set(batch) == {"evaluated_at_millis", "entries", "record_bytes", "dependency_work"}
    assert batch["evaluated_at_millis"] >= evaluated_at


def test_ordered_cursors_in_json(api: Api) -> None:
    """A cursor goes on under another limit; with another order or filter it is 400."""
    made = [api.create(f"text {number}")["record_id"] for number in range(4)]
    first = api.expect("memory/query/ordered", {"query": {"limit": 1}})["page"]
    cursor = first["next_cursor"]
    rest = api.expect("memory/query/ordered", {"query": {"limit": 100, "scan_limit": 50, "cursor": cursor}})["page"]
    seen = [record["record_id"] for record in first["records"] + rest["records"]]
    assert sorted(seen) == sorted(made)
    for query in (
        {"cursor": cursor, "order": "created_asc"},
        {"cursor": cursor, "tag": "t"},
        {"cursor": cursor[:-1] + ("0" if cursor[-1] != "0" else "1")},
        {"cursor": cursor.upper()},
        {"cursor": cursor[:-2]},
        {"cursor": ""},
        {"cursor": "0" * 1026},
    ):
        assert refusal(api, "memory/query/ordered", {"query": query}) == (400, "invalid_request")


def test_embedding_receipt_in_json(api: Api) -> None:
    """The receipt echoes the space and names the digest."""
    record = api.create("text")
    receipt = api.attach(record, [1.0, 0.0, 0.0, 0.0])
    assert receipt.pop("vector_digest") == "81bb5e08a5d12308ad54e054f8618ce84e5422261c8f46ae2dd89c3a33acbf93"
    assert set(receipt.pop("author")) == AUTHOR
    assert receipt.pop("committed_at_millis") > 0
    assert receipt.pop("idempotency_key")
    assert receipt == {
        "contract_version": 1,
        "record_id": record["record_id"],
        "record_revision": 1,
        "space": {**builders.SPACE, "dimensions": 4},
    }


def test_reviews_in_json(api: Api) -> None:
    """Receipt, state, past decision and diagnosis are closed objects; state and diagnosis of nothing are 404."""
    record = api.create("text")
    receipt = review(api, record, "rejected")
    digest = receipt["receipt_digest"]
    assert (len(digest), digest) == (64, digest.lower())
    assert set(receipt["review"]) == {"disposition", "evidence_ref", "author", "reviewed_at_millis"}
    at = {"record_id": record["record_id"]}
    state = api.expect("memory/reviews/state", at)
    assert state["state"] == {**at, "revision": 2, "review": receipt["review"], "deleted": False, "expired": False}
    assert api.expect("memory/reviews/read", {**at, "revision": 2}) == {"contract_version": 1, "receipt": receipt}
    eligibility = api.expect("memory/eligibility", at)["eligibility"]
    assert eligibility.pop("evaluated_at_millis") > 0
    failure = {**at, "expected_revision": None, "actual_revision": 2, "reason": "rejected"}
    assert eligibility == {
        **at,
        "revision": 2,
        "eligible": False,
        "first_failure": failure,
        "dependencies_checked": 0,
        "max_depth_examined": 0,
        "all_dependencies_checked": False,
        "dependency_work": NO_WORK,
    }
    assert refusal(api, "memory/reviews/read", {**at, "revision": 1}) == (404, "review_not_found")
    assert refusal(api, "memory/reviews/state", {"record_id": ABSENT}) == (404, "review_not_found")
    assert refusal(api, "memory/eligibility", {"record_id": ABSENT}) == (404, "record_not_found")


def test_relations_in_json(api: Api) -> None:
    """Empty evidence and an unset failure are left out, other unset members are null."""
    source, target, evidence = (api.create(text) for text in ("one", "two", "three"))
    body = builders.assert_body(api.scope, source, target)
    receipt = relate(api, body["operation"])
    at = {"relation_id": receipt["relation_id"]}
    assert set(receipt) == {
        "contract_version",
        "idempotency_key",
        "relation_id",
        "revision",
        "action",
        "author",
        "committed_at_millis",
        "evidence_ref",
        "relation_digest",
        "command_digest",
        "receipt_digest",
    }
    relation = api.expect("memory/relations/read", at)["relation"]
    assert relation == {
        "schema_version": 1,
        **at,
        "revision": 1,
        "input": {
            "source": source,
            "target": target,
            "kind": "supports",
            "provenance": {**builders.provenance_json(), "model": None},
            "valid_from_millis": None,
            "valid_until_millis": None,
        },
        "reported_by": receipt["author"],
        "created_at_millis": receipt["committed_at_millis"],
        "modified_at_millis": receipt["committed_at_millis"],
        "state": "active",
        "review": None,
    }
    eligibility = api.expect("memory/relations/inspect", at)["inspection"]["eligibility"]
    assert eligibility.pop("evaluated_at_millis") > 0
    assert eligibility == {"eligible": True, "reason": "eligible", "endpoint": None, "dependency_work": NO_WORK}
    history = api.expect("memory/relations/revision", {**at, "revision": 1})["history"]
    assert history == {"relation": relation, "receipt": receipt}
    other = api.relate(source, target, evidence_sources=[evidence])
    api.update(evidence, "changed")
    inspected = api.expect("memory/relations/inspect", {"relation_id": other})["inspection"]
    assert inspected["relation"]["input"]["evidence_sources"] == [evidence]
    assert inspected["eligibility"]["evidence_failure"] == {
        "record_id": evidence["record_id"],
        "expected_revision": 1,
        "actual_revision": 2,
        "reason": "source_revision_changed",
    }


def test_the_life_of_a_relation_in_json(api: Api) -> None:
    """Retire, restore and review by their documented words; wrong steps 400, stale ones 409, unknown ones 404."""
    relation_id = api.relate(api.create("one"), api.create("two"))
    at = {"relation_id": relation_id, "evidence_ref": "ref"}
    actions = [
        relate(api, {"type": "retire", **at, "expected_revision": 1}),
        relate(api, {"type": "restore", **at, "expected_revision": 2}),
        relate(api, {"type": "review", **at, "expected_revision": 3, "disposition": "rejected"}),
    ]
    assert [receipt["action"] for receipt in actions] == ["retired", "restored", "reviewed"]
    for operation, expected in (
        ({"type": "restore", **at, "expected_revision": 4}, (400, "invalid_request")),
        ({"type": "retire", **at, "expected_revision": 3}, (409, "revision_conflict")),
        ({"type": "retire", **at, "relation_id": ABSENT, "expected_revision": 1}, (404, "record_not_found")),
        ({"type": "revive", **at, "expected_revision": 1}, (400, "invalid_request")),
    ):
        body = {"idempotency_key": "k", "operation": operation}
        assert refusal(api, "memory/relations/commands", body) == expected
    assert refusal(api, "memory/relations/read", {"relation_id": relation_id}) == (404, "record_not_found")


@pytest.mark.parametrize("revision", [2**63 + 1, 2**64 - 1])
def test_large_revisions_are_values_not_errors(api: Api, revision: int) -> None:
    """Any unsigned 64-bit revision is understood exactly: 409 for an existing record, 404 for none."""
    record = api.create("text")
    operation = {"type": "delete", "record_id": record["record_id"], "expected_revision": revision}
    body = {"idempotency_key": "k", "operation": operation}
    assert refusal(api, "memory/commands", body) == (409, "revision_conflict")
    operation["record_id"] = ABSENT
    assert refusal(api, "memory/commands", body) == (404, "record_not_found")


@pytest.mark.parametrize(
    "revision", ["0", "-1", "1.0", "1e3", '"1"', "true", "18446744073709551616", "null", "9" * 5000]
)
def test_other_spellings_of_revisions_are_refused(api: Api, revision: str) -> None:
    """Zero, negative, fractional, text, too large: 400, and nothing is deleted."""
    record = api.create("text")
    scope = json.dumps(api.scope)
    text = (
        f'{{"contract_version":1,"scope":{scope},"idempotency_key":"k","operation":'
        f'{{"type":"delete","record_id":"{record["record_id"]}","expected_revision":{revision}}}}}'
    )
    headers = {"content-type": "application/json"}
    response = api.client.post("/api/v1/memory/commands", content=text, headers=headers)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_request")
    assert api.get(record["record_id"]).status_code == 200

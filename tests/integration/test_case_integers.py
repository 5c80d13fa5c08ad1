"""C06: integers of 64 bits in JSON, both ways, in every place that takes one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.harness import builders
from tests.harness.api import Api
from tests.harness.both_ways import BothWays
from tests.harness.documented_requests import ABSENT
from tests.harness.suite import Suite
from tests.harness.untouched import untouched

pytestmark = [pytest.mark.usefixtures("left_sound"), pytest.mark.both_entrances(edge_in_depth=True)]

U64_MAX = 2**64 - 1
I64_MAX = 2**63 - 1
# Spellings that are no integer on this wire: a float step would have rounded one of them, a lenient parser read others.
NEVER = [
    "9.223372036854775809e18", "1e3", "1E0", "1.0", "1.5", "-1.0", "01", "-01", "+1", '"1"', '"1_000"', '"١٢"', "١٢",
    "1_000", "0x10", "true", "false", "NaN", "Infinity", "[1]", "{}", "1" * 5000, "-" + "9" * 5000,
]  # fmt: skip
Body = Callable[[Api], dict[str, Any]]
PLACE = "@"


def update(api: Api) -> dict[str, Any]:
    operation = {"type": "update", "record_id": ABSENT, "expected_revision": PLACE, "record": builders.record_json()}
    return {"idempotency_key": builders.new_key(), "operation": operation}


def create(**members: Any) -> Body:
    def body(_api: Api) -> dict[str, Any]:
        operation = {"type": "create", "record": builders.record_json(**members)}
        return {"idempotency_key": builders.new_key(), "operation": operation}

    return body


def reference(api: Api) -> dict[str, Any]:
    source, target = builders.reference(ABSENT), {"record_id": ABSENT.replace("d", "e"), "revision": PLACE}
    return builders.assert_body(api.scope, source, target)


# Name -> (path, body with the place, least, greatest, what an integer in range comes to).
PLACES: dict[str, tuple[str, Body, int, int, tuple[int, str] | None]] = {
    "expected_revision": ("memory/commands", update, 1, U64_MAX, (404, "record_not_found")),
    "reference": ("memory/relations/commands", reference, 1, U64_MAX, (409, "revision_conflict")),
    "history": (
        "memory/relations/revision",
        lambda _api: {"relation_id": ABSENT, "revision": PLACE},
        1,
        U64_MAX,
        (404, "record_not_found"),
    ),
    "scan_limit": (
        "memory/search/lexical",
        lambda _api: {"mode": "lexical", "query": {"text": "hive", "limit": 1, "scan_limit": PLACE}},
        1,
        10_000,
        (200, ""),
    ),
    "limit": ("memory/query", lambda _api: {"filter": {"limit": PLACE}}, 1, 1000, (200, "")),
    "valid_until_millis": ("memory/commands", create(valid_until_millis=PLACE), -(2**63), I64_MAX, (200, "")),
    "event_time_millis": ("memory/commands", create(event_time_millis=PLACE), -(2**63), I64_MAX, None),
}


def send(both: BothWays, api: Api, name: str, spelling: str) -> tuple[int, str]:
    path, make, *_ = PLACES[name]
    body = {"contract_version": 1, "scope": api.scope, **make(api)}
    text = json.dumps(body).replace(f'"{PLACE}"', spelling)
    return both.send("POST", path, text).verdict


@pytest.mark.parametrize("name", PLACES)
def test_what_is_no_plain_integer_is_refused(both: BothWays, api: Api, name: str) -> None:
    """Exponents, fractions, signs, strings, booleans and endless digits are 400, and nothing is written."""
    with untouched(both.suite, api.scope):
        for spelling in NEVER:
            assert (400, "invalid_request") == send(both, api, name, spelling), spelling[:40]


@pytest.mark.parametrize("name", PLACES)
def test_exactly_the_range_is_accepted(both: BothWays, api: Api, name: str) -> None:
    """Its ends are understood, one beyond them is 400; -0 is zero."""
    _, _, least, greatest, outcome = PLACES[name]
    with untouched(both.suite, api.scope):
        for value in (least - 1, greatest + 1, U64_MAX + 1, -(2**63) - 1, 2**80):
            assert (400, "invalid_request") == send(both, api, name, str(value)), value
    if outcome is None:
        return
    for value in (least, greatest):
        assert outcome == send(both, api, name, str(value)), value
    assert (outcome if least <= 0 else (400, "invalid_request")) == send(both, api, name, "-0")


@pytest.mark.parametrize("value", [2**53 + 1, I64_MAX, 2**63 + 1, U64_MAX])
def test_answers_hold_every_digit(api: Api, value: int) -> None:
    """As plain JSON numbers, never as strings: counts of a job, and free-form data of a record."""
    numbers = {"data": {"n": value, "list": [value]}}
    record = api.create("first", content_data=numbers["data"], metadata={"n": value})
    text = api.get(record["record_id"]).text
    assert 3 == text.count(f": {value}") + text.count(f":{value}") + text.count(f"[{value}")
    usage = {"status": "reported", "model_calls": value, "input_tokens": value, "output_tokens": value}
    job_id = failed_job(api, usage)
    body = {"contract_version": 1, "scope": api.scope, "job_id": job_id}
    response = api.client.post("/api/v1/memory/consolidation/inspect", json=body)
    assert usage.items() <= response.json()["inspection"]["job"]["attempts"][0]["usage"].items()
    assert 3 == response.text.count(str(value))
    assert f'"{value}"' not in response.text + text


def failed_job(api: Api, usage: dict[str, Any]) -> str:
    """A job whose attempt ended with this usage."""
    spec = {
        "sources": [api.create("one"), api.create("two")],
        "objective": "o", "policy_ref": "p", "extractor": builders.provenance_json(),
        "max_relations": 1, "max_attempts": 1, "lease_millis": 900_000, "max_attempt_millis": 900_000,
    }  # fmt: skip

    def run(operation: dict[str, Any]) -> str:
        body = {"idempotency_key": builders.new_key(), "operation": operation}
        found: str = api.expect("memory/consolidation/commands", body)["receipt"]["job_id"]
        return found

    job_id = run({"type": "create", "spec": spec})
    run({"type": "claim", "job_id": job_id, "expected_revision": 1, "worker_id": "w"})
    found = api.expect("memory/consolidation/inspect", {"job_id": job_id})["inspection"]["job"]
    fence = found["attempts"][0]["fence"]
    return run(
        {
            "type": "fail", "job_id": job_id, "expected_revision": 2, "fence": fence, "usage": usage,
            "evidence_ref": "e",
        }
    )  # fmt: skip


def test_expiry_of_a_credential(both: BothWays, suite: Suite) -> None:
    """`expires_at_millis` is a signed integer of 64 bits and nothing else; what is refused issues nothing."""
    spec = {"subject_id": "s", "capabilities": ["memory_read"], "grants": [], "expires_at_millis": PLACE}
    text = json.dumps({"contract_version": 1, "spec": spec})

    def issue(spelling: str) -> tuple[int, str]:
        body = text.replace(f'"{PLACE}"', spelling)
        return both.send("POST", "credentials", body, key=suite.admin_key, repeatable=False).verdict

    with untouched(suite, None):
        for spelling in (*NEVER, str(I64_MAX + 1), str(-(2**63) - 1), str(U64_MAX)):
            assert (400, "invalid_request") == issue(spelling), spelling[:40]
    assert (201, "") == issue(str(I64_MAX))
    assert (201, "") == issue("null")

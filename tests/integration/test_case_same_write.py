"""C13: the same write fifty times at once, from two processes, in every family of commands."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.harness import builders, verdict
from tests.harness.api import Api
from tests.harness.callers import Request, send_at_once
from tests.harness.partition_audit import PartitionRows
from tests.harness.suite import Suite

CALLERS = 50


@dataclass(frozen=True)
class Family:
    """Commands of one family.

    Attributes:
        prepare: What they refer to, made once.
        request: (what was prepared, scope, key, number) -> request; equal numbers make equal commands.
        effects: Rows that one command adds one to.
    """

    prepare: Callable[[Api], Any]
    request: Callable[[Any, dict[str, Any], str, int], Request]
    effects: Callable[[PartitionRows], int]


def two_records(api: Api) -> list[dict[str, Any]]:
    return [api.create("one"), api.create("two")]


def memory(_made: Any, scope: dict[str, Any], key: str, number: int) -> Request:
    return "memory/commands", builders.create_body(scope, f"text {number}", key=key)


def embedding(made: Any, scope: dict[str, Any], key: str, number: int) -> Request:
    return "memory/embeddings", builders.attach_body(scope, made[0]["record_id"], [1.0, 2.0, number], key=key)


def review(made: Any, scope: dict[str, Any], key: str, number: int) -> Request:
    command = {
        "contract_version": 1, "idempotency_key": key, **made[0], "disposition": "approved",
        "evidence_ref": f"ref {number}",
    }  # fmt: skip
    command["expected_revision"] = command.pop("revision")
    return "memory/reviews", {"scope": scope, "command": command}


def relation(made: Any, scope: dict[str, Any], key: str, number: int) -> Request:
    origin = builders.provenance_json(evidence_ref=f"ref {number}")
    return "memory/relations/commands", builders.assert_body(scope, *made, key=key, provenance=origin)


def job(made: Any, scope: dict[str, Any], key: str, number: int) -> Request:
    spec = {
        "sources": made,
        "objective": f"objective {number}", "policy_ref": "p", "extractor": builders.provenance_json(),
        "max_relations": 1, "max_attempts": 1, "lease_millis": 900_000, "max_attempt_millis": 900_000,
    }  # fmt: skip
    operation = {"type": "create", "spec": spec}
    return "memory/consolidation/commands", {
        "contract_version": 1, "scope": scope, "idempotency_key": key, "operation": operation,
    }  # fmt: skip


def decisions(rows: PartitionRows) -> int:
    return sum(record["review"] is not None for record in rows.records.values())


FAMILIES = {
    "memory": Family(lambda _api: [], memory, lambda rows: len(rows.records)),
    "embedding": Family(two_records, embedding, lambda rows: len(rows.bindings)),
    "review": Family(two_records, review, decisions),
    "relation": Family(two_records, relation, lambda rows: len(rows.relations)),
    "job": Family(two_records, job, lambda rows: len(rows.jobs)),
}


@pytest.fixture
def api(armed_suite: Suite, scope: dict[str, Any]) -> Iterator[Api]:
    """A suite with slots enough for all of them."""
    with armed_suite.client() as client:
        yield Api(client, scope)


@pytest.mark.parametrize("name", FAMILIES)
def test_one_command_has_one_effect_and_one_receipt(armed_suite: Suite, api: Api, name: str) -> None:
    """All fifty callers get the same receipt; no conflict of theirs with each other is shown."""
    family = FAMILIES[name]
    request = family.request(family.prepare(api), api.scope, "same", 1)
    answers = send_at_once(armed_suite, [request] * CALLERS)
    assert {200: CALLERS} == Counter(status for status, _ in answers)
    assert 1 == len({json.dumps(document, sort_keys=True) for _, document in answers})
    rows = verdict.check_partition(armed_suite, api.scope)
    assert 1 == family.effects(rows)
    assert 1 == sum(receipt["idempotency_key"] == "same" for receipt in rows.receipts.values())
    verdict.check_ordinary(armed_suite, api.scope)


@pytest.mark.parametrize("name", FAMILIES)
def test_many_commands_under_one_key_have_one_winner(armed_suite: Suite, api: Api, name: str) -> None:
    """The others are told of the conflict, and not what the winner got; only the winner has an effect."""
    family = FAMILIES[name]
    made = family.prepare(api)
    answers = send_at_once(armed_suite, [family.request(made, api.scope, "same", number) for number in range(CALLERS)])
    assert {200: 1, 409: CALLERS - 1} == Counter(status for status, _ in answers)
    refusals = [document for status, document in answers if status == 409]
    assert {"idempotency_conflict"} == {document["error"]["code"] for document in refusals}
    (receipt,) = [document["receipt"] for status, document in answers if status == 200]
    told = json.dumps(refusals)
    assert not any(str(receipt[member]) in told for member in receipt if member.endswith(("_id", "_digest")))
    rows = verdict.check_partition(armed_suite, api.scope)
    assert 1 == family.effects(rows)
    verdict.check_ordinary(armed_suite, api.scope)


@pytest.mark.parametrize(
    "name", ["memory", *(pytest.param(name, marks=pytest.mark.deep) for name in ("relation", "job"))]
)
def test_equal_commands_under_many_keys_are_many(armed_suite: Suite, api: Api, name: str) -> None:
    """Nothing is merged by content."""
    family = FAMILIES[name]
    made = family.prepare(api)
    answers = send_at_once(
        armed_suite, [family.request(made, api.scope, f"key {number}", 1) for number in range(CALLERS)]
    )
    assert {200: CALLERS} == Counter(status for status, _ in answers)
    rows = verdict.check_partition(armed_suite, api.scope)
    assert CALLERS == family.effects(rows)
    verdict.check_ordinary(armed_suite, api.scope)


def test_one_vector_under_many_keys_is_one_binding(armed_suite: Suite, api: Api) -> None:
    """Each key has its own receipt, the binding keeps the first; fifty different vectors have one winner."""
    made = two_records(api)
    answers = send_at_once(armed_suite, [embedding(made, api.scope, f"key {number}", 1) for number in range(CALLERS)])
    assert {200: CALLERS} == Counter(status for status, _ in answers)
    assert 1 == len(verdict.check_partition(armed_suite, api.scope).bindings)
    others = [embedding(made[1:], api.scope, f"other {number}", number) for number in range(CALLERS)]
    codes = Counter(
        200 if status == 200 else document["error"]["code"] for status, document in send_at_once(armed_suite, others)
    )
    assert 1 == codes.pop(200)
    assert {"revision_conflict", "idempotency_conflict"} >= set(codes)
    assert 2 == len(verdict.check_partition(armed_suite, api.scope).bindings)


def test_one_revision_has_one_winner(armed_suite: Suite, api: Api) -> None:
    """Fifty decisions on one revision under fifty keys: one is taken, the others are 409 `revision_conflict`."""
    made = two_records(api)
    answers = send_at_once(armed_suite, [review(made, api.scope, f"key {number}", 1) for number in range(CALLERS)])
    codes = Counter(200 if status == 200 else document["error"]["code"] for status, document in answers)
    assert {200: 1, "revision_conflict": CALLERS - 1} == codes
    assert 1 == decisions(verdict.check_partition(armed_suite, api.scope))

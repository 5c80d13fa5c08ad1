"""C13 for the steps of a job: the same write fifty times at once, from two processes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.harness import verdict
from tests.harness.api import Api
from tests.harness.callers import Answer, Request, send_at_once
from tests.harness.documented_jobs import claimed, new_job
from tests.harness.documented_requests import Known
from tests.harness.partition_audit import PartitionRows
from tests.harness.suite import Suite

CALLERS = 50

Held = dict[str, Any]
Step = Callable[[Held, Known, int], dict[str, Any]]


def claim(held: Held, _known: Known, number: int) -> dict[str, Any]:
    """A claim by a worker of this number."""
    return {"type": "claim", "job_id": held["job_id"], "expected_revision": 1, "worker_id": f"worker {number}"}


def publish(held: Held, known: Known, number: int) -> dict[str, Any]:
    """A publication with the evidence of this number."""
    found = {"source": known.first, "target": known.second, "kind": "same_entity", "evidence_ref": f"seen {number}"}
    return {
        "type": "publish", **held, "assertions": [found, found], "usage": {"status": "unknown"}, "evidence_ref": "run",
    }  # fmt: skip


def claims_of(rows: PartitionRows, job_id: str) -> int:
    return len(rows.jobs[job_id]["attempts"])


def publications_of(rows: PartitionRows, job_id: str) -> int:
    outputs = rows.jobs[job_id]["output_receipts"]
    # Two assertions each, and the relation that was there before.
    assert len(rows.relations) == len(outputs) + 1
    return len(outputs) // 2


STEPS: dict[str, tuple[Callable[[Known], Held], Step, Callable[[PartitionRows, str], int]]] = {
    "claim": (lambda known: {"job_id": new_job(known)}, claim, claims_of),
    "publish": (claimed, publish, publications_of),
}


@pytest.fixture
def known(armed_suite: Suite, scope: dict[str, Any]) -> Iterator[Known]:
    """Two related records on a suite with slots enough for all callers."""
    with armed_suite.client() as client:
        api = Api(client, scope)
        first, second = api.create("one"), api.create("two")
        yield Known(api, first, second, second, api.relate(first, second))


def request(scope: dict[str, Any], key: str, operation: dict[str, Any]) -> Request:
    body = {"contract_version": 1, "scope": scope, "idempotency_key": key, "operation": operation}
    return "memory/consolidation/commands", body


def codes(answers: list[Answer]) -> Counter[str]:
    return Counter("accepted" if status == 200 else document["error"]["code"] for status, document in answers)


@pytest.mark.parametrize("name", STEPS)
def test_one_step_has_one_effect_and_one_receipt(armed_suite: Suite, known: Known, name: str) -> None:
    """All fifty callers get the same receipt, and nothing of their conflicts with each other."""
    prepare, make, effects = STEPS[name]
    held = prepare(known)
    answers = send_at_once(armed_suite, [request(known.scope, "same", make(held, known, 1))] * CALLERS)
    assert {"accepted": CALLERS} == codes(answers)
    assert 1 == len({json.dumps(document, sort_keys=True) for _, document in answers})
    assert 1 == effects(verdict.check_partition(armed_suite, known.scope), held["job_id"])
    verdict.check_ordinary(armed_suite, known.scope)


@pytest.mark.parametrize(("key", "code"), [("same", "idempotency_conflict"), ("key {}", "revision_conflict")])
@pytest.mark.parametrize("name", STEPS)
def test_different_steps_have_one_winner(armed_suite: Suite, known: Known, name: str, key: str, code: str) -> None:
    """Under one key the others conflict with it, under keys of their own with the revision; one has its effect."""
    prepare, make, effects = STEPS[name]
    held = prepare(known)
    answers = send_at_once(
        armed_suite,
        [request(known.scope, key.format(number), make(held, known, number)) for number in range(CALLERS)],
    )
    assert {"accepted": 1, code: CALLERS - 1} == codes(answers)
    rows = verdict.check_partition(armed_suite, known.scope)
    assert 1 == effects(rows, held["job_id"])
    # What is stored is what the winner had sent.
    (winner,) = [number for number, (status, _) in enumerate(answers) if status == 200]
    expected = make(held, known, winner)
    job = rows.jobs[held["job_id"]]
    if name == "claim":
        assert expected["worker_id"] == job["attempts"][0]["worker_id"]
    else:
        assert {expected["assertions"][0]["evidence_ref"]} == {
            output["evidence_ref"] for output in job["output_receipts"]
        }
    verdict.check_ordinary(armed_suite, known.scope)

"""Doctored histories of idempotency keys: each lie is told."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from soak.history import Attempt, FinalPlace, Outcome
from soak.write_checker import check_attempts

PLACE, ROUTE = "mk0000000001", "memory/commands"
RECEIPT = {"record_id": "r", "revision": 1, "idempotency_key": "k"}


def attempt(outcome: Outcome, digest: str = "d", receipt: dict[str, Any] | None = None) -> Attempt:
    text = json.dumps({"contract_version": 1, "receipt": receipt or RECEIPT}) if outcome == "acknowledged" else ""
    return Attempt(PLACE, ROUTE, "k", digest, outcome, text)


def problems(*attempts: Attempt, stored: dict[str, Any] | None = RECEIPT) -> list[str]:
    """What is found; without the words that say where."""
    receipts = {} if stored is None else {(ROUTE, "k"): stored}
    found = check_attempts(attempts, {PLACE: FinalPlace(receipts)}, Counter())
    return [problem.partition(": ")[2] for problem in found]


@pytest.mark.parametrize(
    ("outcomes", "stored"),
    [
        (["acknowledged"], RECEIPT),
        (["unknown", "busy", "acknowledged", "acknowledged"], RECEIPT),
        (["refused"], None),
        (["busy", "busy"], None),
        (["unknown", "refused"], None),
    ],
)
def test_a_true_history_passes(outcomes: list[Outcome], stored: dict[str, Any] | None) -> None:
    """What was acknowledged is there, what was refused is not, and an unknown outcome is told by its key."""
    assert [] == problems(*map(attempt, outcomes), stored=stored)


def test_another_command_under_a_key_may_be_refused() -> None:
    """The receipt of the first one lies there, and the other left nothing."""
    assert [] == problems(attempt("acknowledged"), attempt("refused", "other"))


def test_a_lost_write_is_found() -> None:
    """It was acknowledged, and no receipt lies there."""
    assert ["was acknowledged, and its receipt is lost"] == problems(attempt("acknowledged"), stored=None)


def test_a_refused_write_that_was_made_is_found() -> None:
    """Refused or turned away for want of room, it has left nothing."""
    for outcomes in (["refused"], ["busy"], ["unknown", "refused"]):
        assert ["was refused, and its receipt lies there"] == problems(*map(attempt, outcomes))


def test_another_receipt_is_found() -> None:
    """A repetition answers the same bytes, and they are those of the stored receipt."""
    other = {**RECEIPT, "revision": 2}
    assert ["was answered in 2 different ways"] == problems(
        attempt("acknowledged"), attempt("acknowledged", receipt=other), stored=None
    )[:1]
    assert ["was acknowledged with another receipt than the stored one"] == problems(
        attempt("acknowledged"), stored=other
    )


def test_two_commands_under_one_key_are_found() -> None:
    """Only one of them may ever be acknowledged."""
    found = problems(attempt("acknowledged"), attempt("acknowledged", "other"))
    assert "two different commands were acknowledged under it" in found


def test_a_command_without_any_answer_is_found() -> None:
    """At the end every key has been asked, and has answered."""
    assert ["was never answered"] == problems(attempt("unknown"), stored=None)

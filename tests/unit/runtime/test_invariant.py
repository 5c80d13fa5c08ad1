"""Invariants are checked whatever the interpreter's flags."""

from __future__ import annotations

import pytest

from services.runtime.invariant import InvariantViolation, invariant


def test_a_true_condition_passes() -> None:
    """Nothing happens while the condition holds."""
    invariant([1], "never said")


def test_a_false_condition_raises_with_its_message() -> None:
    """The message says what was contradicted."""
    with pytest.raises(InvariantViolation, match="heads differ"):
        invariant([], "heads differ")

"""Conditions that hold unless the code is wrong. Unlike `assert`, they are checked under `python -O` too."""

from __future__ import annotations


class InvariantViolation(Exception):
    """The program contradicts itself; callers see it as `internal_error`."""


def invariant(condition: object, message: str) -> None:
    """Raise InvariantViolation with `message` unless `condition` is true. The message holds no request content."""
    if not condition:
        raise InvariantViolation(message)

"""Checks of single values, compiled from `waggle.json.v1.rules`. Each takes a value and raises Breach if it is bad."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from google.protobuf.descriptor import EnumDescriptor

from waggle.json.v1 import options_pb2

INVALID = "invalid_request"

Check = Callable[[Any], None]

_UUID = re.compile(r"[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class Breach(Exception):
    """A broken rule, on its way out of the message; every level that it leaves prepends its member to the path."""

    def __init__(self, message: str, reason: str = INVALID, path: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason
        self.path = path

    def inside(self, member: str) -> Breach:
        """Prepend a member, or an index such as "[3]", to the path."""
        joint = "" if not self.path or self.path.startswith("[") or not member else "."
        self.path = f"{member}{joint}{self.path}"
        return self


def string_checks(rules: options_pb2.FieldRules) -> list[Check]:
    """Compile the rules of a string, `uuid` apart, which also normalises."""
    reason = rules.reason or INVALID
    checks: list[Check] = []
    if rules.HasField("min_bytes") or rules.HasField("max_bytes"):
        checks.append(_byte_bounds(rules, reason))
    if rules.not_blank:

        def not_blank(value: str) -> None:
            if not value or value.isspace():
                raise Breach("must not be blank", reason)

        checks.append(not_blank)
    if rules.no_control:

        def no_control(value: str) -> None:
            if not value.isprintable() and _CONTROL.search(value):
                raise Breach("must not hold control characters", reason)

        checks.append(no_control)
    if rules.HasField("hex_digits"):
        digits = re.compile(f"[0-9a-f]{{{rules.hex_digits}}}")

        def hex_digits(value: str) -> None:
            if not digits.fullmatch(value):
                raise Breach(f"must be {rules.hex_digits} lowercase hexadecimal digits", reason)

        checks.append(hex_digits)
    return checks


def _byte_bounds(rules: options_pb2.FieldRules, reason: str) -> Check:
    least = rules.min_bytes if rules.HasField("min_bytes") else 0
    greatest = rules.max_bytes if rules.HasField("max_bytes") else None

    def byte_bounds(value: str) -> None:
        size = len(value) if value.isascii() else len(value.encode("utf-8"))
        if size < least:
            raise Breach("must not be empty" if least == 1 else f"must have at least {least} bytes of UTF-8", reason)
        if greatest is not None and size > greatest:
            raise Breach(f"must have at most {greatest} bytes of UTF-8", reason)

    return byte_bounds


def bytes_checks(rules: options_pb2.FieldRules) -> list[Check]:
    """Compile the bounds on the length of a bytes field."""
    if not (rules.HasField("min_bytes") or rules.HasField("max_bytes")):
        return []
    least, greatest = rules.min_bytes, rules.max_bytes if rules.HasField("max_bytes") else math.inf
    reason = rules.reason or INVALID

    def length(value: bytes) -> None:
        if not least <= len(value) <= greatest:
            raise Breach(f"must have from {least} to {greatest} bytes", reason)

    return [length]


def canonical_uuid(value: str) -> str:
    """Return UUID text (8-4-4-4-12 hexadecimal digits in any case) in lower case; raise Breach for anything else."""
    if len(value) != 36 or not _UUID.fullmatch(value):
        raise Breach("must be a UUID")
    return value.lower()


def number_checks(rules: options_pb2.FieldRules, *, is_contract_version: bool = False) -> list[Check]:
    """Compile the rules of an integer or a number. NaN passes no bound."""
    reason = rules.reason or INVALID
    checks: list[Check] = []
    if rules.HasField("const_int"):
        constant = rules.const_int
        constant_reason = rules.reason or ("unsupported_contract_version" if is_contract_version else INVALID)

        def equals(value: int) -> None:
            if value != constant:
                raise Breach(f"must be {constant}", constant_reason)

        checks.append(equals)
    low, high = _bounds(rules)
    if low is not None or high is not None:
        least = -math.inf if low is None else low
        greatest = math.inf if high is None else high
        text = _bounds_text(low, high)

        def within(value: float) -> None:
            if not least <= value <= greatest:
                raise Breach(text, reason)

        checks.append(within)
    return checks


def numbers_check(rules: options_pb2.FieldRules) -> Check | None:
    """Compile the bounds of every element of a repeated number, for long vectors: the good case runs in C."""
    low, high = _bounds(rules)
    if low is None and high is None:
        return None
    least = -math.inf if low is None else low
    greatest = math.inf if high is None else high
    text, reason = _bounds_text(low, high), rules.reason or INVALID

    def all_within(values: Sequence[float]) -> None:
        if not values:
            return
        numbers = list(values)
        # A NaN hides from min and max, but not from the sum.
        if least <= min(numbers) and max(numbers) <= greatest and not math.isnan(sum(numbers)):
            return
        for index, number in enumerate(numbers):
            if not least <= number <= greatest:
                raise Breach(text, reason, f"[{index}]")

    return all_within


def _bounds(rules: options_pb2.FieldRules) -> tuple[float | None, float | None]:
    low: float | None = None
    high: float | None = None
    if rules.HasField("min_int"):
        low = rules.min_int
    elif rules.HasField("min_number"):
        low = rules.min_number
    if rules.HasField("max_int"):
        high = rules.max_int
    elif rules.HasField("max_number"):
        high = rules.max_number
    return low, high


def _bounds_text(low: float | None, high: float | None) -> str:
    if low is None:
        return f"must be at most {high}"
    if high is None:
        return f"must be at least {low}"
    return f"must be from {low} to {high}"


def count_checks(rules: options_pb2.FieldRules) -> list[Check]:
    """Compile the rules of a repeated field as a whole: number of elements and distinctness."""
    reason = rules.reason or INVALID
    checks: list[Check] = []
    if rules.HasField("min_items"):
        least = rules.min_items

        def enough(values: Sequence[object]) -> None:
            if len(values) < least:
                raise Breach("must not be empty" if least == 1 else f"must have at least {least} elements", reason)

        checks.append(enough)
    if rules.HasField("max_items"):
        greatest = rules.max_items

        def not_too_many(values: Sequence[object]) -> None:
            if len(values) > greatest:
                raise Breach(f"must have at most {greatest} elements", reason)

        checks.append(not_too_many)
    return checks


def unique_check(rules: options_pb2.FieldRules) -> Check | None:
    """Compile the rule that elements are distinct, or None. Runs after normalisation of the elements."""
    if not rules.unique:
        return None
    reason, by = rules.reason or INVALID, rules.unique_by

    def distinct(values: Sequence[Any]) -> None:
        seen: set[Any] = set()
        for index, value in enumerate(values):
            if by:
                key = getattr(value, by)
            else:
                key = (
                    value
                    if isinstance(value, int | float | str | bytes)
                    else value.SerializeToString(deterministic=True)
                )
            if key in seen:
                raise Breach("must not repeat an element", reason, f"[{index}]")
            seen.add(key)

    return distinct


def enum_check(enum: EnumDescriptor, *, zero_is_unset: bool) -> Check:
    """Compile the rule that an enum holds a documented value.

    Args:
        enum: The enum.
        zero_is_unset: The zero value passes, because it stands for an absent member.
    """
    known = frozenset(number for number in enum.values_by_number if number != 0 or zero_is_unset)
    words = ", ".join(
        value.GetOptions().Extensions[options_pb2.word] or value.name for value in enum.values if value.number != 0
    )

    def is_known(value: int) -> None:
        if value not in known:
            raise Breach(f"must be one of {words}")

    return is_known


def enum_const_checks(enum: EnumDescriptor, rules: options_pb2.FieldRules) -> list[Check]:
    """Compile `const_int` of an enum: the one value that a request may name, such as `mode` of a lexical search."""
    if not rules.HasField("const_int"):
        return []
    constant = rules.const_int
    word = enum.values_by_number[constant].GetOptions().Extensions[options_pb2.word]

    def is_constant(value: int) -> None:
        if value != constant:
            raise Breach(f"must be {word}", rules.reason or INVALID)

    return [is_constant]

"""Checks of JSON values, made by combining small ones. Each is a function that returns nothing or refuses.

A check of an object is written as the table of its members, so that it reads like the documentation.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, Mapping, Optional

from qilbeedb._errors import ConsumerError, refuse

Check = Callable[[Any], None]

U64_MAX = 2**64 - 1
I64_MIN, I64_MAX = -(2**63), 2**63 - 1
FLOAT32_MAX = 3.4028235e38
_NAME_CHARACTERS_MAX = 64

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_HEX64 = re.compile(r"[0-9a-f]{64}")
# Unicode category Cc, which never changes.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def anything(value: Any) -> None:
    """Any JSON."""


def boolean(value: Any) -> None:
    """Exactly true or false."""
    if not isinstance(value, bool):
        refuse(detail="must be true or false")


def text(value: Any) -> None:
    """Any text."""
    if not isinstance(value, str):
        refuse(detail="must be text")


def any_object(value: Any) -> None:
    """Any object."""
    if not isinstance(value, dict):
        refuse(detail="must be an object")


def uuid(value: Any) -> None:
    """A UUID in lower-case canonical text."""
    if not isinstance(value, str) or not _UUID.fullmatch(value):
        refuse(detail="must be a UUID in lower case")


def hex64(value: Any) -> None:
    """A digest: 64 lower-case hexadecimal digits."""
    if not isinstance(value, str) or not _HEX64.fullmatch(value):
        refuse(detail="must be 64 hexadecimal digits in lower case")


def ident(bytes_max: int) -> Check:
    """Text that is not blank, has no control characters and at most so many UTF-8 bytes."""

    def check(value: Any) -> None:
        if (
            not isinstance(value, str)
            or not value.strip()
            or _CONTROL.search(value)
            # Half of a surrogate pair can be in an argument, and then has no UTF-8.
            or len(value.encode("utf-8", "surrogatepass")) > bytes_max
            or not _is_text(value)
        ):
            refuse(detail=f"must be text of 1 to {bytes_max} bytes, not blank, without control characters")

    return check


def integer(low: int, high: int) -> Check:
    """An integer, bounds included; neither a boolean nor a float."""

    def check(value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            refuse(detail=f"must be an integer from {low} to {high}")

    return check


def number(low: float = -FLOAT32_MAX, high: float = FLOAT32_MAX) -> Check:
    """A finite number, bounds included."""

    def check(value: Any) -> None:
        # No comparison holds for NaN, and an integer of any length is compared exactly.
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
            refuse(detail=f"must be a finite number from {low} to {high}")

    return check


def choice(*values: str) -> Check:
    """One of these texts."""

    def check(value: Any) -> None:
        if not isinstance(value, str) or value not in values:
            refuse(detail=f"must be one of {', '.join(values)}")

    return check


def nullable(inner: Check) -> Check:
    """Null, or what the inner check accepts."""

    def check(value: Any) -> None:
        if value is not None:
            inner(value)

    return check


def array(inner: Check, low: int = 0, high: int = I64_MAX) -> Check:
    """An array of so many values, each accepted by the inner check."""

    def check(value: Any) -> None:
        if not isinstance(value, list) or not low <= len(value) <= high:
            refuse(detail=f"must be an array of {low} to {high} values")
        for index, item in enumerate(value):
            try:
                inner(item)
            except ConsumerError as error:
                error.place(f"[{index}]")
                raise

    return check


def closed(required: Mapping[str, Check], optional: Optional[Mapping[str, Check]] = None) -> Check:
    """An object with all the required members, perhaps the optional ones, and no others."""
    members: Dict[str, Check] = {**required, **(optional or {})}

    def check(value: Any) -> None:
        if not isinstance(value, dict):
            refuse(detail="must be an object")
        for name in required:
            if name not in value:
                refuse(detail=f"must have the member {name}")
        for name in value:
            if name not in members:
                refuse(detail=f"must not have the member {str(name)[:_NAME_CHARACTERS_MAX]}")
        for name, item in value.items():
            try:
                members[name](item)
            except ConsumerError as error:
                error.place(name)
                raise

    return check


def tagged(tag: str, variants: Mapping[str, Check]) -> Check:
    """An object whose member `tag` names the check that it has to pass."""

    def check(value: Any) -> None:
        if not isinstance(value, dict) or not isinstance(value.get(tag), str) or value[tag] not in variants:
            refuse(detail=f"must be an object whose {tag} is one of {', '.join(variants)}")
        variants[value[tag]](value)

    return check


def distinct(values: Any) -> None:
    """Refuse when two of these hashable values are equal."""
    found = list(values)
    if len(set(found)) != len(found):
        refuse(detail="must not hold the same twice")


def _is_text(value: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in value)


VERSION_1 = integer(1, 1)
U64 = integer(0, U64_MAX)
REVISION = integer(1, U64_MAX)
MILLIS = integer(I64_MIN, I64_MAX)
NAME = ident(256)
REFERENCE = ident(2048)
EVIDENCE = REFERENCE

"""Reading stored values for an audit: every fault becomes one exception, and only the canonical spelling passes."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Protocol, TypeVar

from services.domain.canonical_json import canonical_bytes, parse_canonical
from services.domain.errors import WaggleError


class Encodable(Protocol):
    """A stored object that knows its stored form."""

    def encode(self) -> bytes:
        """The stored form."""
        ...


T = TypeVar("T")
E = TypeVar("E", bound=Encodable)


class Unsound(Exception):
    """A stored value is not what it should be. The message is the end of a sentence, without stored content."""


def read_value(read: Callable[[], T]) -> T:
    """Run a reading function over stored bytes.

    Raises:
        Unsound: It fails, in whatever way.
    """
    try:
        return read()
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, WaggleError) as error:
        raise Unsound("cannot be read") from error


def read_encodable(value: bytes, decode: Callable[[bytes], E]) -> E:
    """Decode a stored object whose stored form has exactly one spelling.

    Raises:
        Unsound: It cannot be read, or is not in canonical form.
    """
    found = read_value(lambda: decode(value))
    if read_value(found.encode) != value:
        raise Unsound("is not in its canonical form")
    return found


def read_json(value: bytes) -> Any:
    """Parse stored canonical JSON.

    Raises:
        Unsound: It cannot be read, or is not in canonical form.
    """
    found = read_value(lambda: parse_canonical(value))
    if canonical_bytes(found) != value:
        raise Unsound("is not in its canonical form")
    return found


def fingerprint(value: Any) -> bytes:
    """16 bytes that stand for a JSON value while it is compared with another."""
    return blake2b(canonical_bytes(value), digest_size=16).digest()


def require(condition: bool, problem: str) -> None:
    """Raise Unsound unless a condition holds."""
    if not condition:
        raise Unsound(problem)

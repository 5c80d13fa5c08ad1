"""The one strict JSON parser: bytes or text in, plain Python values out.

Stricter than RFC 8259 where that leaves a choice, because a lenient reading changes what a command means: duplicate
members, numbers that no float64 or 64-bit integer holds, lone surrogates, a byte order mark and deep nesting are all
refused. The standard library's C scanner does the reading. Its hooks leave a mark in the tree where they meet a fault,
so that one walk over the result can name the whole path of the member.
"""

from __future__ import annotations

import json
import re
from math import isfinite
from typing import NoReturn, TypeAlias

from services.domain.errors import InvalidRequest

JsonValue: TypeAlias = bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"] | None

DEPTH_MAX = 64
"""Greatest nesting of arrays and objects; the outermost one counts as 1."""

INTEGER_MIN = -(2**63)
INTEGER_MAX = 2**64 - 1
"""Integers outside these bounds fit no 64-bit type and are refused unless the caller asks for wide ones."""

CONTAINERS_MAX = 65_536
"""Arrays and objects of one document, as their brackets tell: more than bodies of ordinary size can hold. Larger ones
hold long arrays of numbers, and millions of containers would cost seconds."""

_DIGITS_MAX = 400
"""Integers with more digits are beyond float64 as well, so they are never converted."""

_NAME_SHOWN_CHARS = 64
_SIMPLE_NAME = re.compile(r"[A-Za-z0-9_]{1,64}\Z")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_PLAIN = frozenset((bool, type(None)))
_TEXTS = frozenset((str,))
_NUMBERS = frozenset((int, float))


class _Fault:
    """A mark that a scanner hook leaves in the tree: what is wrong, and with which member of the object."""

    __slots__ = ("member", "message")

    def __init__(self, message: str, member: str | None = None) -> None:
        self.message = message
        self.member = member


class _Found(Exception):
    """Carries a fault up to the root while each level puts its own step before the path."""

    def __init__(self, message: str, path: str) -> None:
        self.message = message
        self.path = path


def member_step(name: str) -> str:
    """One object member as a step of a path, safe to show: plain names as they are, others quoted and shortened."""
    if _SIMPLE_NAME.match(name):
        return name
    shown = name if len(name) <= _NAME_SHOWN_CHARS else name[:_NAME_SHOWN_CHARS] + "..."
    return json.dumps(shown)


def join_path(parent: str, step: str) -> str:
    """Path of a member inside `parent` ("" for the document): names joined by dots, array steps "[3]" appended."""
    if not parent:
        return step
    if not step:
        return parent
    return parent + step if step[0] == "[" else f"{parent}.{step}"


def _object_from_pairs(pairs: list[tuple[str, object]]) -> object:
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            break
        seen.add(name)
    return _Fault("duplicate member", name)


def _constant_fault(word: str) -> _Fault:
    return _Fault(f"{word} is not a JSON number")


def _guarded_int(digits: str) -> object:
    if len(digits) > _DIGITS_MAX:
        return _Fault("number out of range")
    return int(digits)


_decoder = json.JSONDecoder(object_pairs_hook=_object_from_pairs, parse_constant=_constant_fault)
# The plain decoder reads integers in C, but gives up on the whole document when one has over 4,300 digits.
_guarded_decoder = json.JSONDecoder(
    object_pairs_hook=_object_from_pairs, parse_constant=_constant_fault, parse_int=_guarded_int
)


def parse_json(
    document: bytes | str, *, member: str = "", wide_integers: bool = False, depth_max: int = DEPTH_MAX
) -> JsonValue:
    """Parse one JSON document.

    Args:
        document: UTF-8 bytes, or text. White space around the value is allowed, anything else is not.
        member: Path of the request member that held the text; errors name members below it.
        wide_integers: Let integers beyond 64 bits through, for a caller that knows which members are real numbers.
        depth_max: Greatest number of containers around a value.

    Returns:
        None, bool, int (exact, written in plain digits), float (finite, written with a fraction or exponent), str
        (no lone surrogates), list or dict with members in document order, at most `depth_max` deep.

    Raises:
        InvalidRequest: The document is not that. Names the path of the member at fault where there is one.
    """
    if isinstance(document, bytes):
        try:
            text = document.decode("utf-8")
        except UnicodeDecodeError as error:
            raise _refusal(f"not UTF-8 at byte {error.start}", member) from None
    else:
        text = document
    if text.startswith("\ufeff"):
        raise _refusal("starts with a byte order mark", member)
    if len(text) > CONTAINERS_MAX and text.count("[") + text.count("{") > CONTAINERS_MAX:
        raise _refusal(f"more than {CONTAINERS_MAX} arrays and objects", member)
    value = _scan(text, member, depth_max)
    # Strict UTF-8 lets no surrogate in, so only escapes can make one. The plain search first is what keeps this cheap.
    may_hold_surrogates = ("\\u" in text and _SURROGATE_ESCAPE.search(text) is not None) or isinstance(document, str)
    walk = _Walk(wide_integers=wide_integers, check_strings=may_hold_surrogates, depth_max=depth_max)
    try:
        walk.check(value, 0)
    except _Found as found:
        raise _refusal(found.message, join_path(member, found.path)) from None
    return value  # type: ignore[return-value]  # the walk has seen every node


def _scan(text: str, member: str, depth_max: int) -> object:
    try:
        try:
            return _decoder.decode(text)
        except json.JSONDecodeError:
            raise
        except ValueError:  # an integer of more than 4,300 digits, which the guarded decoder marks in its place
            return _guarded_decoder.decode(text)
    except json.JSONDecodeError as error:
        raise _refusal(_syntax_message(error, text), member) from None
    except RecursionError:
        raise _refusal(f"nested deeper than {depth_max} levels", member) from None


def _syntax_message(error: json.JSONDecodeError, text: str) -> str:
    if not text or text.isspace():
        return "empty, a JSON document is needed"
    return f"malformed JSON at character {error.pos}"


def _refusal(message: str, member: str) -> InvalidRequest:
    return InvalidRequest(message, member=member or None)


class _Walk:
    """One pass over a scanned tree that finds what the scanner lets through."""

    __slots__ = ("check_strings", "depth_max", "wide_integers")

    def __init__(self, *, wide_integers: bool, check_strings: bool, depth_max: int) -> None:
        self.depth_max = depth_max
        self.wide_integers = wide_integers
        self.check_strings = check_strings

    def check(self, value: object, depth: int) -> None:
        """Raise _Found, its path relative to `value`, for the first fault in document order.

        Args:
            value: A node of the scanned tree.
            depth: How many containers hold it.
        """
        kind = type(value)
        if kind is dict:
            self._check_object(value, depth + 1)  # type: ignore[arg-type]
        elif kind is list:
            self._check_array(value, depth + 1)  # type: ignore[arg-type]
        elif kind is str:
            if self.check_strings:
                self._check_string(value)  # type: ignore[arg-type]
        elif kind is float:
            if not isfinite(value):  # type: ignore[arg-type]
                raise _Found("number out of range", "")
        elif kind is int:
            if not (self.wide_integers or INTEGER_MIN <= value <= INTEGER_MAX):  # type: ignore[operator]
                raise _Found("integer out of the 64-bit range", "")
        elif kind is _Fault:
            fault: _Fault = value  # type: ignore[assignment]
            raise _Found(fault.message, "" if fault.member is None else member_step(fault.member))

    def _check_object(self, members: dict[str, object], depth: int) -> None:
        if depth > self.depth_max:
            self._too_deep()
        check_strings = self.check_strings
        for name, value in members.items():
            kind = type(value)
            if not check_strings and (kind is str or kind in _PLAIN):
                continue
            try:
                if check_strings:
                    self._check_string(name)
                self.check(value, depth)
            except _Found as found:
                found.path = join_path(member_step(name), found.path)
                raise

    def _check_array(self, items: list[object], depth: int) -> None:
        if depth > self.depth_max:
            self._too_deep()
        # Long arrays are nearly always vectors or plain words: settle those in C.
        kinds = set(map(type, items))
        if kinds <= _PLAIN or (kinds <= _TEXTS and not self.check_strings):
            return
        if kinds <= _NUMBERS and self._are_numbers_in_range(items, kinds):  # type: ignore[arg-type]
            return
        for index, value in enumerate(items):
            try:
                self.check(value, depth)
            except _Found as found:
                found.path = join_path(f"[{index}]", found.path)
                raise

    def _are_numbers_in_range(self, items: list[int | float], kinds: set[type]) -> bool:
        try:
            if not all(map(isfinite, items)):
                return False
        except OverflowError:  # an integer beyond float64
            return False
        return self.wide_integers or int not in kinds or (min(items) >= INTEGER_MIN and max(items) <= INTEGER_MAX)

    def _check_string(self, text: str) -> None:
        if text.isascii():
            return
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise _Found("lone surrogate, not a Unicode character", "") from None

    def _too_deep(self) -> NoReturn:
        raise _Found(f"nested deeper than {self.depth_max} levels", "")

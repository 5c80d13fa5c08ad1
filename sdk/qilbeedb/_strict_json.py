"""JSON as the contract allows it: nothing twice, nothing beyond 64 bits, nothing that is not a number."""

from __future__ import annotations

import json
import re
from math import isfinite
from typing import Any, Dict, List, Tuple

from qilbeedb._errors import ConsumerProtocolError, refuse

JsonObject = Dict[str, Any]

INTEGER_MIN = -(2**63)
INTEGER_MAX = 2**64 - 1
DIGITS_MAX = 20
DEPTH_MAX = 128
"""Deeper answers are refused before any copy or walk of them could exhaust the stack."""

_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NOT_BRACKETS = re.compile(r"[^\[\]{}]+")


def parse_response(body: bytes) -> Any:
    """Parse the body of an answer.

    Raises:
        ConsumerProtocolError: `invalid_json_response`, `duplicate_response_field`, `nonfinite_response_number` or
            `response_integer_out_of_range`.
    """
    try:
        text = body.decode("utf-8")
        _check_depth(text)
        value = json.loads(
            text,
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_float,
            parse_constant=lambda _: refuse("nonfinite_response_number"),
        )
        if _SURROGATE_ESCAPE.search(text):
            # Half of a character is no text, although JSON can spell it.
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except ConsumerProtocolError:
        raise
    except (ValueError, RecursionError) as error:
        raise ConsumerProtocolError("invalid_json_response") from error
    return value


def compact_json(value: Any) -> bytes:
    """Return JSON without white space, non-ASCII escaped.

    Raises:
        ConsumerProtocolError: `invalid_response`, when JSON cannot say the value.
    """
    try:
        return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise ConsumerProtocolError("invalid_response") from error


def _check_depth(text: str) -> None:
    if text.count("[") + text.count("{") <= DEPTH_MAX:
        return
    depth = 0
    for bracket in _NOT_BRACKETS.sub("", _STRINGS.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        if depth > DEPTH_MAX:
            refuse("invalid_json_response")


def _object(pairs: List[Tuple[str, Any]]) -> JsonObject:
    members = dict(pairs)
    if len(members) != len(pairs):
        refuse("duplicate_response_field")
    return members


def _integer(digits: str) -> int:
    # Counted first: converting a million digits takes longer than refusing them.
    if len(digits.lstrip("-")) > DIGITS_MAX:
        refuse("response_integer_out_of_range")
    value = int(digits)
    if not INTEGER_MIN <= value <= INTEGER_MAX:
        refuse("response_integer_out_of_range")
    return value


def _float(digits: str) -> float:
    value = float(digits)
    if not isfinite(value):
        refuse("nonfinite_response_number")
    return value

"""JSON of answers: what is refused, and by which code."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qilbeedb import ConsumerProtocolError
from qilbeedb._strict_json import DEPTH_MAX, compact_json, parse_response

U64_MAX = 2**64 - 1

texts = st.text(st.characters(exclude_categories=["Cs"]))
numbers = st.integers(-(2**63), U64_MAX) | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("code", "body"),
    [
        ("duplicate_response_field", b'{"a": 1, "a": 1}'),
        ("duplicate_response_field", b'{"x": [{"a": 1, "b": 2, "\\u0061": 3}]}'),
        ("nonfinite_response_number", b"[NaN]"),
        ("nonfinite_response_number", b"[-Infinity]"),
        ("nonfinite_response_number", b"[1e999]"),
        ("response_integer_out_of_range", b"[18446744073709551616]"),
        ("response_integer_out_of_range", b"[-9223372036854775809]"),
        ("response_integer_out_of_range", b"[" + b"1" * 5000 + b"]"),
        ("invalid_json_response", b""),
        ("invalid_json_response", b"{"),
        ("invalid_json_response", b"{} {}"),
        ("invalid_json_response", b"[01]"),
        ("invalid_json_response", b'["\xff"]'),
        ("invalid_json_response", b"\xef\xbb\xbf{}"),
        ("invalid_json_response", b'["\\ud800"]'),
        ("invalid_json_response", b'["\x01"]'),
        ("invalid_json_response", b"[" * (DEPTH_MAX + 1) + b"]" * (DEPTH_MAX + 1)),
        ("invalid_json_response", b"[" * 200_000),
    ],
)
def test_refusals(code: str, body: bytes) -> None:
    """Each fault of an answer has its code."""
    with pytest.raises(ConsumerProtocolError) as caught:
        parse_response(body)
    assert code == caught.value.code


@pytest.mark.parametrize(
    ("value", "body"),
    [
        ([U64_MAX, -(2**63), 0], b"[18446744073709551615, -9223372036854775808, -0]"),
        (["\U0001f41d"], b'["\\ud83d\\udc1d"]'),
        ({"a": ["[[" * 200]}, b'{"a": ["' + b"[[" * 200 + b'"]}'),
        ([0.1], b"[1e-1]"),
    ],
)
def test_acceptance(value: Any, body: bytes) -> None:
    """The edges of what is allowed arrive unchanged; brackets in text are no depth."""
    assert value == parse_response(body)


@given(json_values)
def test_round_trip(value: Any) -> None:
    """Whatever is sent can be read again, exactly."""
    assert value == parse_response(compact_json(value))


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, object(), {("a",): 1}])
def test_what_json_cannot_say(value: Any) -> None:
    """A value that has no JSON is refused, not approximated."""
    with pytest.raises(ConsumerProtocolError) as caught:
        compact_json(value)
    assert "invalid_response" == caught.value.code

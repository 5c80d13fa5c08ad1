"""One spelling of every value, whatever the release of the library below: digests and stored bytes rest on it."""

from __future__ import annotations

import hashlib
import json
import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from services.domain import canonical_json
from services.domain.canonical_json import canonical_bytes, parse_canonical, vector_bytes
from services.domain.embeddings import vector_digest

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text() | st.sampled_from(["1e+16", '"1e+16', "\\", '\\"e+', "e+"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | FLOATS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (0.1, "0.1"),
        (1e15, "1000000000000000.0"),
        (1e16, "1e16"),
        (-2.5e20, "-2.5e20"),
        (1.7976931348623157e308, "1.7976931348623157e308"),
        (1e-5, "0.00001"),
        (1e-6, "1e-6"),
        (5e-324, "5e-324"),
        (2**64 - 1, "18446744073709551615"),
        (-(2**63), "-9223372036854775808"),
        ({"b": 1, "a": ["1e+16", 1e16, None, True]}, '{"a":["1e+16",1e16,null,true],"b":1}'),
        ({'1e+16"': '\\"1e+16'}, '{"1e+16\\"":"\\\\\\"1e+16"}'),
        ({"\U00010000": 1, "\uffff": 2}, '{"\uffff":2,"\U00010000":1}'),
    ],
)
def test_forms(value: Any, text: str) -> None:
    """As docs/decisions/0002 has them."""
    assert text == canonical_bytes(value).decode("utf-8")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (0.1, "0.1"),
        (16_777_216.0, "16777216.0"),
        (1e12, "1000000000000.0"),
        (1e13, "1e13"),
        (3.4028235e38, "3.4028235e38"),
        (1e-7, "1e-7"),
        (1e-45, "1e-45"),
    ],
)
def test_forms_in_a_vector(value: float, text: str) -> None:
    """The shortest decimal of float32, with a fraction or an exponent."""
    vector = np.array([value, 1.0], dtype=np.float32)
    assert f"[{text},1.0]" == vector_bytes(vector).decode("ascii")
    assert hashlib.sha256(f"[{text},1.0]".encode()).hexdigest() == vector_digest(vector)


@pytest.mark.parametrize("sign", [b"", b"+"])
def test_releases_that_write_a_plus_and_those_that_do_not_agree(monkeypatch: pytest.MonkeyPatch, sign: bytes) -> None:
    """A store that was written with one is read with the other."""

    def dumps(_value: Any, option: int) -> bytes:
        return b'{"1e+16":[1e' + sign + b'16,"\\"e+",-2.5e' + sign + b"20]}"

    monkeypatch.setattr(canonical_json.orjson, "dumps", dumps)
    assert b'{"1e+16":[1e16,"\\"e+",-2.5e20]}' == canonical_bytes(None)


@given(VALUES)
@example(["1e+16", 1e16])
def test_every_value_is_read_again_as_it_was(value: Any) -> None:
    """Floats stay floats, and text that looks like a number stays as it is."""
    text = canonical_bytes(value)
    assert value == json.loads(text) == parse_canonical(text)
    assert text == canonical_bytes(parse_canonical(text))


@given(FLOATS)
@example(1e16)
def test_a_float_has_the_fewest_digits_and_no_plus(value: float) -> None:
    """As many as Python itself needs, which also writes the shortest that round-trip."""
    text = canonical_bytes(value).decode("ascii")
    assert "+" not in text
    assert math.copysign(1.0, value) == math.copysign(1.0, float(text))
    assert 1 == len({re.sub(r"e.*|[-.]", "", number).strip("0") for number in (text, repr(value))})

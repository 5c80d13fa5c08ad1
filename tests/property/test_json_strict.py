"""The strict parser against the lenient one of the standard library."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from services.domain.errors import InvalidRequest
from services.domain.strict_json import INTEGER_MAX, INTEGER_MIN, parse_json
from tests.property.json_documents import json_values

fragments = st.sampled_from(
    ["{", "}", "[", "]", ",", ":", '"a"', '"\\ud800"', '"\\u0061"', "1", "-0", "1.5", "1e999", "NaN", "true", "null",
     " ", "\ufeff", "99999999999999999999", '"', "\\", "01", "\x01"]
)  # fmt: skip


def same(mine: Any, theirs: Any) -> bool:
    """Equal in value and in type at every level."""
    if type(mine) is not type(theirs):
        return False
    if isinstance(mine, dict):
        return list(mine) == list(theirs) and all(same(mine[name], theirs[name]) for name in mine)
    if isinstance(mine, list):
        return len(mine) == len(theirs) and all(map(same, mine, theirs))
    return bool(mine == theirs)


@given(value=json_values, ensure_ascii=st.booleans())
def test_every_plain_value_reads_back(value: Any, ensure_ascii: bool) -> None:
    """Whatever another writer makes of a value within the bounds is read as that value."""
    assert same(parse_json(json.dumps(value, ensure_ascii=ensure_ascii).encode()), value)


@given(parts=st.lists(fragments, max_size=12))
def test_what_is_accepted_means_the_same_to_everyone(parts: list[str]) -> None:
    """Any text is refused with the documented error, or read as the standard library reads it."""
    text = "".join(parts)
    try:
        mine = parse_json(text.encode())
    except InvalidRequest:
        return
    assert same(mine, json.loads(text))


@given(data=st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """No other failure leaves the parser."""
    try:
        parse_json(data)
    except InvalidRequest:
        pass


@given(number=st.integers(-(2**70), 2**70))
def test_integers_are_exact_or_refused(number: int) -> None:
    """Within 64 bits every digit is kept, beyond them nothing is."""
    try:
        assert parse_json(str(number).encode()) == number
        accepted = True
    except InvalidRequest:
        accepted = False
    assert accepted == (INTEGER_MIN <= number <= INTEGER_MAX)

"""Cursors of the credential directory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.domain.errors import InvalidRequest
from services.identity.credential_cursor import decode_cursor, encode_cursor
from tests.unit.identity.builders import KEY

ID = "7d1f7b2e-9c1a-4d55-8d0e-0f3f5a3c9b11"
CURSOR = encode_cursor(KEY, "acme", ID)


def test_a_cursor_gives_its_position_back() -> None:
    """Also in a process started later: nothing but the key is needed."""
    assert decode_cursor(KEY, "acme", CURSOR) == ID


@given(st.integers(0, len(CURSOR) - 1), st.characters())
def test_a_cursor_with_any_character_changed_is_invalid(index: int, character: str) -> None:
    """Every character counts, and no other spelling of the same bytes is accepted."""
    changed = CURSOR[:index] + character + CURSOR[index + 1 :]
    if changed == CURSOR:
        return
    with pytest.raises(InvalidRequest) as caught:
        decode_cursor(KEY, "acme", changed)
    assert caught.value.member == "cursor"


@pytest.mark.parametrize(
    "cursor", ["", CURSOR[:-1], CURSOR + "A", CURSOR.upper(), CURSOR + "\n", ID, "A" * 64, "é" * 64]
)
def test_anything_else_is_invalid(cursor: str) -> None:
    """Truncated, extended, in capitals, or never issued."""
    with pytest.raises(InvalidRequest):
        decode_cursor(KEY, "acme", cursor)


@pytest.mark.parametrize("position", ["00" * 16, "ff" * 16, "fb" * 16])
def test_url_safe_characters_have_one_spelling(position: str) -> None:
    """'+' for '-' and '/' for '_' are other cursors."""
    cursor = encode_cursor(KEY, "acme", position)
    other = cursor.replace("-", "+").replace("_", "/")
    if other != cursor:
        with pytest.raises(InvalidRequest):
            decode_cursor(KEY, "acme", other)
    assert decode_cursor(KEY, "acme", cursor).replace("-", "") == position


def test_a_cursor_belongs_to_its_company_and_key() -> None:
    """Another company's is refused as if it had never been issued."""
    with pytest.raises(InvalidRequest):
        decode_cursor(KEY, "other", CURSOR)
    with pytest.raises(InvalidRequest):
        decode_cursor(bytes(32), "acme", CURSOR)

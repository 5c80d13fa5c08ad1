"""Cursors of the directories."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.domain.errors import InvalidRequest
from services.identity.directory_page import DirectoryCursors
from tests.unit.identity.builders import KEY

CURSORS = DirectoryCursors(KEY, "credentials", "acme")
POSITION = bytes.fromhex("7d1f7b2e9c1a4d558d0e0f3f5a3c9b11")
CURSOR = CURSORS.encode(POSITION) or ""


def test_the_ends_of_a_directory_need_no_cursor() -> None:
    """None stands for the start of a listing and for its end."""
    assert (CURSORS.encode(None), CURSORS.decode(None)) == (None, None)


@given(st.binary(min_size=1, max_size=256))
def test_a_cursor_gives_its_position_back(position: bytes) -> None:
    """Also in a process started later: nothing but the key is needed. Positions have any length."""
    cursor = CURSORS.encode(position)
    assert cursor is not None
    assert DirectoryCursors(KEY, "credentials", "acme").decode(cursor) == position


@given(st.integers(0, len(CURSOR) - 1), st.characters())
def test_a_cursor_with_any_character_changed_is_invalid(index: int, character: str) -> None:
    """Every character counts, and no other spelling of the same bytes is accepted."""
    changed = CURSOR[:index] + character + CURSOR[index + 1 :]
    if changed == CURSOR:
        return
    with pytest.raises(InvalidRequest) as caught:
        CURSORS.decode(changed)
    assert caught.value.member == "cursor"


@pytest.mark.parametrize(
    "cursor", ["", CURSOR[:-1], CURSOR + "A", CURSOR + "=", CURSOR.upper(), CURSOR + "\n", "A" * 64, "A", "é" * 64]
)
def test_anything_else_is_invalid(cursor: str) -> None:
    """Truncated, extended, padded, in capitals, or never issued."""
    with pytest.raises(InvalidRequest):
        CURSORS.decode(cursor)


@pytest.mark.parametrize(
    "cursors",
    [
        DirectoryCursors(KEY, "credentials", "other"),
        DirectoryCursors(KEY, "credentials", None),
        DirectoryCursors(KEY, "tenants", "acme"),
        DirectoryCursors(bytes(32), "credentials", "acme"),
    ],
)
def test_a_cursor_belongs_to_its_directory_owner_and_key(cursors: DirectoryCursors) -> None:
    """Another one's is refused as if it had never been issued."""
    with pytest.raises(InvalidRequest):
        cursors.decode(CURSOR)

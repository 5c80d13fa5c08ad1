"""Cursors of the ordered query: bound to their walk, and only accepted exactly as issued."""

from __future__ import annotations

from typing import Any

import pytest

from services.domain.errors import InvalidRequest
from services.memory.cursor import CursorSeal
from services.memory.query_records_ordered import OrderedPage, OrderedQuery, query_records_ordered
from services.memory.record_filter import RecordFilter
from tests.harness.memory_world import SCOPE, VERIFIER_KEY, MemoryWorld, scope_of

POSITION = bytes(range(24))
SEAL = CursorSeal(VERIFIER_KEY, {"order": "created_asc"})


def walk(world: MemoryWorld, *, scope: Any = SCOPE, key: bytes = VERIFIER_KEY, **members: Any) -> OrderedPage:
    wanted = OrderedQuery(members.pop("narrowing", RecordFilter()), limit=1, **members)
    return world.read(lambda partition: query_records_ordered(partition, wanted, cursor_key=key), scope=scope)


def test_a_cursor_opens_to_its_position() -> None:
    """Lower-case hexadecimal, well under 1,024 characters."""
    cursor = SEAL.encode(POSITION)
    assert SEAL.decode(cursor) == POSITION
    assert (cursor, len(cursor)) == (cursor.lower(), 112)


def test_every_tampered_digit_is_refused() -> None:
    """One changed digit anywhere, position and seal alike: 400."""
    cursor = SEAL.encode(POSITION)
    for index, digit in enumerate(cursor):
        changed = cursor[:index] + ("1" if digit == "0" else "0") + cursor[index + 1 :]
        with pytest.raises(InvalidRequest) as refused:
            SEAL.decode(changed)
        assert refused.value.member == "query.cursor"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda cursor: cursor[:0],
        lambda cursor: cursor[:-2],
        lambda cursor: cursor + "00",
        lambda cursor: cursor.upper(),
        lambda cursor: " " + cursor[1:],
        lambda cursor: "zz" + cursor[2:],
        lambda cursor: cursor[:-1] + "٣",
        lambda cursor: cursor[:-1] + "\n",
        lambda cursor: cursor * 9,
    ],
)
def test_other_spellings_are_refused(spoil: Any) -> None:
    """Empty, truncated, longer, upper case, blanks and foreign characters: 400."""
    with pytest.raises(InvalidRequest):
        SEAL.decode(spoil(SEAL.encode(POSITION)))


def test_a_cursor_belongs_to_its_walk_only(world: MemoryWorld) -> None:
    """Another order, filter, scope or key: 400; the same walk goes on, also with another limit."""
    for _ in range(3):
        world.create("text", tags=("t",))
    members: dict[str, Any] = {"order": "created_asc", "narrowing": RecordFilter("te", "Observation", "t")}
    cursor = walk(world, **members).next_cursor
    assert cursor is not None
    assert len(walk(world, **members, cursor=cursor).records) == 1
    others: list[dict[str, Any]] = [
        {"order": "created_desc"},
        {"narrowing": RecordFilter("Te", "Observation", "t")},
        {"narrowing": RecordFilter("te", None, "t")},
        {"narrowing": RecordFilter("te", "Observation", None)},
        {"scope": scope_of(mission_id="m")},
        {"scope": scope_of(visibility="private")},
        {"key": bytes(32)},
    ]
    for other in others:
        with pytest.raises(InvalidRequest):
            walk(world, **(members | other), cursor=cursor)

"""Walking a whole store as its engine holds it: the store's own entry, then all rows of one partition after another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from services.storage.engine import EngineClosed, EngineError, EngineSnapshot
from services.storage.layout import (
    DATA_OFFSET,
    PARTITION_TAGS,
    tag_range,
)

PhysicalRow = tuple[bytes, bytes]
"""A physical key and what is stored under it."""

_SCAN_ROWS: Final = 4096
_KEY_END: Final = b"\xff" * 2048


class UnreadablePart(NamedTuple):
    """Rows that the engine cannot read."""

    partition: bytes | None
    """Where; None for rows outside of partitions."""
    text: str
    """A sentence without stored content."""


class RowPage(NamedTuple):
    """Some rows, or parts that the engine cannot read."""

    rows: list[PhysicalRow]
    unreadable: list[UnreadablePart]


class FoundPartitions(NamedTuple):
    """What partitions there are, as far as the engine can tell."""

    ids: list[bytes]
    """Ascending, 32 bytes each."""
    unreadable: list[UnreadablePart]


def find_partitions(snapshot: EngineSnapshot) -> FoundPartitions:
    """Find every partition that has a row under any tag.

    Raises:
        EngineClosed: The engine was closed meanwhile.
    """
    partitions: set[bytes] = set()
    unreadable: list[UnreadablePart] = []
    for tag in PARTITION_TAGS:
        start, end = tag_range(tag)
        try:
            while rows := snapshot.scan(start, end, row_limit=1).rows:
                partition = rows[0][0][1:DATA_OFFSET]
                partitions.add(partition)
                start = tag_range(tag + partition)[1]
        except EngineClosed:
            raise
        except EngineError:
            unreadable.append(_unreadable(None, tag))
    return FoundPartitions(sorted(partitions), unreadable)


def iterate_partition(snapshot: EngineSnapshot, partition: bytes, *, page_bytes: int) -> Iterator[RowPage]:
    """Yield all rows of one partition, tag after tag; a tag whose rows cannot be read is named and left.

    Args:
        snapshot: Where to read.
        partition: 32 bytes.
        page_bytes: Target size of a page in bytes of stored values.

    Raises:
        EngineClosed: The engine was closed meanwhile.
    """
    for tag in PARTITION_TAGS:
        yield from _readable(snapshot, tag_range(tag + partition), partition, page_bytes)


def iterate_rest(snapshot: EngineSnapshot, *, page_bytes: int) -> Iterator[RowPage]:
    """Yield what belongs to no partition: the store's own entry, and rows that no program of this version writes."""
    start = b""
    for tag in sorted(PARTITION_TAGS):
        begin, end = tag_range(tag)
        yield from _readable(snapshot, (start, begin), None, page_bytes)
        start = end
    yield from _readable(snapshot, (start, _KEY_END), None, page_bytes)


def partition_of(key: bytes) -> bytes | None:
    """The partition that a physical key belongs to; None for any other key."""
    return key[1:DATA_OFFSET] if key[:1] in PARTITION_TAGS and len(key) >= DATA_OFFSET else None


def _readable(
    snapshot: EngineSnapshot, bounds: tuple[bytes, bytes], partition: bytes | None, page_bytes: int
) -> Iterator[RowPage]:
    start, end = bounds
    more = True
    while more:
        try:
            rows, more = snapshot.scan(start, end, row_limit=_SCAN_ROWS, byte_limit=page_bytes)
        except EngineClosed:
            raise
        except EngineError:
            # Damage shows as such, or as an impossible demand on the file system.
            yield RowPage([], [_unreadable(partition, start[:1])])
            return
        if more:
            start = rows[-1][0] + b"\x00"
        if rows:
            yield RowPage(rows, [])


def _unreadable(partition: bytes | None, tag: bytes) -> UnreadablePart:
    return UnreadablePart(
        partition, f"the engine cannot read all rows that begin with {tag.decode('ascii', 'replace')!r}"
    )

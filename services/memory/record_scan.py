"""The records of a workspace one after the other, in the order of their ids or of their creation.

Both walks read ahead in few rounds, and with the records that a caller will judge their sources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from services.domain import keys
from services.domain.errors import StorageInconsistency
from services.workspace.partition import RECORDS_IN_ONE_READ, MemoryPartition, StoredRecord, decode_stored_record

_ROWS_IN_ONE_SCAN_MAX: Final = 2_000
_BYTES_IN_ONE_SCAN: Final = 2 * 1024 * 1024

IsJudged = Callable[[StoredRecord], bool]
"""Whether a record will be judged, so that its sources are worth reading ahead."""


class Place(NamedTuple):
    """An entry of the index of creation times. `rest` is the rest of its key: time, then record id."""

    rest: bytes
    record_id: str


def records_by_id(
    partition: MemoryPartition, after: str | None, *, count_max: int, is_judged: IsJudged
) -> Iterator[StoredRecord]:
    """Walk records in ascending order of their ids, tombstones included.

    Args:
        partition: The workspace.
        after: Only greater ids; any id will do, whether it exists or not.
        count_max: End after this many.
        is_judged: See there.
    """
    start = keys.RECORD if after is None else keys.record_key(after) + b"\x00"
    end = keys.prefix_end(keys.RECORD)
    count = size = 0
    while count < count_max:
        wanted = min(_rows_in_next_scan(count, size), count_max - count)
        rows = partition.transaction.scan(partition.id, start, end, limit=wanted)
        stored_rows = [decode_stored_record(value) for _, value in rows]
        for stored in stored_rows:
            partition.keep_record(stored)
        _load_sources(partition, stored_rows, is_judged)
        yield from stored_rows
        if len(rows) < wanted:
            return
        count += len(rows)
        size += sum(stored.size_bytes for stored in stored_rows)
        start = rows[-1][0] + b"\x00"


def places_by_time(
    partition: MemoryPartition, start: bytes, end: bytes, *, descending: bool, first_count: int = RECORDS_IN_ONE_READ
) -> Iterator[Place]:
    """Walk the index of creation times.

    Args:
        partition: The workspace.
        start: First key, inclusive.
        end: End, exclusive.
        descending: From the end to the start.
        first_count: Entries to read in the first round.
    """
    wanted = first_count
    while True:
        rows = partition.transaction.scan(partition.id, start, end, limit=wanted, reverse=descending)
        for key, _ in rows:
            rest = key[len(keys.RECORD_BY_TIME) :]
            yield Place(rest, keys.id_text(rest[8:]))
        if len(rows) < wanted:
            return
        if descending:
            end = rows[-1][0]
        else:
            start = rows[-1][0] + b"\x00"
        wanted = RECORDS_IN_ONE_READ


def load_placed(partition: MemoryPartition, record_ids: list[str], is_judged: IsJudged) -> None:
    """Read the records of places ahead, with their sources; `placed_record` then finds them."""
    partition.load_records(record_ids)
    _load_sources(partition, [placed_record(partition, record_id) for record_id in record_ids], is_judged)


def placed_record(partition: MemoryPartition, record_id: str) -> StoredRecord:
    """The record of a place.

    Raises:
        StorageInconsistency: It is not there.
    """
    stored = partition.stored_record(record_id)
    if stored is None:
        raise StorageInconsistency("the time index names a record that is not there")
    return stored


def _load_sources(partition: MemoryPartition, stored_records: list[StoredRecord], is_judged: IsJudged) -> None:
    partition.load_ancestry(
        stored.state.record_id for stored in stored_records if stored.state.sources and is_judged(stored)
    )


def _rows_in_next_scan(count: int, size: int) -> int:
    if not count:
        return RECORDS_IN_ONE_READ
    return max(RECORDS_IN_ONE_READ, min(_ROWS_IN_ONE_SCAN_MAX, _BYTES_IN_ONE_SCAN * count // max(size, 1)))

"""Walk records in ascending order of their ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from services.domain import keys, limits
from services.domain.eligibility import DependencyWork, is_eligible
from services.memory.record_filter import RecordFilter
from services.workspace.partition import RECORDS_IN_ONE_READ, MemoryPartition, StoredRecord, decode_stored_record

SCAN_LIMIT_DEFAULT: Final = 10_000

_ROWS_IN_ONE_SCAN_MAX: Final = 2_000
_BYTES_IN_ONE_SCAN: Final = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RecordPage:
    """One page.

    Attributes:
        next_after: Id of the last examined record when more exist, else None.
        scanned_records: Records examined, unavailable ones included.
    """

    records: tuple[StoredRecord, ...]
    next_after: str | None
    scanned_records: int
    dependency_work: DependencyWork


def query_records(
    partition: MemoryPartition, narrowing: RecordFilter, *, limit: int, after: str | None, scan_limit: int
) -> RecordPage:
    """Return the next eligible records that pass the filter.

    The page also ends, with a continuation, once its records have 8 MiB.

    Args:
        limit: Greatest number of records, 1 to 1,000.
        after: Only greater ids; any id will do, whether it exists or not.
        scan_limit: Greatest number of records to examine, 1 to 10,000.

    Raises:
        InvalidRequest: Judging the records needs too much dependency work.
    """
    cache = partition.dependency_cache()
    start = keys.RECORD if after is None else keys.record_key(after) + b"\x00"
    end = keys.prefix_end(keys.RECORD)
    records: list[StoredRecord] = []
    scanned, record_bytes, scanned_bytes = 0, 0, 0
    last_id: str | None = None
    while True:
        # One row more than may be examined tells whether anything is left.
        wanted = min(_rows_in_next_scan(scanned, scanned_bytes), scan_limit - scanned + 1)
        rows = partition.transaction.scan(partition.id, start, end, limit=wanted)
        stored_rows = [decode_stored_record(value) for _, value in rows]
        for stored in stored_rows:
            partition.keep_record(stored)
        partition.load_ancestry(
            stored.state.record_id
            for stored in stored_rows
            if stored.state.sources and narrowing.matches(stored.json["payload"])
        )
        for stored in stored_rows:
            if len(records) == limit or scanned == scan_limit or record_bytes >= limits.RECORD_BYTES_MAX:
                return RecordPage(tuple(records), last_id, scanned, cache.work)
            scanned += 1
            scanned_bytes += stored.size_bytes
            last_id = stored.state.record_id
            if narrowing.matches(stored.json["payload"]) and is_eligible(stored.state, cache, partition.now_ms):
                records.append(stored)
                record_bytes += stored.size_bytes
        if len(rows) < wanted:
            return RecordPage(tuple(records), None, scanned, cache.work)
        start = rows[-1][0] + b"\x00"


def _rows_in_next_scan(scanned: int, scanned_bytes: int) -> int:
    if not scanned:
        return RECORDS_IN_ONE_READ
    return max(RECORDS_IN_ONE_READ, min(_ROWS_IN_ONE_SCAN_MAX, _BYTES_IN_ONE_SCAN * scanned // scanned_bytes))

"""Walk records in ascending order of their ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from services.domain import limits
from services.domain.eligibility import DependencyWork, is_eligible
from services.memory.record_filter import RecordFilter
from services.memory.record_scan import records_by_id
from services.workspace.partition import MemoryPartition, StoredRecord

SCAN_LIMIT_DEFAULT: Final = 10_000


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
    records: list[StoredRecord] = []
    scanned = record_bytes = 0
    last_id: str | None = None
    # One more than may be examined tells whether anything is left.
    for stored in records_by_id(
        partition, after, count_max=scan_limit + 1, is_judged=lambda stored: narrowing.matches(stored.json["payload"])
    ):
        if len(records) == limit or scanned == scan_limit or record_bytes >= limits.RECORD_BYTES_MAX:
            return RecordPage(tuple(records), last_id, scanned, cache.work)
        scanned += 1
        last_id = stored.state.record_id
        if narrowing.matches(stored.json["payload"]) and is_eligible(stored.state, cache, partition.now_ms):
            records.append(stored)
            record_bytes += stored.size_bytes
    return RecordPage(tuple(records), None, scanned, cache.work)

"""Walk records by the time of their creation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal

from services.domain import keys
from services.domain.eligibility import DependencyWork, is_eligible
from services.memory.cursor import CursorSeal
from services.memory.page_scan import StopReason, scan_page
from services.memory.record_filter import RecordFilter
from services.memory.record_scan import IsJudged, load_placed, placed_record, places_by_time
from services.workspace.partition import RECORDS_IN_ONE_READ, MemoryPartition, StoredRecord

Order = Literal["created_desc", "created_asc"]

ORDER_DEFAULT: Final[Order] = "created_desc"
LIMIT_DEFAULT: Final = 40
SCAN_LIMIT_DEFAULT: Final = 1_000


@dataclass(frozen=True, slots=True)
class OrderedQuery:
    """What to walk.

    Attributes:
        limit: Greatest number of records, 1 to 100.
        scan_limit: Greatest number of positions to examine, exclusions and tombstones included, 1 to 10,000.
        cursor: Where an earlier page of the same walk ended.
    """

    narrowing: RecordFilter
    order: Order = ORDER_DEFAULT
    limit: int = LIMIT_DEFAULT
    scan_limit: int = SCAN_LIMIT_DEFAULT
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class OrderedPage:
    """One page. `next_cursor` is None exactly when `stop_reason` is "exhausted"."""

    stop_reason: StopReason
    evaluated_at_millis: int
    scanned_records: int
    record_bytes: int
    dependency_work: DependencyWork
    next_cursor: str | None
    records: tuple[StoredRecord, ...]


def query_records_ordered(partition: MemoryPartition, query: OrderedQuery, *, cursor_key: bytes) -> OrderedPage:
    """Return the next eligible records that pass the filter, by creation time and id, ascending or descending.

    Args:
        cursor_key: Key that cursors are sealed with, 32 bytes.

    Raises:
        InvalidRequest: The cursor does not belong to this walk, or judging the records needs too much work.
        StorageInconsistency: The time index names a record that is not there.
    """
    walk = {"partition": partition.id.hex(), "order": query.order, "filter": query.narrowing.as_json()}
    seal = CursorSeal(cursor_key, walk)
    position = None if query.cursor is None else seal.decode(query.cursor)
    cache = partition.dependency_cache()

    def is_judged(stored: StoredRecord) -> bool:
        return query.narrowing.matches(stored.json["payload"])

    def accept(_rest: bytes, stored: StoredRecord) -> StoredRecord | None:
        return stored if is_judged(stored) and is_eligible(stored.state, cache, partition.now_ms) else None

    page = scan_page(
        _records(partition, query.order, position, is_judged), accept, limit=query.limit, scan_limit=query.scan_limit
    )
    return OrderedPage(
        page.stop_reason,
        partition.now_ms,
        page.scanned_records,
        page.record_bytes,
        cache.work,
        None if page.next_position is None else seal.encode(page.next_position),
        page.found,
    )


def _records(
    partition: MemoryPartition, order: Order, position: bytes | None, is_judged: IsJudged
) -> Iterator[tuple[bytes, StoredRecord]]:
    """The records behind a position, with the rests of their keys in the time index."""
    start, end = keys.RECORD_BY_TIME, keys.prefix_end(keys.RECORD_BY_TIME)
    if position is not None and order == "created_asc":
        start = keys.RECORD_BY_TIME + position + b"\x00"
    elif position is not None:
        end = keys.RECORD_BY_TIME + position
    places = places_by_time(partition, start, end, descending=order == "created_desc")
    while chunk := list(islice(places, RECORDS_IN_ONE_READ)):
        load_placed(partition, [place.record_id for place in chunk], is_judged)
        for place in chunk:
            yield place.rest, placed_record(partition, place.record_id)

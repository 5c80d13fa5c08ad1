"""Walk records by the time of their creation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from services.domain import keys, limits
from services.domain.eligibility import DependencyWork, is_eligible
from services.domain.errors import StorageInconsistency
from services.memory.cursor import CursorSeal
from services.memory.record_filter import RecordFilter
from services.workspace.partition import RECORDS_IN_ONE_READ, MemoryPartition, StoredRecord

Order = Literal["created_desc", "created_asc"]
StopReason = Literal["exhausted", "record_limit", "scan_limit", "byte_limit"]

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
    records: list[StoredRecord] = []
    scanned = record_bytes = 0

    def page(stop_reason: StopReason) -> OrderedPage:
        next_cursor = None if stop_reason == "exhausted" or position is None else seal.encode(position)
        now_ms = partition.now_ms
        return OrderedPage(stop_reason, now_ms, scanned, record_bytes, cache.work, next_cursor, tuple(records))

    while True:
        chunk = _next_chunk(partition, query, position)
        for key_rest, stored in chunk:
            if len(records) == query.limit:
                return page("record_limit")
            if scanned == query.scan_limit:
                return page("scan_limit")
            if record_bytes + stored.size_bytes > limits.RECORD_BYTES_MAX:
                return page("byte_limit")
            scanned += 1
            record_bytes += stored.size_bytes
            position = key_rest
            if query.narrowing.matches(stored.json["payload"]) and is_eligible(stored.state, cache, partition.now_ms):
                records.append(stored)
        if len(chunk) < RECORDS_IN_ONE_READ:
            return page("exhausted")


def _next_chunk(
    partition: MemoryPartition, query: OrderedQuery, position: bytes | None
) -> list[tuple[bytes, StoredRecord]]:
    """The next positions of the time index, as the rests of their keys, with the records that they name."""
    start, end = keys.RECORD_BY_TIME, keys.prefix_end(keys.RECORD_BY_TIME)
    if position is not None and query.order == "created_asc":
        start = keys.RECORD_BY_TIME + position + b"\x00"
    elif position is not None:
        end = keys.RECORD_BY_TIME + position
    rows = partition.transaction.scan(
        partition.id, start, end, limit=RECORDS_IN_ONE_READ, reverse=query.order == "created_desc"
    )
    rests = [key[len(keys.RECORD_BY_TIME) :] for key, _ in rows]
    record_ids = [keys.id_text(rest[8:]) for rest in rests]
    partition.load_records(record_ids)
    chunk: list[tuple[bytes, StoredRecord]] = []
    for rest, record_id in zip(rests, record_ids, strict=True):
        stored = partition.stored_record(record_id)
        if stored is None:
            raise StorageInconsistency("the time index names a record that is not there")
        chunk.append((rest, stored))
    partition.load_ancestry(
        stored.state.record_id
        for _, stored in chunk
        if stored.state.sources and query.narrowing.matches(stored.json["payload"])
    )
    return chunk

"""Walk what all selected workspaces of a company retain, by the time of creation."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from services.domain import keys
from services.domain.eligibility import DependencyWork
from services.domain.scope import Workspace
from services.memory.cursor import COMPANY_POSITION_BYTES, CursorSeal
from services.memory.page_scan import StopReason, scan_page
from services.memory.query_records_ordered import Order, OrderedQuery
from services.memory.record_scan import IsJudged, load_placed, placed_record, places_by_time
from services.memory.retained_record import Inventory, RecordView, RetainedRecord
from services.storage.contract import KeyRange
from services.storage.transaction import Transaction
from services.workspace.company_directory import WorkspaceSelection, select_workspaces
from services.workspace.partition import RECORDS_IN_ONE_READ, MemoryPartition, StoredRecord

_TIME_BYTES = 8
_FIRST_PLACES_MIN = 2


@dataclass(frozen=True, slots=True)
class PlacedRecord:
    """A retained record and where it lies."""

    retained: RetainedRecord
    workspace: Workspace


@dataclass(frozen=True, slots=True)
class CompanyOrderedPage:
    """One page. `next_cursor` is None exactly when `stop_reason` is "exhausted"."""

    stop_reason: StopReason
    evaluated_at_millis: int
    scanned_records: int
    record_bytes: int
    dependency_work: DependencyWork
    next_cursor: str | None
    entries: tuple[PlacedRecord, ...]


class _Room(NamedTuple):
    workspace: Workspace
    partition: MemoryPartition


class _Position(NamedTuple):
    """A place in the order of the company. `key` is time, workspace id and record id: 56 bytes that sort so."""

    key: bytes
    record_id: str
    room: _Room


def query_company_records_ordered(
    transaction: Transaction,
    company_id: str,
    query: OrderedQuery,
    *,
    selection: WorkspaceSelection,
    view: RecordView,
    cursor_key: bytes,
) -> CompanyOrderedPage:
    """Return the next retained records, by creation time, workspace id and record id, ascending or descending.

    Args:
        transaction: Over a pinned snapshot.
        company_id: The company.
        query: How to walk.
        selection: Which workspaces.
        view: Which records.
        cursor_key: Key that cursors are sealed with, 32 bytes.

    Raises:
        InvalidRequest: The cursor does not belong to this walk, or judging the records needs too much work.
        RecordNotFound: The selection names a workspace that the company does not have.
        StorageInconsistency: The time index names a record that is not there.
    """
    walk = {
        "company_id": company_id,
        "selection": selection.as_json(),
        "view": view,
        "order": query.order,
        "filter": query.narrowing.as_json(),
    }
    seal = CursorSeal(cursor_key, walk, "company_records_ordered", COMPANY_POSITION_BYTES)
    after = None if query.cursor is None else seal.decode(query.cursor)
    rooms = [
        _Room(workspace, MemoryPartition(transaction, workspace.partition))
        for workspace in select_workspaces(transaction, company_id, selection)
    ]
    inventory = Inventory(query.narrowing, view)

    def accept(position: _Position, stored: StoredRecord) -> PlacedRecord | None:
        retained = inventory.select(position.room.partition, stored)
        return None if retained is None else PlacedRecord(retained, position.room.workspace)

    positions = _positions(transaction, rooms, query.order, after)
    page = scan_page(
        _records(transaction, positions, inventory.is_judged), accept, limit=query.limit, scan_limit=query.scan_limit
    )
    return CompanyOrderedPage(
        page.stop_reason,
        transaction.clock_ms,
        page.scanned_records,
        page.record_bytes,
        inventory.work,
        None if page.next_position is None else seal.encode(page.next_position.key),
        page.found,
    )


def _positions(
    transaction: Transaction, rooms: Sequence[_Room], order: Order, after: bytes | None
) -> Iterator[_Position]:
    """The time indexes of all workspaces, merged, behind a key."""
    descending = order == "created_desc"
    # Every workspace must be asked for its first places, most of which a page of many workspaces does not reach.
    first_count = max(_FIRST_PLACES_MIN, RECORDS_IN_ONE_READ // max(1, len(rooms)))
    bounds = [_range(room.partition.id, order, after) for room in rooms]
    transaction.load_ranges(
        {
            room.partition.id: KeyRange(start, end, row_limit=first_count, reverse=descending)
            for room, (start, end) in zip(rooms, bounds, strict=True)
        }
    )

    def walk(room: _Room, start: bytes, end: bytes) -> Iterator[_Position]:
        places = places_by_time(room.partition, start, end, descending=descending, first_count=first_count)
        for rest, record_id in places:
            yield _Position(rest[:_TIME_BYTES] + room.partition.id + rest[_TIME_BYTES:], record_id, room)

    walks = [walk(room, start, end) for room, (start, end) in zip(rooms, bounds, strict=True)]
    return heapq.merge(*walks, key=lambda position: position.key, reverse=descending)


def _range(partition_id: bytes, order: Order, after: bytes | None) -> tuple[bytes, bytes]:
    """The part of a workspace's time index that lies behind a key of the company's order, as start and end."""
    start, end = keys.RECORD_BY_TIME, keys.prefix_end(keys.RECORD_BY_TIME)
    if after is None:
        return start, end
    time = keys.RECORD_BY_TIME + after[:_TIME_BYTES]
    after_partition, after_id = after[_TIME_BYTES:-16], after[-16:]
    # Records of the very same time lie behind the key or not with their whole workspace, but for its own.
    if partition_id == after_partition:
        return (time + after_id + b"\x00", end) if order == "created_asc" else (start, time + after_id)
    if order == "created_asc":
        return (time if partition_id > after_partition else keys.prefix_end(time)), end
    return start, (keys.prefix_end(time) if partition_id < after_partition else time)


def _records(
    transaction: Transaction, positions: Iterator[_Position], is_judged: IsJudged
) -> Iterator[tuple[_Position, StoredRecord]]:
    while chunk := list(islice(positions, RECORDS_IN_ONE_READ)):
        ids_by_room: dict[_Room, list[str]] = {}
        for position in chunk:
            ids_by_room.setdefault(position.room, []).append(position.record_id)
        transaction.load({room.partition.id: list(map(keys.record_key, ids)) for room, ids in ids_by_room.items()})
        for room, ids in ids_by_room.items():
            load_placed(room.partition, ids, is_judged)
        for position in chunk:
            yield position, placed_record(position.room.partition, position.record_id)

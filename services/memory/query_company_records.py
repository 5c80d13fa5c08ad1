"""Walk what a workspace retains in ascending order of record ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from services.domain.eligibility import DependencyWork
from services.memory.page_scan import StopReason, scan_page
from services.memory.record_filter import RecordFilter
from services.memory.record_scan import records_by_id
from services.memory.retained_record import VIEW_DEFAULT, Inventory, RecordView, RetainedRecord
from services.workspace.partition import MemoryPartition

LIMIT_DEFAULT: Final = 25
SCAN_LIMIT_DEFAULT: Final = 500


@dataclass(frozen=True, slots=True)
class InventoryQuery:
    """What to walk.

    Attributes:
        limit: Greatest number of records, 1 to 100.
        scan_limit: Greatest number of records to examine, 1 to 10,000.
        after: Only greater ids; any id will do, whether it exists or not.
    """

    narrowing: RecordFilter
    view: RecordView = VIEW_DEFAULT
    limit: int = LIMIT_DEFAULT
    scan_limit: int = SCAN_LIMIT_DEFAULT
    after: str | None = None


@dataclass(frozen=True, slots=True)
class InventoryPage:
    """One page. `next_after`, the last examined id, is None exactly when `stop_reason` is "exhausted"."""

    entries: tuple[RetainedRecord, ...]
    next_after: str | None
    stop_reason: StopReason
    evaluated_at_millis: int
    scanned_records: int
    record_bytes: int
    dependency_work: DependencyWork


def query_company_records(partition: MemoryPartition, query: InventoryQuery) -> InventoryPage:
    """Return the next retained records that pass the filter, each with its verdict.

    Raises:
        InvalidRequest: Judging the records needs too much dependency work.
    """
    inventory = Inventory(query.narrowing, query.view)
    # One more than may be examined tells whether anything is left.
    stored_records = records_by_id(
        partition, query.after, count_max=query.scan_limit + 1, is_judged=inventory.is_judged
    )
    page = scan_page(
        ((stored.state.record_id, stored) for stored in stored_records),
        lambda _record_id, stored: inventory.select(partition, stored),
        limit=query.limit,
        scan_limit=query.scan_limit,
    )
    return InventoryPage(
        page.found,
        page.next_position,
        page.stop_reason,
        partition.now_ms,
        page.scanned_records,
        page.record_bytes,
        inventory.work,
    )

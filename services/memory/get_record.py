"""Read one eligible record."""

from __future__ import annotations

from services.domain.eligibility import is_eligible
from services.domain.errors import RecordNotFound
from services.workspace.partition import MemoryPartition, StoredRecord


def get_record(partition: MemoryPartition, record_id: str) -> StoredRecord:
    """Return the record.

    Raises:
        RecordNotFound: Absent, deleted, expired, rejected or without valid sources; which one is not told.
        InvalidRequest: Judging it needs too much dependency work.
    """
    partition.load_ancestry([record_id])
    stored = partition.stored_record(record_id)
    if stored is None or not is_eligible(stored.state, partition.dependency_cache(), partition.now_ms):
        raise RecordNotFound("no such record", member="record_id")
    return stored

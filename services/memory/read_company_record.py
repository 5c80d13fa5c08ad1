"""Read one retained record with whether it is served."""

from __future__ import annotations

from services.domain.errors import RecordNotFound
from services.memory.diagnose_eligibility import diagnose_state
from services.memory.retained_record import RetainedRecord
from services.workspace.partition import MemoryPartition


def read_company_record(partition: MemoryPartition, record_id: str) -> RetainedRecord:
    """Return a record, tombstones included.

    Raises:
        RecordNotFound: No such record ever was.
        InvalidRequest: Judging it needs too much dependency work.
    """
    partition.load_ancestry([record_id])
    stored = partition.stored_record(record_id)
    if stored is None:
        raise RecordNotFound("no such record", member="record_id")
    return RetainedRecord(stored, diagnose_state(stored.state, partition.dependency_cache(), partition.now_ms))

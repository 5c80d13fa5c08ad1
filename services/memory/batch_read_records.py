"""Read many records at one clock and in one snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from services.domain import limits
from services.domain.eligibility import DependencyWork, is_eligible
from services.domain.errors import InvalidRequest
from services.workspace.partition import RECORDS_IN_ONE_READ, MemoryPartition, StoredRecord


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Entries in request order; None for a record that is unavailable for any reason.

    Attributes:
        record_bytes: Stored bytes of the requested records, unavailable ones included.
    """

    evaluated_at_millis: int
    entries: tuple[tuple[str, StoredRecord | None], ...]
    record_bytes: int
    dependency_work: DependencyWork


def batch_read_records(partition: MemoryPartition, record_ids: Sequence[str]) -> RecordBatch:
    """Return what is available of the records.

    Args:
        record_ids: 1 to 100 distinct ids.

    Raises:
        InvalidRequest: The records have more than 8 MiB, or judging them needs too much dependency work.
    """
    record_bytes = 0
    for first in range(0, len(record_ids), RECORDS_IN_ONE_READ):
        chunk = record_ids[first : first + RECORDS_IN_ONE_READ]
        partition.load_records(chunk)
        found = map(partition.stored_record, chunk)
        record_bytes += sum(stored.size_bytes for stored in found if stored is not None)
        if record_bytes > limits.RECORD_BYTES_MAX:
            raise InvalidRequest(f"the records have more than {limits.RECORD_BYTES_MAX} bytes", member="record_ids")
    partition.load_ancestry(record_ids)
    cache = partition.dependency_cache()
    entries: list[tuple[str, StoredRecord | None]] = []
    for record_id in record_ids:
        stored = partition.stored_record(record_id)
        is_available = stored is not None and is_eligible(stored.state, cache, partition.now_ms)
        entries.append((record_id, stored if is_available else None))
    return RecordBatch(partition.now_ms, tuple(entries), record_bytes, cache.work)

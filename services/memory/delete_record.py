"""Delete a record."""

from __future__ import annotations

from services.domain.receipts import Receipt, record_receipt
from services.domain.records import Author
from services.memory.commands import DeleteRecord
from services.memory.current_record import current_record
from services.workspace.partition import MemoryPartition


def delete_record(
    partition: MemoryPartition, author: Author, command: DeleteRecord, *, idempotency_key: str
) -> Receipt:
    """Leave a tombstone at the next revision. Derived records may be deleted.

    Raises:
        RecordNotFound: No such record, or already a tombstone.
        RevisionConflict: Another revision than expected.
    """
    record = current_record(partition, command.record_id, command.expected_revision)
    tombstone = record.deleted(author=author, now_ms=partition.now_ms)
    partition.put_record(tombstone)
    return record_receipt(
        idempotency_key=idempotency_key,
        record_id=tombstone.record_id,
        revision=tombstone.revision,
        action="deleted",
        author=author,
        now_ms=partition.now_ms,
    )

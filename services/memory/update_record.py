"""Update a record."""

from __future__ import annotations

from services.domain.errors import RevisionConflict
from services.domain.receipts import Receipt, record_receipt
from services.domain.records import Author
from services.memory.commands import UpdateRecord
from services.memory.current_record import current_record
from services.workspace.partition import MemoryPartition


def update_record(
    partition: MemoryPartition, author: Author, command: UpdateRecord, *, idempotency_key: str
) -> Receipt:
    """Replace the payload, clear the review and become the author. Expired and rejected records may be updated.

    Raises:
        RecordNotFound: No such record, or a tombstone.
        RevisionConflict: Another revision than expected, or a derived record, which never changes.
        InvalidRequest: The record would be larger than 1 MiB.
    """
    record = current_record(partition, command.record_id, command.expected_revision)
    if record.derivation is not None:
        raise RevisionConflict("a derived record cannot be updated", member="record_id")
    updated = record.updated(command.record, author=author, now_ms=partition.now_ms)
    partition.put_record(updated)
    return record_receipt(
        idempotency_key=idempotency_key,
        record_id=updated.record_id,
        revision=updated.revision,
        action="updated",
        author=author,
        now_ms=partition.now_ms,
    )

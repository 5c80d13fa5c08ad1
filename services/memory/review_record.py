"""Review a record."""

from __future__ import annotations

from services.domain.receipts import Receipt, review_receipt
from services.domain.records import Author, Review
from services.memory.commands import ReviewRecord
from services.memory.current_record import current_record
from services.workspace.partition import MemoryPartition


def review_record(
    partition: MemoryPartition, author: Author, command: ReviewRecord, *, idempotency_key: str
) -> Receipt:
    """Put a decision on a record: one more revision, whatever the decision; content and author stay.

    Expired and derived records may be reviewed.

    Raises:
        RecordNotFound: No such record, or a tombstone.
        RevisionConflict: Another revision than expected.
        InvalidRequest: The record would be larger than 1 MiB.
    """
    record = current_record(partition, command.record_id, command.expected_revision)
    review = Review(command.disposition, command.evidence_ref, author, partition.now_ms)
    reviewed = record.reviewed(review)
    partition.put_record(reviewed)
    receipt = review_receipt(
        partition=partition.id,
        idempotency_key=idempotency_key,
        record_id=reviewed.record_id,
        revision=reviewed.revision,
        review=review,
    )
    partition.put_review_receipt(receipt)
    return receipt

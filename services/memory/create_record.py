"""Create a record."""

from __future__ import annotations

from services.domain.receipts import Receipt, record_receipt
from services.domain.records import Author, Record
from services.memory.commands import CreateRecord
from services.workspace.partition import MemoryPartition


def create_record(
    partition: MemoryPartition, author: Author, command: CreateRecord, *, idempotency_key: str, record_id: str
) -> Receipt:
    """Write a new record at revision 1.

    Args:
        record_id: A new id.

    Raises:
        InvalidRequest: The record would be larger than 1 MiB.
    """
    now_ms = partition.now_ms
    partition.put_new_record(Record(record_id, 1, now_ms, now_ms, author, command.record))
    return record_receipt(
        idempotency_key=idempotency_key,
        record_id=record_id,
        revision=1,
        action="created",
        author=author,
        now_ms=now_ms,
    )

"""Create a record."""

from __future__ import annotations

from services.domain import limits
from services.domain.errors import InvalidRequest
from services.domain.receipts import Receipt, record_receipt
from services.domain.records import Author, Derivation, Record, RecordInput
from services.memory.commands import CreateRecord
from services.memory.partition import MemoryPartition


def create_record(
    partition: MemoryPartition, author: Author, command: CreateRecord, *, idempotency_key: str, record_id: str
) -> Receipt:
    """Write a new record at revision 1.

    Args:
        record_id: A new id.

    Raises:
        InvalidRequest: The record would be larger than 1 MiB.
    """
    write_new_record(partition, author, command.record, None, record_id=record_id)
    return record_receipt(
        idempotency_key=idempotency_key,
        record_id=record_id,
        revision=1,
        action="created",
        author=author,
        now_ms=partition.now_ms,
    )


def write_new_record(
    partition: MemoryPartition,
    author: Author,
    payload: RecordInput,
    derivation: Derivation | None,
    *,
    record_id: str,
) -> None:
    """Buffer the writes of a record at revision 1.

    Raises:
        InvalidRequest: The record would be larger than 1 MiB.
    """
    now_ms = partition.now_ms
    record = Record(record_id, 1, now_ms, now_ms, author, payload, None, derivation)
    partition.put_new_record(record, encode_bounded(record))


def encode_bounded(record: Record) -> bytes:
    """Stored form of a record, within the bound that keeps reads of many records within theirs.

    Raises:
        InvalidRequest: The record is larger than 1 MiB.
    """
    encoded = record.encode()
    if len(encoded) > limits.RECORD_VALUE_BYTES_MAX:
        raise InvalidRequest(f"the record would have more than {limits.RECORD_VALUE_BYTES_MAX} bytes")
    return encoded

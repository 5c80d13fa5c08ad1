"""Derive a record from others."""

from __future__ import annotations

from services.domain.eligibility import BOUND_REASONS, Failure, judge_record
from services.domain.errors import InvalidRequest, RecordNotFound, RevisionConflict, WaggleError
from services.domain.receipts import Receipt, record_receipt
from services.domain.records import Author, Derivation, Record, RecordState
from services.memory.commands import DeriveRecord
from services.workspace.partition import MemoryPartition


def derive_record(
    partition: MemoryPartition, author: Author, command: DeriveRecord, *, idempotency_key: str, record_id: str
) -> Receipt:
    """Write a new record that is eligible only while all its sources are, at the revisions that it names.

    Args:
        record_id: A new id.

    Raises:
        RecordNotFound: A source never was, or is a tombstone at the revision named.
        RevisionConflict: A source has another revision, is expired or rejected, or stands on something ineligible.
        InvalidRequest: The ancestry passes depth 8 or 64 distinct sources, or too much work; the record is too large.
    """
    derivation = command.derivation
    now_ms = partition.now_ms
    # Only the sources are judged: a record that is expired from the start may be written, as with create.
    partition.load_ancestry(source.record_id for source in derivation.sources)
    root = RecordState(
        record_id, 1, deleted=False, valid_until_millis=None, rejected=False, sources=derivation.sources, size_bytes=0
    )
    failure = judge_record(root, partition.dependency_cache(), now_ms).failure
    if failure is not None:
        raise _refusal(failure, derivation)
    partition.put_new_record(Record(record_id, 1, now_ms, now_ms, author, command.record, None, derivation))
    return record_receipt(
        idempotency_key=idempotency_key,
        record_id=record_id,
        revision=1,
        action="derived",
        author=author,
        now_ms=now_ms,
    )


def _refusal(failure: Failure, derivation: Derivation) -> WaggleError:
    if failure.reason in BOUND_REASONS:
        return InvalidRequest(f"the ancestry breaks a bound: {failure.reason}", member="derivation.sources")
    direct = [source.record_id for source in derivation.sources]
    if failure.reason in ("source_missing", "deleted") and failure.record_id in direct:
        index = direct.index(failure.record_id)
        return RecordNotFound("no such record", member=f"derivation.sources[{index}].record_id")
    return RevisionConflict("a source is not current and eligible", member="derivation.sources")

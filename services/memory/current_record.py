"""The record that a command wants to change, at the revision that it expects."""

from __future__ import annotations

from services.domain.errors import RecordNotFound, RevisionConflict
from services.domain.records import Record
from services.workspace.partition import MemoryPartition


def current_record(partition: MemoryPartition, record_id: str, expected_revision: int) -> Record:
    """Return a living record. Expired, rejected and source-invalid ones count as living.

    Raises:
        RecordNotFound: No such record, or a tombstone.
        RevisionConflict: It has another revision than expected.
    """
    stored = partition.stored_record(record_id)
    if stored is None or stored.state.deleted:
        raise RecordNotFound("no such record")
    if stored.state.revision != expected_revision:
        raise RevisionConflict("the record has another revision", member="expected_revision")
    return stored.record

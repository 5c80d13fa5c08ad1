"""Say how a record stands with its reviewers."""

from __future__ import annotations

from dataclasses import dataclass

from services.domain.errors import ReviewNotFound
from services.domain.records import Review
from services.workspace.partition import MemoryPartition


@dataclass(frozen=True, slots=True)
class ReviewState:
    """The current review of a record. A tombstone is never reported as expired."""

    record_id: str
    revision: int
    review: Review | None
    deleted: bool
    expired: bool


def review_state(partition: MemoryPartition, record_id: str) -> ReviewState:
    """Return the state, tombstones included.

    Raises:
        ReviewNotFound: No such record.
    """
    stored = partition.stored_record(record_id)
    if stored is None:
        raise ReviewNotFound("no such record", member="record_id")
    state = stored.state
    has_passed = state.valid_until_millis is not None and partition.now_ms >= state.valid_until_millis
    return ReviewState(record_id, state.revision, stored.record.review, state.deleted, has_passed)

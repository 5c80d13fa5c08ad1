"""Read a past review decision."""

from __future__ import annotations

from services.domain.errors import ReviewNotFound
from services.domain.receipts import Receipt
from services.workspace.partition import MemoryPartition


def read_review(partition: MemoryPartition, record_id: str, revision: int) -> Receipt:
    """Return the original receipt of the decision that made a revision.

    Raises:
        ReviewNotFound: No such record, or no decision made that revision.
    """
    receipt = partition.review_receipt(record_id, revision)
    if receipt is None:
        raise ReviewNotFound("no review decision made this revision", member="revision")
    return receipt

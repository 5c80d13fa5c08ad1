"""Review a relation."""

from __future__ import annotations

from services.domain.receipts import Receipt
from services.domain.records import Author, Review
from services.memory.commands import ReviewRelation
from services.memory.current_relation import current_relation
from services.workspace.partition import MemoryPartition
from services.workspace.relation_writes import write_relation


def review_relation(
    partition: MemoryPartition, author: Author, command: ReviewRelation, *, idempotency_key: str, digest: str
) -> Receipt:
    """Put a decision on a relation, active or retired; its state stays.

    A rejection takes it out of both adjacency lists; any other decision puts an active one back. Endpoints are not
    asked: whether they hold is judged whenever the relation is served.

    Raises:
        RecordNotFound: No such relation.
        RevisionConflict: Another revision than expected.
        InvalidRequest: It would pass its bound of 16 KiB.
    """
    relation = current_relation(partition, command.relation_id, command.expected_revision)
    review = Review(command.disposition, command.evidence_ref, author, partition.now_ms)
    return write_relation(
        partition,
        author,
        relation,
        relation.reviewed(review),
        action="reviewed",
        idempotency_key=idempotency_key,
        evidence_ref=command.evidence_ref,
        digest=digest,
    )

"""Retire a relation."""

from __future__ import annotations

from services.domain.errors import InvalidRequest
from services.domain.receipts import Receipt
from services.domain.records import Author
from services.memory.commands import RetireRelation
from services.memory.current_relation import current_relation
from services.workspace.partition import MemoryPartition
from services.workspace.relation_writes import write_relation


def retire_relation(
    partition: MemoryPartition, author: Author, command: RetireRelation, *, idempotency_key: str, digest: str
) -> Receipt:
    """Take an active relation out of service and out of both adjacency lists.

    Its endpoints are not asked: retiring is how a relation with stale endpoints is corrected.

    Raises:
        RecordNotFound: No such relation.
        RevisionConflict: Another revision than expected.
        InvalidRequest: It is retired already, or would pass its bound of 16 KiB.
    """
    relation = current_relation(partition, command.relation_id, command.expected_revision)
    if relation.state == "retired":
        raise InvalidRequest("the relation is retired already", member="relation_id")
    return write_relation(
        partition,
        author,
        relation,
        relation.moved("retired", now_ms=partition.now_ms),
        action="retired",
        idempotency_key=idempotency_key,
        evidence_ref=command.evidence_ref,
        digest=digest,
    )

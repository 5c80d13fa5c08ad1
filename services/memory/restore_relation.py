"""Restore a relation."""

from __future__ import annotations

from services.domain.errors import InvalidRequest
from services.domain.receipts import Receipt
from services.domain.records import Author
from services.memory.commands import RestoreRelation
from services.memory.current_relation import current_relation
from services.memory.relation_endpoints import check_endpoints
from services.workspace.partition import MemoryPartition
from services.workspace.relation_writes import write_relation


def restore_relation(
    partition: MemoryPartition, author: Author, command: RestoreRelation, *, idempotency_key: str, digest: str
) -> Receipt:
    """Make a retired relation active again, if its endpoints and evidence still hold exactly as asserted.

    A rejection stays: then the relation is active but has no adjacency. The validity interval need not hold now.

    Raises:
        RecordNotFound: No such relation.
        RevisionConflict: Another revision than expected, or an endpoint or evidence source no longer holds.
        InvalidRequest: It is active already, passes a bound on bytes, or the dependency work is spent.
    """
    relation = current_relation(partition, command.relation_id, command.expected_revision)
    if relation.state == "active":
        raise InvalidRequest("the relation is active already", member="relation_id")
    check_endpoints(partition, relation.input)
    return write_relation(
        partition,
        author,
        relation,
        relation.moved("active", now_ms=partition.now_ms),
        action="restored",
        idempotency_key=idempotency_key,
        evidence_ref=command.evidence_ref,
        digest=digest,
    )

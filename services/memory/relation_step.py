"""One step in a relation's life: from one revision to the next, with history, adjacency and receipt."""

from __future__ import annotations

from services.domain.errors import RecordNotFound, RevisionConflict
from services.domain.receipts import Receipt, RelationAction, relation_receipt
from services.domain.records import Author
from services.domain.relations import Relation, check_relation_bytes, encode_history, relation_digest
from services.memory.partition import MemoryPartition


def current_relation(partition: MemoryPartition, relation_id: str, expected_revision: int) -> Relation:
    """Return a relation at the revision that a command expects.

    Raises:
        RecordNotFound: No such relation.
        RevisionConflict: It has another revision.
    """
    relation = partition.relation(relation_id)
    if relation is None:
        raise RecordNotFound("no such relation", member="relation_id")
    if relation.revision != expected_revision:
        raise RevisionConflict("the relation has another revision", member="expected_revision")
    return relation


def write_relation(
    partition: MemoryPartition,
    author: Author,
    previous: Relation | None,
    relation: Relation,
    *,
    action: RelationAction,
    idempotency_key: str,
    evidence_ref: str,
    digest: str,
) -> Receipt:
    """Buffer a relation's new revision, its history and adjacency, and return the receipt of the step.

    Args:
        author: Author of this command.
        previous: The revision before; None for a new relation.
        evidence_ref: The command's own reference.
        digest: Digest of the command.

    Raises:
        InvalidRequest: The relation or its history value is larger than 16 KiB.
    """
    encoded = relation.encode()
    receipt = relation_receipt(
        partition=partition.id,
        idempotency_key=idempotency_key,
        relation_id=relation.relation_id,
        revision=relation.revision,
        action=action,
        author=author,
        now_ms=partition.now_ms,
        evidence_ref=evidence_ref,
        relation_digest=relation_digest(encoded),
        command_digest=digest,
    )
    history = encode_history(relation, receipt)
    check_relation_bytes(encoded, history)
    partition.put_relation(previous, relation, encoded, history)
    return receipt

"""What one step in a relation's life writes: the new revision, its history, adjacency and receipt."""

from __future__ import annotations

from services.domain.receipts import Receipt, RelationAction, relation_receipt
from services.domain.records import Author
from services.domain.relations import Relation, check_relation_bytes, encode_history, relation_digest
from services.workspace.partition import MemoryPartition


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

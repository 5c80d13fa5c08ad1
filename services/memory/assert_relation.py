"""Assert a relation."""

from __future__ import annotations

from services.domain.receipts import Receipt
from services.domain.records import Author
from services.domain.relations import Relation, check_temporal_order
from services.memory.commands import AssertRelation
from services.memory.relation_endpoints import check_endpoints
from services.workspace.partition import MemoryPartition
from services.workspace.relation_writes import write_relation


def assert_relation(
    partition: MemoryPartition,
    author: Author,
    command: AssertRelation,
    *,
    idempotency_key: str,
    digest: str,
    relation_id: str,
) -> Receipt:
    """Write a new active relation at revision 1 with its adjacency in both directions.

    Equal assertions under different keys make different relations. The validity interval need not hold now.

    Args:
        digest: Digest of the command.
        relation_id: A new id.

    Raises:
        RevisionConflict: An endpoint or evidence source is missing, not eligible, or has another revision.
        InvalidRequest: The temporal order is wrong, a bound on bytes or on the evidence is passed, or the dependency
            work is spent.
    """
    value, now_ms = command.relation, partition.now_ms
    source, target = check_endpoints(partition, value)
    check_temporal_order(
        value.kind,
        source.json["payload"]["event_time_millis"],
        target.json["payload"]["event_time_millis"],
        member="relation.kind",
    )
    relation = Relation(relation_id, 1, value, author, now_ms, now_ms, "active")
    return write_relation(
        partition,
        author,
        None,
        relation,
        action="asserted",
        idempotency_key=idempotency_key,
        evidence_ref=value.provenance.evidence_ref,
        digest=digest,
    )

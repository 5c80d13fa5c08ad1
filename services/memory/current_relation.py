"""The relation that a command wants to change, at the revision that it expects."""

from __future__ import annotations

from services.domain.errors import RecordNotFound, RevisionConflict
from services.domain.relations import Relation
from services.workspace.partition import MemoryPartition


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

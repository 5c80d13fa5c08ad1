"""Read one eligible relation."""

from __future__ import annotations

from services.domain.errors import RecordNotFound
from services.domain.relations import Relation
from services.memory.inspect_relation import inspect_relation
from services.workspace.partition import MemoryPartition


def read_relation(partition: MemoryPartition, relation_id: str) -> Relation:
    """Return the relation.

    Raises:
        RecordNotFound: Absent or not eligible; which one is not told.
        InvalidRequest: Judging it passes a bound.
    """
    inspection = inspect_relation(partition, relation_id)
    if not inspection.verdict.eligible:
        raise RecordNotFound("no such relation", member="relation_id")
    return inspection.relation

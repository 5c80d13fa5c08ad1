"""Read a relation as one command left it."""

from __future__ import annotations

from services.domain.errors import RecordNotFound
from services.domain.receipts import Receipt
from services.domain.relations import Relation
from services.workspace.partition import MemoryPartition


def read_relation_revision(partition: MemoryPartition, relation_id: str, revision: int) -> tuple[Relation, Receipt]:
    """Return the relation at a revision and the receipt of the command that made it. Present eligibility is not asked.

    Raises:
        RecordNotFound: No such relation or revision.
    """
    history = partition.relation_history(relation_id, revision)
    if history is None:
        raise RecordNotFound("no such relation revision", member="revision")
    return history

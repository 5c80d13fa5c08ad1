"""Bind a vector to a record revision."""

from __future__ import annotations

from services.domain.eligibility import is_eligible
from services.domain.embeddings import Binding, EmbeddingReceipt
from services.domain.errors import IdempotencyConflict, RecordNotFound, RevisionConflict
from services.domain.receipts import Receipt
from services.domain.records import Author
from services.memory.commands import AttachEmbedding
from services.workspace.partition import MemoryPartition


def attach_embedding(
    partition: MemoryPartition, author: Author, command: AttachEmbedding, *, idempotency_key: str
) -> Receipt:
    """Bind the vector to the record's current revision. The record's own revision stays.

    The same vector under another key gives another receipt, and the binding keeps its first one.

    Raises:
        RecordNotFound: No such record, or it is not eligible.
        RevisionConflict: The record has another revision.
        IdempotencyConflict: This revision has another vector in the space.
        InvalidRequest: Judging the record needs too much dependency work.
    """
    partition.load_ancestry([command.record_id])
    state = partition.record_state(command.record_id)
    if state is None or not is_eligible(state, partition.dependency_cache(), partition.now_ms):
        raise RecordNotFound("no such record", member="record_id")
    if state.revision != command.record_revision:
        raise RevisionConflict("the record has another revision", member="record_revision")
    receipt = EmbeddingReceipt(
        idempotency_key,
        command.record_id,
        command.record_revision,
        command.space,
        command.digest,
        author,
        partition.now_ms,
    )
    bound = partition.binding(command.record_id, command.space)
    if bound is None or bound.receipt.record_revision != command.record_revision:
        partition.put_binding(Binding(receipt, command.vector))
    elif bound.receipt.vector_digest != command.digest:
        raise IdempotencyConflict("this revision is bound to another vector in the space", member="vector")
    return receipt.as_json()

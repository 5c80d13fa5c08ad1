"""Attaching embeddings: bindings, receipts and refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from services.domain import keys
from services.domain.embeddings import decode_binding
from services.domain.errors import IdempotencyConflict, RecordNotFound, RevisionConflict
from services.domain.records import SourceRef
from services.memory.commands import CreateRecord, DeleteRecord, DeriveRecord, ReviewRecord, UpdateRecord
from tests.harness.memory_world import SPACE, START_MS, MemoryWorld, derivation, embedding, record_input


def bindings(world: MemoryWorld) -> dict[bytes, bytes]:
    return {key: value for key, value in world.rows().items() if key[:1] == keys.BINDING}


def test_receipt_and_binding(world: MemoryWorld) -> None:
    """The receipt names the digest of the float32 text; the binding keeps receipt and vector."""
    record = world.create()
    receipt = world.execute(embedding(record), "k")
    assert receipt["vector_digest"] == "81bb5e08a5d12308ad54e054f8618ce84e5422261c8f46ae2dd89c3a33acbf93"
    assert (receipt["record_revision"], receipt["committed_at_millis"]) == (1, START_MS)
    binding = decode_binding(bindings(world)[keys.binding_key(record.record_id, SPACE.tag)])
    assert binding.receipt.as_json() == receipt
    assert np.array_equal(binding.vector, np.array([1, 0, 0, 0], dtype=np.float32))


def test_attachment_does_not_advance_the_record(world: MemoryWorld) -> None:
    """The record stays at its revision, so that a second space can be bound to it too."""
    record = world.create()
    world.execute(embedding(record))
    world.execute(replace(embedding(record), space=replace(SPACE, model="other")))
    assert len(bindings(world)) == 2


def test_same_vector_under_a_new_key(world: MemoryWorld) -> None:
    """A new receipt, while the binding keeps its original one."""
    record = world.create()
    first = world.execute(embedding(record), "k-1")
    before = bindings(world)
    world.clock.ms += 1
    second = world.execute(embedding(record), "k-2")
    assert (second["idempotency_key"], second["committed_at_millis"]) == ("k-2", START_MS + 1)
    assert first["vector_digest"] == second["vector_digest"]
    assert bindings(world) == before


def test_another_vector_on_a_bound_revision_conflicts(world: MemoryWorld) -> None:
    """Bindings are immutable inside (revision, space): 409 idempotency_conflict under any key."""
    record = world.create()
    world.execute(embedding(record), "k-1")
    for key in ("k-1", "k-2"):
        with pytest.raises(IdempotencyConflict):
            world.execute(embedding(record, (0.0, 1.0, 0.0, 0.0)), key)


def test_replay_survives_update_and_deletion(world: MemoryWorld) -> None:
    """The original receipt comes back and no old binding is made again."""
    record = world.create()
    receipt = world.execute(embedding(record), "k")
    world.execute(UpdateRecord(record.record_id, 1, record_input("two")))
    world.execute(embedding(SourceRef(record.record_id, 2), (0.0, 1.0, 0.0, 0.0)))
    world.execute(DeleteRecord(record.record_id, 2))
    before = world.rows()
    assert world.execute(embedding(record), "k") == receipt
    assert world.rows() == before


def test_a_new_revision_takes_a_new_vector(world: MemoryWorld) -> None:
    """The stale binding gives way to the one of the current revision."""
    record = world.create()
    world.execute(embedding(record))
    world.execute(ReviewRecord(record.record_id, 1, "approved", "ref"))
    receipt = world.execute(embedding(SourceRef(record.record_id, 2), (0.0, 1.0, 0.0, 0.0)))
    (stored,) = bindings(world).values()
    assert decode_binding(stored).receipt.as_json() == receipt


def test_a_revision_that_is_not_current_conflicts(world: MemoryWorld) -> None:
    """409 revision_conflict for an older and for a future revision."""
    record = world.create()
    world.execute(UpdateRecord(record.record_id, 1, record_input("two")))
    for revision in (1, 3):
        with pytest.raises(RevisionConflict):
            world.execute(embedding(SourceRef(record.record_id, revision)))


def test_ineligible_records_are_not_found(world: MemoryWorld) -> None:
    """Absent, deleted, expired, rejected and source-invalid records: 404, even at their current revision."""
    deleted, rejected, source = world.create(), world.create(), world.create()
    expired = world.create(valid_until_millis=START_MS)
    derived = world.execute(DeriveRecord(record_input(), derivation(source)))["record_id"]
    world.execute(DeleteRecord(deleted.record_id, 1))
    world.execute(ReviewRecord(rejected.record_id, 1, "rejected", "ref"))
    world.execute(UpdateRecord(source.record_id, 1, record_input("two")))
    for record in (
        SourceRef("00000000-0000-4000-8000-00000000dead", 1),
        SourceRef(deleted.record_id, 2),
        SourceRef(rejected.record_id, 2),
        expired,
        SourceRef(derived, 1),
    ):
        with pytest.raises(RecordNotFound):
            world.execute(embedding(record))


def test_keys_are_independent_of_memory_commands(world: MemoryWorld) -> None:
    """The key of the create serves the embedding as well."""
    receipt = world.execute(CreateRecord(record_input()), "k")
    attached = world.execute(embedding(SourceRef(receipt["record_id"], 1)), "k")
    assert attached["record_id"] == receipt["record_id"]

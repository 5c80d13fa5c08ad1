"""A replica that follows the change log holds what one that reads everything anew holds, whatever happened between."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from services.domain import keys
from services.domain.embeddings import Binding, EmbeddingReceipt, vector_digest
from services.domain.records import Content, Derivation, Record, RecordInput, Review, SourceRef
from services.domain.relations import RELATION_KINDS, Provenance, Relation, RelationInput
from services.retrieval import partition_loading, record_columns, text_index
from services.retrieval.profiles import HYBRID_PROFILES
from services.retrieval.replica import Replica
from services.retrieval.seed import HybridSeed, LexicalSeed, Seed, SemanticSeed
from services.retrieval.view import Filter
from services.storage.contract import Add, ChangePage, Delete, PartitionRead, Put, Write
from tests.harness.partition_state import describe_partition, describe_search
from tests.harness.storage import P, Q, StoreBench, write
from tests.property.world_strategies import AUTHOR, FLAT, NOW_MS, SPACES, TYPES, record_id, relation_id, vectors
from tests.reference.loading import CanonicalEncoder

WORDS = ("alder", "birch", "cedar", "été", "oak")
TEXTS = st.lists(st.sampled_from((*WORDS, "!!!")), max_size=6).map(" ".join)
NUMBERS = st.integers(0, 7)
CHANGES = (
    *("put_record", "put_record", "delete_record", "review_record"),
    *("bind", "bind", "assert_relation", "assert_relation", "change_relation"),
)
QUERY = np.array((0.6, 0.8), np.float32)


@pytest.fixture(autouse=True, scope="module")
def _small_bounds() -> Iterator[None]:
    """Packing, dropping, sorting and batching happen within a few records instead of thousands."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_index, "_TAIL_POSTINGS_MIN", 6)
        patch.setattr(text_index, "_DEAD_DOCUMENTS_MIN", 2)
        patch.setattr(record_columns, "_SINGLE_INSERTIONS_MAX", 1)
        patch.setattr(partition_loading, "_BINDING_BATCH", 2)
        yield


class FollowingStore:
    """The part of a store that a replica reads, still the same after the store was opened again."""

    def __init__(self, bench: StoreBench) -> None:
        self.bench = bench
        self.full_reads = 0

    def changed_since(self, partition: bytes, after: int, **bounds: Any) -> Iterator[ChangePage]:
        """See `contract.Store`."""
        self.full_reads += after == 0
        return self.bench.store.changed_since(partition, after, **bounds)


class ReplicaMachine(RuleBasedStateMachine):
    """Writes as the memory service makes them, restarts and evictions, looked at now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = StoreBench("memory", Path("unused"))
        self.store = FollowingStore(self.bench)
        # So small that opening another partition evicts this one.
        self.replica = Replica(self.store, CanonicalEncoder(), memory_bytes_max=1)  # type: ignore[arg-type]
        self.records: dict[str, Record] = {}
        self.relations: dict[str, Relation] = {}

    def teardown(self) -> None:
        """Let the store go."""
        self.bench.close()

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        """Begin with some records, and one in the other partition, so that it can be loaded."""
        record = Record(record_id(0), 1, NOW_MS, NOW_MS, AUTHOR, RecordInput("Decision", Content("oak"), NOW_MS))
        write(self.bench.store, Put(keys.record_key(record.record_id), record.encode()), partition=Q)
        for number in data.draw(st.sets(NUMBERS, min_size=2, max_size=6)):
            self._put_record(number, data)

    @rule(changes=st.lists(st.tuples(st.sampled_from(CHANGES), NUMBERS), min_size=1, max_size=4), data=st.data())
    def change(self, changes: list[tuple[str, int]], data: st.DataObject) -> None:
        """Write a few times, then look."""
        for name, number in changes:
            getattr(self, f"_{name}")(number, data)
        self.look()

    @rule()
    def restart(self) -> None:
        """Open the store again: another incarnation."""
        self.bench.restart()

    @rule()
    def look_elsewhere(self) -> None:
        """Open the other partition, which evicts the one under test."""
        self._described(self.replica, Q)

    @rule()
    def look(self) -> None:
        """What the replica holds and finds now equals what a new one does."""
        fresh = Replica(self.store, CanonicalEncoder(), memory_bytes_max=1 << 40)  # type: ignore[arg-type]
        assert self._described(fresh, P) == self._described(self.replica, P)

    def _put_record(self, number: int, data: st.DataObject) -> None:
        payload = RecordInput(
            data.draw(st.sampled_from(TYPES)),
            Content(data.draw(TEXTS), None, data.draw(st.none() | TEXTS)),
            NOW_MS,
            data.draw(st.sampled_from((None, None, NOW_MS, NOW_MS + 5))),
            data.draw(st.sampled_from(((), ("red",), ("red", "blue")))),
        )
        known = self.records.get(record_id(number))
        if known is None:
            derivation = self._derivation(data.draw(st.just(set()) | st.sets(NUMBERS, max_size=2)))
            record = Record(record_id(number), 1, NOW_MS, NOW_MS, AUTHOR, payload, None, derivation)
        elif known.payload is None:
            return
        else:
            record = known.updated(payload, author=AUTHOR, now_ms=NOW_MS)
        self._commit_record(record)

    def _derivation(self, numbers: set[int]) -> Derivation | None:
        sources = [self.records[record_id(number)] for number in numbers if record_id(number) in self.records]
        if not sources:
            return None
        return Derivation(tuple(SourceRef(source.record_id, source.revision) for source in sources), "m", "1", "e")

    def _delete_record(self, number: int, _data: st.DataObject) -> None:
        known = self.records.get(record_id(number))
        if known is not None and known.payload is not None:
            self._commit_record(known.deleted(author=AUTHOR, now_ms=NOW_MS))

    def _review_record(self, number: int, data: st.DataObject) -> None:
        word: Any = data.draw(st.sampled_from(("approved", "rejected", "unreviewed")))
        known = self.records.get(record_id(number))
        if known is not None and known.payload is not None:
            self._commit_record(known.reviewed(Review(word, "why", AUTHOR, NOW_MS)))

    def _commit_record(self, record: Record) -> None:
        self.records[record.record_id] = record
        write(self.bench.store, Put(keys.record_key(record.record_id), record.encode()))

    def _bind(self, number: int, data: st.DataObject) -> None:
        space = data.draw(st.sampled_from(SPACES))
        known = self.records.get(record_id(number))
        if known is None or known.payload is None:
            return
        vector = data.draw(vectors(space))
        receipt = EmbeddingReceipt("k", known.record_id, known.revision, space, vector_digest(vector), AUTHOR, NOW_MS)
        write(self.bench.store, Put(keys.binding_key(known.record_id, space.tag), Binding(receipt, vector).encode()))

    def _assert_relation(self, number: int, data: st.DataObject) -> None:
        present = sorted(self.records)
        if len(present) < 2 or relation_id(number) in self.relations:
            return
        ends = data.draw(st.lists(st.sampled_from(present), min_size=2, max_size=2, unique=True))
        known = [self.records[end] for end in ends]
        source, target = (SourceRef(record.record_id, record.revision) for record in known)
        stated = RelationInput(
            source, target, data.draw(st.sampled_from(RELATION_KINDS)), Provenance("tool_observation", "m", "1", "e")
        )
        self._commit_relation(Relation(relation_id(number), 1, stated, AUTHOR, NOW_MS, NOW_MS, "active"))

    def _change_relation(self, number: int, data: st.DataObject) -> None:
        step = data.draw(st.sampled_from(("retire", "restore", "reject", "approve")))
        known = self.relations.get(relation_id(number))
        if known is None:
            return
        changed = replace(known, revision=known.revision + 1)
        if step in ("retire", "restore"):
            changed = replace(changed, state="retired" if step == "retire" else "active")
        else:
            word: Any = "rejected" if step == "reject" else "approved"
            changed = replace(changed, review=Review(word, "why", AUTHOR, NOW_MS))
        self._commit_relation(changed)

    def _commit_relation(self, relation: Relation) -> None:
        previous = self.relations.get(relation.relation_id)
        self.relations[relation.relation_id] = relation
        writes: list[Write] = [Put(keys.relation_key(relation.relation_id), relation.encode())]
        was_served = previous is not None and previous.is_served
        if relation.is_served != was_served:
            for kind, end in ((keys.OUTGOING, relation.input.source), (keys.INCOMING, relation.input.target)):
                entry = keys.adjacency_key(kind, end.record_id, end.revision, relation.relation_id)
                writes.append(Put(entry, b"kind") if relation.is_served else Delete(entry))
                count = keys.adjacency_count_key(kind, end.record_id, end.revision)
                writes.append(Add(count, 1 if relation.is_served else -1))
        write(self.bench.store, *writes)

    def _described(self, replica: Replica, partition_id: bytes) -> tuple[Any, ...]:
        seen = self.bench.store.read([PartitionRead(partition_id)])
        head = seen.partitions[0].head
        with replica.open(partition_id, head=head, incarnation=seen.incarnation) as partition:
            seeds: tuple[Seed, ...] = (
                LexicalSeed(WORDS),
                SemanticSeed(FLAT, QUERY, 0.0),
                HybridSeed(("birch", "alder"), FLAT, QUERY, HYBRID_PROFILES[1]),
            )
            searches = [
                describe_search(partition, seed, now_ms=NOW_MS, **bounds)
                for seed in seeds
                for bounds in ({}, {"scan_limit": 3}, {"narrowing": Filter(tag="red")}, {"scan_bytes_limit": 1500})
            ]
            return describe_partition(partition), searches


TestReplica = ReplicaMachine.TestCase
TestReplica.settings = settings(stateful_step_count=25)

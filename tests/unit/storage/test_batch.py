"""Commits that are decided in one batch see each other, and leave exactly one change log entry a key."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from services.domain.errors import InvalidRequest
from services.storage import layout
from services.storage.batch import Batch
from services.storage.contract import Add, Commit, Delete, KeyExpectation, KeyRange, PartitionCommit, Put, Write
from services.storage.engine import Engine, EngineSnapshot
from services.storage.errors import CommitConflict
from services.storage.layout import META_KEY, StoreMeta, pack_meta
from services.storage.verification import verify_snapshot
from services.storage.volume import MemoryVolume
from tests.harness.storage import P, Q


class Bench:
    """An engine to which batches are applied one after another."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.sequence = 0

    def begin(self) -> Batch:
        """A batch on what is there."""
        return Batch(self.engine.snapshot(), sequence=self.sequence, clock_ms=1000, incarnation="now")

    def end(self, batch: Batch) -> EngineSnapshot:
        """Write a batch, check the store, and return what is there."""
        self.sequence = batch.sequence
        meta = StoreMeta(bytes(16), 1, self.sequence, 0, bytes(16))
        self.engine.write([*batch.operations(), (META_KEY, pack_meta(meta))])
        snapshot = self.engine.snapshot()
        assert verify_snapshot(snapshot).problems == []
        return snapshot

    def write(self, *writes: Write) -> EngineSnapshot:
        """A batch of one commit."""
        batch = self.begin()
        batch.decide(_commit(*writes))
        return self.end(batch)


def _commit(*writes: Write, partition: bytes = P) -> Commit:
    return Commit([PartitionCommit(partition, writes=writes)])


def _expecting(version: int, *writes: Write) -> Commit:
    return Commit([PartitionCommit(P, [KeyExpectation(b"k", version)], writes=writes)])


def _log(snapshot: EngineSnapshot) -> list[tuple[int, bytes, bool]]:
    return [layout.unpack_log_entry(*row) for row in snapshot.scan(*layout.log_range(P, 0)).rows]


@pytest.fixture
def bench() -> Iterator[Bench]:
    """An empty store."""
    engine = MemoryVolume().open_engine()
    yield Bench(engine)
    engine.close()


def test_sequences_count_commits_not_batches(bench: Bench) -> None:
    """Each accepted commit of a batch has the next sequence; refused ones and empty ones take none."""
    batch = bench.begin()
    assert batch.decide(_commit(Put(b"a", b""))) == 1
    with pytest.raises(CommitConflict):
        batch.decide(_expecting(9, Put(b"b", b"")))
    assert batch.decide(_commit(Delete(b"absent"))) == 1
    assert batch.decide(_commit(Put(b"c", b""))) == 2
    assert _log(bench.end(batch)) == [(1, b"a", False), (2, b"c", False)]


def test_a_version_made_in_the_batch_can_be_expected(bench: Bench) -> None:
    """Later commits are decided against earlier ones of the same batch."""
    batch = bench.begin()
    first = batch.decide(_expecting(0, Put(b"k", b"1")))
    with pytest.raises(CommitConflict):
        batch.decide(_expecting(0, Put(b"k", b"2")))
    second = batch.decide(_expecting(first, Put(b"k", b"3")))
    batch.decide(_expecting(second, Delete(b"k")))
    assert batch.decide(_expecting(0, Put(b"k", b"4"))) == 4
    assert _log(bench.end(batch)) == [(4, b"k", False)]


def test_a_range_changed_in_the_batch_conflicts(bench: Bench) -> None:
    """What an earlier commit of the batch changed was read by nobody."""
    batch = bench.begin()
    batch.decide(_commit(Put(b"k", b"1")))
    for wanted, is_held in ((KeyRange(b"a", b"k"), True), (KeyRange(b"k", b"l"), False), (KeyRange(b""), False)):
        commit = Commit([PartitionCommit(P, (), [wanted]), PartitionCommit(Q, writes=[Put(b"x", b"")])])
        if is_held:
            batch.decide(commit)
        else:
            with pytest.raises(CommitConflict):
                batch.decide(commit)


def test_a_refused_commit_leaves_no_trace(bench: Bench) -> None:
    """A commit that fails in its last write changes nothing that later ones see."""
    batch = bench.begin()
    batch.decide(_commit(Put(b"text", b"abc")))
    with pytest.raises(InvalidRequest):
        batch.decide(_commit(Put(b"k", b"1"), Add(b"text", 1)))
    batch.decide(_expecting(0, Add(b"n", 1)))
    assert _log(bench.end(batch)) == [(1, b"text", False), (2, b"n", False)]


def test_the_worked_example_of_the_layout(bench: Bench) -> None:
    """Put, deleted and put again: one entry each time, and a deletion note only while it is deleted."""
    note = layout.deletion_key(P, b"k")
    first = bench.write(Put(b"k", b"1"))
    assert (_log(first), first.get(note)) == ([(1, b"k", False)], None)
    second = bench.write(Delete(b"k"))
    assert (_log(second), layout.unpack_deletion(note, second.get(note) or b"")) == ([(2, b"k", True)], 2)
    third = bench.write(Put(b"k", b"2"))
    assert (_log(third), third.get(note)) == ([(3, b"k", False)], None)


def test_made_and_deleted_in_one_batch_leaves_nothing(bench: Bench) -> None:
    """A key that nobody can have seen leaves neither entry nor note; one that was there before is logged as deleted."""
    bench.write(Put(b"old", b"1"))
    batch = bench.begin()
    batch.decide(_commit(Put(b"new", b"1"), Put(b"old", b"2")))
    batch.decide(_commit(Delete(b"new"), Delete(b"old")))
    snapshot = bench.end(batch)
    assert _log(snapshot) == [(3, b"old", True)]
    assert snapshot.scan(*layout.data_range(P, b"", b"")).rows == []


def test_revived_and_deleted_again_in_one_batch_keeps_one_note(bench: Bench) -> None:
    """The note moves to the last deletion."""
    bench.write(Put(b"k", b"1"))
    bench.write(Delete(b"k"))
    batch = bench.begin()
    batch.decide(_commit(Put(b"k", b"2")))
    batch.decide(_commit(Delete(b"k")))
    assert _log(bench.end(batch)) == [(4, b"k", True)]


def test_a_batch_without_changes_writes_nothing(bench: Bench) -> None:
    """Nothing accepted, nothing to write."""
    batch = bench.begin()
    batch.decide(_expecting(0))
    assert (batch.operations(), batch.sequence) == ([], 0)

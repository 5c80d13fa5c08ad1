"""The committer of an engine that fails: what it tells, and what it takes to be durable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from services.domain.errors import StorageFull
from services.storage.committer import Committer
from services.storage.contract import Commit, PartitionCommit, Put
from services.storage.engine import EngineSnapshot, EngineWriteFailed, Operation
from services.storage.errors import StorageUnavailable
from services.storage.layout import META_KEY, StoreMeta, pack_meta
from services.storage.store_clock import StoreClock
from services.storage.volume import MemoryVolume
from tests.harness.storage import START_MS, ManualClock, P

COMMIT = Commit([PartitionCommit(P, writes=[Put(b"k", b"1")])])


class FailingEngine:
    """A memory engine whose batches can be made to fail."""

    name = "failing"

    def __init__(self) -> None:
        self._engine = MemoryVolume().open_engine()
        self.is_failing = False
        self.batch_count = 0

    def snapshot(self) -> EngineSnapshot:
        """See Engine."""
        return self._engine.snapshot()

    def write(self, operations: Iterable[Operation]) -> None:
        """See Engine."""
        if self.is_failing:
            raise EngineWriteFailed("the disk is on fire")
        self.batch_count += 1
        self._engine.write(operations)

    def close(self) -> None:
        """See Engine."""
        self._engine.close()


class Bench:
    """A committer with everything around it in hand."""

    def __init__(self) -> None:
        self.engine = FailingEngine()
        self.refusal: StorageFull | None = None
        self.failure_count = 0
        meta = StoreMeta(bytes(16), 1, 0, START_MS, bytes(16))
        self.engine.write([(META_KEY, pack_meta(meta))])
        self.committer = Committer(
            self.engine,
            meta,
            StoreClock(ManualClock()),
            check_room=lambda _value_bytes: self.refusal,
            on_failure=self._count_failure,
        )

    def _count_failure(self) -> None:
        self.failure_count += 1


@pytest.fixture
def bench() -> Iterator[Bench]:
    """A committer on an engine that works so far."""
    made = Bench()
    yield made
    made.committer.close()
    made.engine.close()


def test_an_unconfirmed_batch_is_not_taken_for_durable(bench: Bench) -> None:
    """After a failed batch the newest durable sequence is still the former one, and nothing more is accepted."""
    assert bench.committer.commit(COMMIT, 1) == 1
    bench.engine.is_failing = True
    with pytest.raises(StorageUnavailable, match="unknown"):
        bench.committer.commit(COMMIT, 1)
    assert (bench.committer.sequence, bench.committer.has_failed, bench.failure_count) == (1, True, 1)
    bench.engine.is_failing = False
    with pytest.raises(StorageUnavailable, match="opened again"):
        bench.committer.commit(COMMIT, 1)
    assert bench.failure_count == 1


def test_a_refusal_for_want_of_room_is_no_failure(bench: Bench) -> None:
    """The guard's refusal is told, nothing is written, and the next commit with room is accepted."""
    bench.refusal = StorageFull("no room")
    with pytest.raises(StorageFull, match="no room"):
        bench.committer.commit(COMMIT, 1)
    bench.refusal = None
    assert (bench.committer.commit(COMMIT, 1), bench.committer.has_failed) == (1, False)


def test_another_writer_is_noticed(bench: Bench) -> None:
    """When somebody else wrote to the engine, nothing is written over it."""
    bench.committer.commit(COMMIT, 1)
    foreign = StoreMeta(bytes(16), 1, 1, START_MS, b"another opening!")
    bench.engine.write([(META_KEY, pack_meta(foreign))])
    batch_count = bench.engine.batch_count
    with pytest.raises(StorageUnavailable):
        bench.committer.commit(COMMIT, 1)
    assert (bench.engine.batch_count, bench.committer.has_failed) == (batch_count, True)


def test_a_closed_committer_refuses(bench: Bench) -> None:
    """After close nobody waits for an answer that never comes."""
    bench.committer.close()
    bench.committer.close()
    with pytest.raises(StorageUnavailable):
        bench.committer.commit(COMMIT, 1)

"""The committer of an engine that fails: what it tells, and what it takes to be durable."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from services.domain.errors import StorageFull, StorageInconsistency
from services.storage.committer import Committer
from services.storage.contract import Commit, PartitionCommit, Put
from services.storage.engine import EngineSnapshot, Operation
from services.storage.errors import StorageUnavailable
from services.storage.layout import META_KEY, StoreMeta, data_key, pack_meta
from services.storage.store_clock import StoreClock
from services.storage.volume import MemoryVolume
from tests.harness.failing_engine import FailingEngine
from tests.harness.storage import START_MS, ManualClock, P

COMMIT = Commit([PartitionCommit(P, writes=[Put(b"k", b"1")])])


class Bench:
    """A committer with everything around it in hand."""

    def __init__(self) -> None:
        self.engine = FailingEngine(MemoryVolume().open_engine())
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


@pytest.mark.parametrize("finds_damage", [False, True])
def test_the_cause_of_a_failure_is_known(bench: Bench, finds_damage: bool) -> None:
    """Damage that the engine found while it wrote is told apart from a disk that fails."""
    bench.engine.is_failing, bench.engine.finds_damage = True, finds_damage
    with pytest.raises(StorageUnavailable, match="unknown"):
        bench.committer.commit(COMMIT, 1)
    assert (bench.committer.has_failed, bench.committer.found_damage) == (True, finds_damage)


def test_a_chore_writes_without_being_a_commit(bench: Bench) -> None:
    """It sees what was committed before, is written at once, and leaves the newest sequence as it is."""
    seen: list[bool] = []

    def build(snapshot: EngineSnapshot) -> list[Operation]:
        seen.append(snapshot.get(data_key(P, b"k")) is not None)
        return [(b"chore", b"done")]

    bench.committer.commit(COMMIT, 1)
    bench.committer.run_chore(build)
    assert (seen, bench.engine.snapshot().get(b"chore"), bench.committer.sequence) == ([True], b"done", 1)
    assert bench.committer.commit(COMMIT, 1) == 2


def test_a_chore_without_anything_to_do_writes_nothing(bench: Bench) -> None:
    """No batch, no sync."""
    batch_count = bench.engine.batch_count
    bench.committer.run_chore(lambda _snapshot: [])
    assert bench.engine.batch_count == batch_count


def _chore(_snapshot: EngineSnapshot) -> list[Operation]:
    return [(b"chore", b"")]


def _inconsistent_chore(_snapshot: EngineSnapshot) -> list[Operation]:
    raise StorageInconsistency("damaged", partition=P)


def test_a_chore_that_meets_damage_or_no_room_writes_nothing(bench: Bench) -> None:
    """It is refused as a commit would be, and the committer goes on."""
    bench.refusal = StorageFull("no room")
    with pytest.raises(StorageFull):
        bench.committer.run_chore(_chore)
    bench.refusal = None
    with pytest.raises(StorageInconsistency):
        bench.committer.run_chore(_inconsistent_chore)
    assert (bench.engine.snapshot().get(b"chore"), bench.committer.has_failed) == (None, False)
    assert bench.committer.commit(COMMIT, 1) == 1


def test_a_probe_writes_without_room_and_learns_of_a_failure(bench: Bench) -> None:
    """The only write that no room stops: what failed in the background shows with the next batch."""
    bench.refusal = StorageFull("no room")
    batch_count = bench.engine.batch_count
    bench.committer.probe()
    assert (bench.engine.batch_count, bench.committer.has_failed, bench.failure_count) == (batch_count + 1, False, 0)
    bench.engine.is_failing = True
    with pytest.raises(StorageUnavailable):
        bench.committer.probe()
    assert (bench.committer.has_failed, bench.failure_count) == (True, 1)


def test_a_chore_that_fails_is_a_failed_batch(bench: Bench) -> None:
    """Nobody knows what is there: the store has to be opened again, and further chores are refused."""
    bench.engine.is_failing = True
    for expected in ("unknown", "opened again"):
        with pytest.raises(StorageUnavailable, match=expected):
            bench.committer.run_chore(_chore)
    assert (bench.committer.has_failed, bench.failure_count) == (True, 1)


def test_a_closed_committer_refuses(bench: Bench) -> None:
    """After close nobody waits for an answer that never comes."""
    bench.committer.close()
    bench.committer.close()
    with pytest.raises(StorageUnavailable):
        bench.committer.commit(COMMIT, 1)

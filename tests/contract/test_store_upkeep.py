"""What scheduled upkeep gives back, and that nobody who reads or writes is misled by it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.storage.compaction import CompactionSchedule
from services.storage.contract import Commit, KeyRange, PartitionCommit, Put
from services.storage.core import StoreOptions
from services.storage.errors import ChangesForgotten, CommitConflict
from services.storage.upkeep import UpkeepOptions
from tests.harness.storage import IMPLEMENTATIONS, P, Q, StoreBench, changes, delete, expecting, get, put, version

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@pytest.fixture(params=IMPLEMENTATIONS)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreBench]:
    """Each implementation, empty, forgetting single deletions after a day."""
    options = StoreOptions(upkeep=UpkeepOptions(change_retention_ms=DAY_MS, forget_count_min=1))
    made = StoreBench(request.param, tmp_path, options)
    yield made
    made.close()


def pass_days(bench: StoreBench, days: int = 2) -> None:
    """Let days go by, with upkeep every hour."""
    for _ in range(24 * days):
        bench.clock.ms += HOUR_MS
        bench.local.maintain()


def test_old_deletions_are_forgotten_and_a_late_reader_is_told(bench: StoreBench) -> None:
    """Who was there before the deletions hears that it is too late; who has seen them, or begins anew, is served."""
    put(bench.store, a=b"1", b=b"1", c=b"1")
    seen = delete(bench.store, b"a")
    newest = delete(bench.store, b"b")
    pass_days(bench)
    assert put(bench.store, d=b"1") == newest + 1
    for after in range(1, newest):
        with pytest.raises(ChangesForgotten):
            changes(bench.store, after)
    assert (seen, changes(bench.store, newest)) == (2, [(b"d", b"1")])
    assert changes(bench.store, 0) == [(b"c", b"1"), (b"d", b"1")]
    assert bench.local.verify().problems == []


def test_what_is_young_is_told(bench: StoreBench) -> None:
    """Within the retention nothing is forgotten, and living keys are told for ever."""
    put(bench.store, a=b"1", b=b"1")
    bench.local.maintain()
    pass_days(bench, 1)
    deleted = delete(bench.store, b"a")
    bench.clock.ms += DAY_MS - HOUR_MS
    bench.local.maintain()
    assert changes(bench.store, 1) == [(b"a", None)]
    assert (deleted, changes(bench.store, 0)) == (2, [(b"b", b"1")])


def test_forgetting_survives_a_restart_and_further_changes(bench: StoreBench) -> None:
    """The head keeps what is no longer told, and goes on counting; a key can come back."""
    put(bench.store, a=b"1", b=b"1")
    delete(bench.store, b"a")
    pass_days(bench)
    bench.restart()
    with pytest.raises(ChangesForgotten):
        changes(bench.store, 1)
    put(bench.store, a=b"2")
    deleted = delete(bench.store, b"b")
    assert changes(bench.store, 2) == [(b"a", b"2"), (b"b", None)]
    assert (deleted, version(bench.store, b"a"), bench.local.verify().problems) == (4, 3, [])
    with pytest.raises(ChangesForgotten):
        changes(bench.store, 1)


def test_expectations_from_before_are_refused_never_believed(bench: StoreBench) -> None:
    """Whoever read a range before a deletion that was forgotten must read again; keys that were read still conflict."""
    put(bench.store, a=b"1", b=b"1")
    delete(bench.store, b"a")
    pass_days(bench)
    looked_at_range = Commit([PartitionCommit(P, (), [KeyRange(b"a", b"b")], [Put(b"z", b"")])], read_sequence=1)
    with pytest.raises(CommitConflict, match="no longer tells"):
        bench.store.commit(looked_at_range)
    with pytest.raises(CommitConflict):
        bench.store.commit(expecting(b"a", 1, Put(b"z", b"")))
    assert (bench.store.commit(expecting(b"a", 0, Put(b"z", b""))), get(bench.store, b"z")) == (3, b"")


def test_partitions_are_forgotten_apart(bench: StoreBench) -> None:
    """What one partition no longer tells, another still does."""
    put(bench.store, a=b"1")
    put(bench.store, Q, a=b"1")
    delete(bench.store, b"a")
    pass_days(bench)
    put(bench.store, Q, b=b"1")
    assert changes(bench.store, 2, partition=Q) == [(b"b", b"1")]
    with pytest.raises(ChangesForgotten):
        changes(bench.store, 1)


def test_few_deletions_are_left_alone(tmp_path: Path) -> None:
    """A partition that noted less than the bound is not written for it, and goes on telling all."""
    bench = StoreBench("memory", tmp_path, StoreOptions(upkeep=UpkeepOptions(forget_count_min=2)))
    put(bench.store, a=b"1")
    delete(bench.store, b"a")
    pass_days(bench)
    assert changes(bench.store, 1) == [(b"a", None)]
    bench.close()


def test_nothing_is_forgotten_for_ever_if_so_configured(tmp_path: Path) -> None:
    """A retention of zero keeps everything."""
    options = StoreOptions(upkeep=UpkeepOptions(change_retention_ms=0, forget_count_min=1))
    bench = StoreBench("memory", tmp_path, options)
    put(bench.store, a=b"1")
    delete(bench.store, b"a")
    pass_days(bench, 400)
    assert changes(bench.store, 1) == [(b"a", None)]
    bench.close()


def _table_bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*.ldb"))


def test_compaction_gives_back_what_was_deleted(tmp_path: Path) -> None:
    """Once nobody has written for a minute, a pass drops what is gone; everything else is there."""
    schedule = CompactionSchedule(interval_ms=HOUR_MS, idle_ms=60_000)
    bench = StoreBench("leveldb", tmp_path, StoreOptions(upkeep=UpkeepOptions(compaction=schedule)))
    names = [f"k{number:03d}" for number in range(300)]
    # Noise, so that nothing can be compressed away.
    values = {name: random.Random(name).randbytes(20_000) for name in names}
    for name, value in values.items():
        put(bench.store, **{name: value})
    bench.restart()
    delete(bench.store, *(name.encode() for name in names[1:]))
    bench.restart()
    put(bench.store, last=b"1")
    before = _table_bytes(tmp_path)
    bench.clock.ms += HOUR_MS
    bench.local.maintain()
    assert _table_bytes(tmp_path) == before
    bench.clock.ms += 60_000
    for _ in range(20):
        bench.local.maintain()
    assert _table_bytes(tmp_path) < before / 4
    assert (get(bench.store, b"k000"), get(bench.store, b"k001")) == (values["k000"], None)
    assert (put(bench.store, more=b"1") > 0, bench.local.verify().problems) == (True, [])
    bench.close()

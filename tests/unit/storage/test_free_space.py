"""How much must stay free, and what is refused for want of room."""

from __future__ import annotations

import pytest

from services.domain.errors import StorageFull
from services.storage.contract import Commit, PartitionCommit, Put
from services.storage.core import LocalStore
from services.storage.engine import Engine
from services.storage.free_space import PROBE_INTERVAL_MS, FreeSpaceGuard, free_bytes_min, has_room, reserve_bytes
from services.storage.volume import DiskSpace, MemoryVolume
from tests.harness.failing_engine import FailingEngine
from tests.harness.storage import ManualClock, P, RoomyVolume, get, put, run_together

MIB = 1024 * 1024
GIB = 1024 * MIB


@pytest.mark.parametrize(
    ("total", "configured", "expected"),
    [
        (500 * GIB, None, 64 * MIB),
        (1 * GIB, None, GIB // 50),
        (100 * MIB, None, 4 * MIB),
        (10 * MIB, None, 10 * MIB // 4),
        (2 * MIB, None, MIB // 2),
        (500 * GIB, 5 * GIB, 5 * GIB),
        (500 * GIB, 0, 0),
    ],
)
def test_the_least_reserve_fits_the_volume(total: int, configured: int | None, expected: int) -> None:
    """64 MiB, or 2% of a smaller volume, with a floor that a tiny volume can bear; the operator's word rules."""
    assert free_bytes_min(total, configured) == expected


@pytest.mark.parametrize(
    ("configured", "working", "expected"),
    [(None, 0, 4 * MIB), (None, 9 * MIB, 9 * MIB), (20 * MIB, 9 * MIB, 20 * MIB), (0, 9 * MIB, 9 * MIB)],
)
def test_what_the_engine_needs_is_always_kept(configured: int | None, working: int, expected: int) -> None:
    """Nobody can configure the reserve below what flushes and merges take."""
    assert reserve_bytes(40 * MIB, configured, working) == expected


@pytest.mark.parametrize(
    ("free", "write_bytes", "expected"), [(10, 0, True), (9, 0, False), (13, 1, True), (12, 1, False)]
)
def test_a_write_is_counted_three_times(free: int, write_bytes: int, expected: bool) -> None:
    """In the log, in a table and in the merge of that table, beside the reserve."""
    assert has_room(DiskSpace(100, free), 10, write_bytes) is expected


class NeedyEngine:
    """An engine that needs so much to work, and so much to be opened again."""

    def working_bytes(self) -> int:
        """See Engine."""
        return 100 * MIB

    def recovery_bytes(self) -> int:
        """See Engine."""
        return 5 * MIB


@pytest.mark.parametrize(
    ("free", "may_write", "may_reopen"),
    [(100 * MIB, True, True), (100 * MIB - 1, False, True), (5 * MIB, False, True), (5 * MIB - 1, False, False)],
)
def test_opening_again_needs_less_than_writing(free: int, may_write: bool, may_reopen: bool) -> None:
    """What a failed merge left behind takes the room that a write would need; only opening again gives it back."""
    guard = FreeSpaceGuard(RoomyVolume(free), None)
    engine = NeedyEngine()
    assert (guard.check(engine, 0) is None, guard.may_reopen(engine)) == (may_write, may_reopen)  # type: ignore[arg-type]
    assert guard.reserve(engine) == 100 * MIB  # type: ignore[arg-type]


def test_without_a_disk_nothing_is_refused() -> None:
    """A store in memory has no reserve."""
    guard = FreeSpaceGuard(MemoryVolume(), 1 << 60)
    engine = NeedyEngine()
    assert (guard.check(engine, 1 << 60), guard.may_reopen(engine), guard.reserve(engine)) == (None, True, 0)  # type: ignore[arg-type]


def test_writes_stop_and_go_on_with_the_room() -> None:
    """A refusal says that nothing was written and when to come again; reads go on, in one incarnation throughout."""
    volume = RoomyVolume()
    with LocalStore(volume) as store:
        put(store, a=b"1")
        incarnation = store.status().incarnation
        volume.free_bytes = 0
        with pytest.raises(StorageFull, match=r"nothing was written; reads go on\. Send the same command"):
            put(store, b=b"2")
        status = store.status()
        assert (status.writable, status.disk_free_bytes, store.is_open(), store.is_writable()) == (
            False,
            0,
            True,
            False,
        )
        assert (get(store, b"a"), get(store, b"b"), status.disk_reserve_bytes) == (b"1", None, GIB // 50)
        volume.free_bytes = GIB
        put(store, b=b"2")
        assert (store.status().writable, store.status().incarnation) == (True, incarnation)


class SecretlyFailingVolume(RoomyVolume):
    """Its engine fails with the next batch once a test says so; opening it again mends that."""

    def open_engine(self) -> Engine:
        """See Volume."""
        self.engine = FailingEngine(super().open_engine())
        return self.engine


@pytest.mark.parametrize(("free_bytes", "is_reopened"), [(2 * MIB, True), (MIB - 1, False)])
def test_a_failure_in_the_background_shows_while_nothing_may_be_written(free_bytes: int, is_reopened: bool) -> None:
    """What a failed merge left takes the room that writes wait for: the store finds out and is opened again.

    On a disk without any room it waits, since the question itself would fail.
    """
    volume = SecretlyFailingVolume(free_bytes)
    clock = ManualClock()
    with LocalStore(volume, clock=clock) as store:
        incarnation = store.status().incarnation
        volume.engine.is_failing = True
        assert not store.is_writable()
        clock.ms += PROBE_INTERVAL_MS
        store.maintain()
        store.maintain()
        assert (store.status().incarnation != incarnation) is is_reopened
        volume.free_bytes = GIB
        volume.engine.is_failing = False
        assert put(store, a=b"1") == 1


def test_a_large_write_does_not_keep_small_ones_out() -> None:
    """Of writes that wait together, each is judged by itself."""
    volume = RoomyVolume(GIB // 50 + 12 * MIB)
    refused: list[int] = []

    def work(number: int) -> None:
        value = bytes(8 * MIB) if number == 0 else b"small"
        try:
            store.commit(Commit([PartitionCommit(P, writes=[Put(b"k%d" % number, value)])]))
        except StorageFull:
            refused.append(number)

    with LocalStore(volume) as store:
        run_together(8, work)
        assert (refused, get(store, b"k0"), get(store, b"k7")) == ([0], None, b"small")

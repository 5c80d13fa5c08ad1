"""Failed batches and full disks: nobody is told of success, reads go on, the store comes back by itself."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.runtime import fault_points
from services.runtime.fault_points import parse_fault_points
from services.storage.contract import Store
from services.storage.core import StoreOptions
from services.storage.directory import create_store, open_store
from services.storage.directory_errors import DirectoryUnusable
from services.storage.errors import CommitConflict, SnapshotExpired, StorageFull, StorageUnavailable
from services.storage.transaction import Transaction, run_transaction
from tests.harness.storage import IMPLEMENTATIONS, P, StoreBench, changes, expecting, get, put, run_together
from tests.harness.storage_process import StorageProcess

pytestmark = pytest.mark.fault

VOLUME_BYTES = 12 * 1024 * 1024
VALUE = os.urandom(100_000)
# Switches the guard off, so that the disk itself is what fails.
NO_GUARD = StoreOptions(free_bytes_min=-(1 << 40))


@pytest.fixture(params=IMPLEMENTATIONS)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreBench]:
    """Each implementation with one committed key."""
    made = StoreBench(request.param, tmp_path)
    put(made.store, a=b"1")
    yield made
    made.close()


@pytest.mark.parametrize(
    ("point", "is_written"),
    [("storage.before_batch", False), ("storage.before_sync", False), ("storage.after_sync", True)],
)
def test_after_a_failed_batch_the_store_opens_again(
    bench: StoreBench, monkeypatch: pytest.MonkeyPatch, point: str, is_written: bool
) -> None:
    """The waiting writer hears that the outcome is unknown, and a new incarnation serves what is really there."""
    before = bench.store.read([], pin=True)
    monkeypatch.setattr(fault_points, "_armed", parse_fault_points(f"{point}=error@1"))
    with pytest.raises(StorageUnavailable):
        put(bench.store, b=b"2")
    # The store does this by itself as well; here it must have been done.
    bench.local.maintain()
    assert bench.store.read([]).incarnation != before.incarnation
    assert (get(bench.store, b"a"), get(bench.store, b"b")) == (b"1", b"2" if is_written else None)
    with pytest.raises(SnapshotExpired):
        bench.store.read([], snapshot_id=before.snapshot_id)
    put(bench.store, c=b"3")
    assert bench.local.verify().problems == []


def test_a_transaction_rides_out_a_failed_batch(bench: StoreBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Success with a lost answer has one effect: the rerun finds the receipt."""
    monkeypatch.setattr(fault_points, "_armed", parse_fault_points("storage.after_sync=error@1"))
    runs: list[bytes | None] = []

    def run(transaction: Transaction) -> None:
        runs.append(transaction.get(P, b"receipt"))
        if runs[-1] is None:
            transaction.put(P, b"receipt", b"made")
            transaction.add(P, b"n", 1)

    run_transaction(bench.store, run, prefetch={P: [b"receipt"]})
    assert (runs, get(bench.store, b"n")) == ([None, b"made"], (1).to_bytes(8, "big"))


def test_all_who_wait_hear_of_a_failed_batch(bench: StoreBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody hangs and nobody is told of success; each commit is there whole or not at all."""
    monkeypatch.setattr(fault_points, "_armed", parse_fault_points("storage.before_sync=error@1"))
    failures: list[int] = []
    successes: list[int] = []

    def work(number: int) -> None:
        try:
            put(bench.store, **{f"x{number}": b"", f"y{number}": b""})
        except StorageUnavailable:
            failures.append(number)
        else:
            successes.append(number)

    run_together(12, work)
    bench.local.maintain()
    assert (len(failures) >= 1, len(failures) + len(successes)) == (True, 12)
    found = {key for key, _ in changes(bench.store, 0, prefixes=[b"x", b"y"])}
    assert found == {b"%c%d" % (letter, number) for letter in b"xy" for number in successes}


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    """A small volume of its own, on which a disk can really be full."""
    path = tmp_path / "volume"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={VOLUME_BYTES}", "tmpfs", str(path)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a small volume needs root")
    yield path
    subprocess.run(["umount", str(path)], check=True)


def _fill(volume: Path) -> Path:
    """Take all the room that is left; removing the file gives it back."""
    path = volume / "filler"
    with path.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            pass
    return path


def _write_until_refused(store: Store) -> int:
    written = 0
    while written < 200:
        try:
            put(store, **{f"k{written}": VALUE})
        except StorageFull:
            break
        written += 1
    return written


def test_the_guard_refuses_writes_before_the_very_end(volume: Path) -> None:
    """Writes are refused with the reason while reads go on; with room again writes go on, in the same incarnation."""
    create_store(volume)
    filler = volume / "filler"
    filler.write_bytes(bytes(VOLUME_BYTES // 2))
    with open_store(volume) as store:
        incarnation = store.status().incarnation
        written = _write_until_refused(store)
        assert (3 < written < 60, store.status().disk_free_bytes > 0) == (True, True)
        assert [get(store, b"k%d" % number) == VALUE for number in range(written)] == [True] * written
        filler.unlink()
        put(store, **{f"k{written}": VALUE})
        assert (get(store, b"k%d" % written), store.status().incarnation) == (VALUE, incarnation)
        assert store.verify().problems == []


def test_the_guard_speaks_over_the_wire(volume: Path) -> None:
    """The service stays up on a full disk, serves reads, and says that and why it refuses writes."""
    create_store(volume)
    filler, more = volume / "filler", volume / "more"
    filler.write_bytes(bytes(VOLUME_BYTES // 3))
    # The reserve is far larger than what the engine may still free or take by itself.
    arguments = ("--free-bytes-min", str(VOLUME_BYTES // 2))
    with StorageProcess(volume, arguments=arguments) as service, service.client() as store:
        assert get(store, b"k0") is None
        written = _write_until_refused(store)
        more.write_bytes(bytes(VOLUME_BYTES // 3))
        with pytest.raises(StorageFull, match="must stay free"):
            put(store, small=b"")
        assert (get(store, b"k0"), store.status().writable, service.process.poll()) == (VALUE, False, None)
        filler.unlink()
        more.unlink()
        put(store, **{f"k{written}": VALUE})
        assert (get(store, b"k%d" % written), store.status().writable) == (VALUE, True)


def test_a_disk_that_fills_up_during_commits_loses_nothing(volume: Path) -> None:
    """All 16 writers get an answer; what was acknowledged is there; with room again the store opens itself anew."""
    create_store(volume)
    with open_store(volume, options=NO_GUARD) as store:
        incarnation = store.status().incarnation
        filler = _fill(volume)
        acknowledged: set[bytes] = set()

        def work(number: int) -> None:
            for turn in range(3):
                name = b"%d-%d" % (number, turn)
                try:
                    store.commit(expecting(b"x" + name, 0))
                    put(store, **{f"x{name.decode()}": VALUE[:20_000], f"y{name.decode()}": b""})
                except (StorageUnavailable, StorageFull):
                    continue
                acknowledged.add(name)

        run_together(16, work)
        assert len(acknowledged) < 48
        filler.unlink()
        store.maintain()
        assert store.status().incarnation != incarnation
        found = {key for key, _ in changes(store, 0)}
        names = {key[1:] for key in found}
        assert (found, acknowledged - names) == ({letter + name for name in names for letter in (b"x", b"y")}, set())
        put(store, after=b"1")
        assert store.verify().problems == []
    with open_store(volume) as store:
        assert get(store, b"after") == b"1"


def test_a_full_disk_at_the_start_is_named(volume: Path) -> None:
    """A store that cannot be opened for want of room says so, and opens when there is room."""
    create_store(volume)
    with open_store(volume) as store:
        put(store, a=b"1")
    filler = _fill(volume)
    with pytest.raises(DirectoryUnusable, match="free space"):
        open_store(volume)
    filler.unlink()
    with open_store(volume) as store:
        assert get(store, b"a") == b"1"


def test_a_refused_commit_is_wholly_absent(volume: Path) -> None:
    """What the guard refused is not there, and its key is free for the retry."""
    create_store(volume)
    with open_store(volume, options=StoreOptions(free_bytes_min=VOLUME_BYTES)) as store:
        with pytest.raises(StorageFull):
            put(store, a=b"1", b=b"2")
        assert changes(store, 0) == []
    with open_store(volume) as store:
        assert store.commit(expecting(b"a", 0)) == 0
        put(store, a=b"1")
        with pytest.raises(CommitConflict):
            store.commit(expecting(b"a", 0))

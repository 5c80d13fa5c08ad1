"""Disks that are nearly or really full: refusals come first, reads go on, nothing acknowledged is lost."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from services.domain.errors import StorageFull, WaggleError
from services.runtime.status import RpcFailure
from services.storage.contract import Put, Store
from services.storage.core import LocalStore, StoreOptions
from services.storage.directory import create_store, open_store
from services.storage.directory_errors import DirectoryUnusable
from services.storage.errors import CommitConflict, StorageUnavailable
from services.storage.free_space import FreeSpaceGuard
from services.storage.transaction import Transaction, run_transaction
from tests.harness.small_volume import fill, small_volume
from tests.harness.storage import P, Q, changes, expecting, get, put, run_together, write
from tests.harness.storage_process import StorageProcess

pytestmark = pytest.mark.fault

MIB = 1024 * 1024
VOLUME_BYTES = 12 * MIB
WRITER_COUNT = 16
# Noise, so that nothing can be compressed away.
VALUE = random.Random(1).randbytes(100_000)


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    """A small volume with an empty store on it."""
    with small_volume(tmp_path / "volume", VOLUME_BYTES) as path:
        create_store(path)
        yield path


def _write_until_refused(store: Store) -> int:
    written = 0
    while written < 200:
        try:
            put(store, **{f"k{written}": VALUE})
        except StorageFull:
            break
        written += 1
    return written


def _agree(store: LocalStore, acknowledged: set[bytes], letters: bytes = b"xy") -> None:
    """Every acknowledged name is there, and each name that is there is there under every letter."""
    found = {key for key, _ in changes(store, 0)}
    names = {key[1:] for key in found}
    assert found == {b"%c" % letter + name for name in names for letter in letters}
    assert acknowledged - names == set()
    assert store.verify().problems == []


def test_the_guard_refuses_writes_before_the_very_end(volume: Path) -> None:
    """Writes are refused with the reason while reads go on; with room again writes go on, in the same incarnation."""
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


@pytest.mark.parametrize("key_count", [10**9, 150], ids=["new keys", "rewritten keys"])
def test_the_engine_never_meets_the_end_of_the_disk_itself(tmp_path: Path, key_count: int) -> None:
    """On 40 MiB the guard leaves room for every flush and merge: each write is accepted or refused, none is lost."""
    chance = random.Random(key_count)
    with small_volume(tmp_path / "volume", 40 * MIB) as path:
        create_store(path)
        with open_store(path) as store:
            incarnation = store.status().incarnation
            written: dict[bytes, bytes] = {}
            refused = 0
            for _ in range(900):
                key = b"%d" % chance.randrange(key_count)
                value = chance.randbytes(chance.choice([100, 20_000, 100_000, 300_000]))
                try:
                    write(store, Put(key, value))
                except StorageFull:
                    refused += 1
                else:
                    written[key] = value
            assert (refused > 0, len(written) > 20) == (True, True)
            status = store.status()
            assert (status.incarnation, status.disk_free_bytes > 2 * MIB) == (incarnation, True)
            assert [key for key, value in written.items() if get(store, key) != value] == []
            assert store.verify().problems == []


def test_the_guard_speaks_over_the_wire(volume: Path) -> None:
    """The service stays up on a full disk, serves reads, and says that and why it refuses writes."""
    filler, more = volume / "filler", volume / "more"
    filler.write_bytes(bytes(VOLUME_BYTES // 3))
    # The reserve is far larger than what the engine may still free or take by itself.
    arguments = ("--free-bytes-min", str(VOLUME_BYTES // 2))
    with StorageProcess(volume, arguments=arguments) as service, service.client() as store:
        assert get(store, b"k0") is None
        written = _write_until_refused(store)
        more.write_bytes(bytes(VOLUME_BYTES // 3))
        with pytest.raises(StorageFull, match="nothing was written"):
            put(store, small=b"")
        status = store.status()
        assert (get(store, b"k0"), status.writable, service.process.poll()) == (VALUE, False, None)
        assert status.disk_reserve_bytes == VOLUME_BYTES // 2
        filler.unlink()
        more.unlink()
        put(store, **{f"k{written}": VALUE})
        assert (get(store, b"k%d" % written), store.status().writable) == (VALUE, True)


def _write_until_it_fails(
    store: LocalStore, fill_up: Callable[[], object]
) -> tuple[set[bytes], dict[bytes, Exception]]:
    """16 writers, one of which fills the disk from outside in the middle; what was acknowledged, and each failure."""
    acknowledged: set[bytes] = set()
    failures: dict[bytes, Exception] = {}

    def work(number: int) -> None:
        for turn in range(100):
            if (number, turn) == (0, 2):
                fill_up()
            name = b"%d-%d" % (number, turn)
            try:
                store.commit(expecting(b"x" + name, 0, Put(b"x" + name, VALUE[:20_000]), Put(b"y" + name, b"")))
            except (RpcFailure, WaggleError) as error:
                failures[name] = error
                return
            acknowledged.add(name)

    run_together(WRITER_COUNT, work)
    return acknowledged, failures


def _write_unless_there(transaction: Transaction, *, name: bytes) -> None:
    if transaction.get(P, b"x" + name) is None:
        transaction.put(P, b"x" + name, b"again")
        transaction.put(P, b"y" + name, b"")


def _blindfold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every write through, so that the disk itself is what fails."""
    monkeypatch.setattr(FreeSpaceGuard, "check", lambda *_: None)


@pytest.mark.parametrize("is_blind", [True, False], ids=["without a guard", "with the guard"])
def test_a_disk_that_fills_up_during_commits_loses_nothing(
    volume: Path, monkeypatch: pytest.MonkeyPatch, is_blind: bool
) -> None:
    """All 16 writers get an answer; what was acknowledged is there; with room again the store comes back by itself.

    Whoever was told that nothing was written finds nothing and may write; whoever was not told looks, and knows.
    """
    if is_blind:
        _blindfold(monkeypatch)
    with open_store(volume) as store:
        incarnation = store.status().incarnation
        acknowledged, failures = _write_until_it_fails(store, lambda: fill(volume))
        assert {type(error) for error in failures.values()} <= {StorageFull, StorageUnavailable}
        assert len(failures) == WRITER_COUNT
        has_failed = any(isinstance(error, StorageUnavailable) for error in failures.values())
        assert has_failed or not is_blind
        for name in acknowledged:
            assert get(store, b"x" + name) == VALUE[:20_000]
        (volume / "filler").unlink()
        store.maintain()
        # As services do it: what a merge met while nobody could write is told to the first writer, and ridden out.
        run_transaction(store, lambda transaction: transaction.put(Q, b"settled", b""))
        assert store.status().incarnation != incarnation or not has_failed
        _agree(store, acknowledged)
        for name in failures:
            run_transaction(store, partial(_write_unless_there, name=name), prefetch={P: [b"x" + name]})
            acknowledged.add(name)
        _agree(store, acknowledged)
    with open_store(volume) as store:
        _agree(store, acknowledged)


def test_a_disk_that_fills_up_during_reads_does_not_stop_them(volume: Path) -> None:
    """With not a byte left, everything is read, by key, by range, from a pinned snapshot and from the change log."""
    with open_store(volume) as store:
        for number in range(10):
            put(store, **{f"k{number}": VALUE})
        pinned = store.open_snapshot().snapshot_id
        pages = store.changed_since(P, 0, page_bytes=1)
        first = next(pages)
        filler = fill(volume)
        assert [row.key for page in [first, *pages] for row in page.rows] == [b"k%d" % number for number in range(10)]
        assert [get(store, b"k%d" % number) == VALUE for number in range(10)] == [True] * 10
        assert store.read([], snapshot_id=pinned).sequence == 10
        with pytest.raises(StorageFull):
            put(store, small=b"")
        store.maintain()
        assert (store.is_open(), store.is_writable(), get(store, b"k0")) == (True, False, VALUE)
        filler.unlink()
        put(store, small=b"")
        assert (store.is_writable(), store.read([], snapshot_id=pinned).sequence) == (True, 10)


def test_a_failed_store_is_opened_again_before_there_is_room_for_writes(
    volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reads never stop: neither while there is no room to open it again, nor once there is, but not for more."""
    with monkeypatch.context() as patch:
        _blindfold(patch)
        # Far more than what the engine frees by itself when it is opened again.
        store = open_store(volume, options=StoreOptions(free_bytes_min=VOLUME_BYTES - 2 * MIB))
        incarnation = store.status().incarnation
        acknowledged, failures = _write_until_it_fails(store, lambda: fill(volume))
    with store:
        assert any(isinstance(error, StorageUnavailable) for error in failures.values())
        store.maintain()
        assert (store.is_open(), store.is_writable()) == (True, False)
        assert [get(store, b"y" + name) for name in acknowledged] == [b""] * len(acknowledged)
        (volume / "filler").unlink()
        fill(volume, leave_bytes=3 * MIB)
        store.maintain()
        assert (store.status().incarnation != incarnation, store.is_writable()) == (True, False)
        _agree(store, acknowledged)
        with pytest.raises(StorageFull):
            put(store, small=b"")


def test_a_full_disk_at_the_start_is_named(volume: Path) -> None:
    """A store that cannot be opened for want of room says so, is left as it is, and opens when there is room."""
    with open_store(volume) as store:
        put(store, a=b"1")
    filler = fill(volume)
    for _ in range(2):
        with pytest.raises(DirectoryUnusable, match="free space"):
            open_store(volume)
    with StorageProcess(volume) as service:
        assert service.process.wait() == DirectoryUnusable.exit_code
    filler.unlink()
    with open_store(volume) as store:
        assert get(store, b"a") == b"1"


def test_a_refused_commit_is_wholly_absent(volume: Path) -> None:
    """What the guard refused is not there, and its key is free for the retry."""
    with open_store(volume, options=StoreOptions(free_bytes_min=VOLUME_BYTES)) as store:
        with pytest.raises(StorageFull):
            put(store, a=b"1", b=b"2")
        assert changes(store, 0) == []
    with open_store(volume) as store:
        assert store.commit(expecting(b"a", 0)) == 0
        put(store, a=b"1")
        with pytest.raises(CommitConflict):
            store.commit(expecting(b"a", 0))

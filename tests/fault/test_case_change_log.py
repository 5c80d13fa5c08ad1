"""C19: who follows the change log through kills sees each acknowledged change once, whole and in order."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import pytest

from services.storage.contract import Store
from services.storage.directory import create_store
from services.storage.errors import StorageUnavailable
from tests.harness.fault_switches import STORAGE_POINTS
from tests.harness.storage import P, changes, get, put
from tests.harness.storage_process import StorageProcess

pytestmark = pytest.mark.fault

WRITERS, KILLS = 6, 4
ENDLESS = 10_000


def await_store(store: Store) -> None:
    """Wait for the next process, however long a busy machine needs to start it."""
    for _ in range(ENDLESS):
        try:
            get(store, b"a0")
            return
        except StorageUnavailable:
            continue


class Follower:
    """Pulls what has changed since it last looked, as a replica does.

    Attributes:
        keys: Keys of all changes, as they were told.
        sequences: Sequence of each of them.
    """

    def __init__(self, after: int) -> None:
        self.keys: list[bytes] = []
        self.sequences: list[int] = []
        self.after = after

    def pull(self, store: Store) -> None:
        """Read to the end of the log as it is now; what a lost stream has told before it was lost counts."""
        rows = []
        through = self.after
        for page in store.changed_since(P, self.after):
            rows += page.rows
            through = page.head
        self.keys += [row.key for row in rows]
        self.sequences += [row.version for row in rows]
        self.after = through


@pytest.mark.parametrize(
    "point", ["storage.after_sync", *(pytest.param(point, marks=pytest.mark.deep) for point in STORAGE_POINTS[:2])]
)
def test_each_change_once_and_in_order(tmp_path: Path, point: str) -> None:
    """Two keys a commit, from six writers at once, through kills at one step of the commit: none lost, none by half."""
    directory = tmp_path / "data"
    create_store(directory)
    acknowledged: set[bytes] = set()
    stop = threading.Event()

    with StorageProcess(directory, fault_points=f"{point}=kill@9") as service, service.client() as store:
        assert get(store, b"a0") is None
        # From the first commit on the log tells changes; from nothing it would tell what lives.
        follower = Follower(put(store, first=b""))

        def write(number: int) -> None:
            for turn in range(ENDLESS):
                if stop.is_set():
                    return
                name = f"{number}-{turn}"
                try:
                    put(store, **{f"a{name}": b"1", f"b{name}": b"2"})
                except StorageUnavailable:
                    await_store(store)
                    continue
                acknowledged.add(name.encode())

        def follow() -> None:
            while not stop.is_set():
                try:
                    follower.pull(store)
                except StorageUnavailable:
                    await_store(store)

        threads = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
        threads.append(threading.Thread(target=follow))
        for thread in threads:
            thread.start()
        for kill in range(KILLS):
            assert -signal.SIGKILL == service.process.wait(60)
            service.start_again(f"{point}=kill@{9 + kill}" if kill < KILLS - 1 else "")
        while len(acknowledged) < 50:
            assert get(store, b"a0") is None
        stop.set()
        for thread in threads:
            thread.join()
        follower.pull(store)
        living = [key for key, _ in changes(store, 0) if key != b"first"]
    assert len(follower.keys) == len(set(follower.keys))
    assert set(living) == set(follower.keys)
    assert sorted(follower.sequences) == follower.sequences
    names = {key[1:] for key in living}
    assert {letter + name for name in names for letter in (b"a", b"b")} == set(living)
    assert acknowledged <= names
    pairs = dict(zip(follower.keys, follower.sequences, strict=True))
    assert all(pairs[b"a" + name] == pairs[b"b" + name] for name in names)

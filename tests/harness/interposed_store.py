"""A store between a service and the real one: counts what passes, and lets a test act right before a commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from services.runtime.clock import Clock
from services.storage.contract import (
    ChangePage,
    Commit,
    PartitionRead,
    PinnedSnapshot,
    ReadResult,
    StoreStatus,
)
from services.storage.core import LocalStore
from services.storage.errors import StorageUnavailable
from services.storage.volume import MemoryVolume


class InterposedStore:
    """A throw-away store that can be opened again. See `services.storage.contract.Store` for the operations.

    Attributes:
        read_count: Reads so far.
        commit_count: Commits so far, refused ones included.
        before_commit: Called once, right before the next commit reaches the store; then forgotten.
        loses_answer: The next commit is carried out and its answer lost; then false again.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._volume = MemoryVolume()
        self._store = LocalStore(self._volume, clock=clock)
        self.read_count = 0
        self.commit_count = 0
        self.before_commit: Callable[[], None] | None = None
        self.loses_answer = False

    def reopen(self) -> None:
        """Close the store and open it on the same data, as a restart does: a new incarnation."""
        self._store.close()
        self._store = LocalStore(self._volume, clock=self._clock)

    def read(self, partitions: Sequence[PartitionRead], *, snapshot_id: str = "", pin: bool = False) -> ReadResult:
        self.read_count += 1
        return self._store.read(partitions, snapshot_id=snapshot_id, pin=pin)

    def commit(self, commit: Commit) -> int:
        self.commit_count += 1
        act, self.before_commit = self.before_commit, None
        if act is not None:
            act()
        sequence = self._store.commit(commit)
        if self.loses_answer:
            self.loses_answer = False
            raise StorageUnavailable("the answer was lost")
        return sequence

    def changed_since(
        self,
        partition: bytes,
        after: int,
        *,
        key_prefixes: Sequence[bytes] = (),
        page_bytes: int = 0,
        expected_incarnation: str = "",
    ) -> Iterator[ChangePage]:
        return self._store.changed_since(
            partition,
            after,
            key_prefixes=key_prefixes,
            page_bytes=page_bytes,
            expected_incarnation=expected_incarnation,
        )

    def open_snapshot(self, ttl_ms: int = 0) -> PinnedSnapshot:
        return self._store.open_snapshot(ttl_ms)

    def close_snapshot(self, snapshot_id: str) -> None:
        self._store.close_snapshot(snapshot_id)

    def status(self) -> StoreStatus:
        return self._store.status()

    def close(self) -> None:
        self._store.close()

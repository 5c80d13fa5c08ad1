"""Pinned snapshots: a bounded number, each for a bounded time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from services.runtime.identifiers import new_uuid
from services.storage.engine import EngineSnapshot
from services.storage.errors import SnapshotExpired, TooManySnapshots
from services.storage.instruments import OPEN_SNAPSHOTS

PINNED_MAX_DEFAULT: Final = 256


class _Pinned(NamedTuple):
    snapshot: EngineSnapshot
    expires_at_s: float


class PinnedSnapshots:
    """The pinned snapshots of one opening of the store; safe to use from any thread.

    Args:
        pinned_max: Greatest number open at a time.
        monotonic_s: Source of monotonic seconds.
    """

    def __init__(
        self, *, pinned_max: int = PINNED_MAX_DEFAULT, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._pinned_max = pinned_max
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        self._pinned: dict[str, _Pinned] = {}
        self._closed = False
        OPEN_SNAPSHOTS.set_function(lambda: len(self._pinned))

    def pin(self, snapshot: EngineSnapshot, ttl_ms: int) -> str:
        """Keep a snapshot for a time and return its id; the snapshot is now owned here.

        Raises:
            TooManySnapshots: The bound is reached; the caller still owns the snapshot.
        """
        self.expire()
        snapshot_id = new_uuid()
        with self._lock:
            if self._closed or len(self._pinned) >= self._pinned_max:
                raise TooManySnapshots(f"{self._pinned_max} snapshots are pinned already")
            self._pinned[snapshot_id] = _Pinned(snapshot, self._monotonic_s() + ttl_ms / 1000)
        return snapshot_id

    def find(self, snapshot_id: str) -> EngineSnapshot:
        """Return a pinned snapshot. Raises SnapshotExpired when it is unknown or its time is over."""
        with self._lock:
            pinned = self._pinned.get(snapshot_id)
        if pinned is None or pinned.expires_at_s <= self._monotonic_s():
            raise SnapshotExpired("the snapshot is not open")
        return pinned.snapshot

    def release(self, snapshot_id: str) -> None:
        """Let a snapshot go. Unknown ids are accepted."""
        with self._lock:
            pinned = self._pinned.pop(snapshot_id, None)
        if pinned is not None:
            pinned.snapshot.close()

    def expire(self) -> None:
        """Let go of every snapshot whose time is over."""
        now_s = self._monotonic_s()
        with self._lock:
            expired = [snapshot_id for snapshot_id, pinned in self._pinned.items() if pinned.expires_at_s <= now_s]
        for snapshot_id in expired:
            self.release(snapshot_id)

    def close(self) -> None:
        """Let go of all and pin no more."""
        with self._lock:
            self._closed = True
            remaining = list(self._pinned)
        for snapshot_id in remaining:
            self.release(snapshot_id)

    def __len__(self) -> int:
        return len(self._pinned)

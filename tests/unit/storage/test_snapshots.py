"""Pinned snapshots are few and do not live for ever."""

from __future__ import annotations

import pytest

from services.storage.engine import EngineClosed
from services.storage.errors import SnapshotExpired, TooManySnapshots
from services.storage.snapshots import PinnedSnapshots
from services.storage.volume import MemoryVolume


class ManualSeconds:
    """Monotonic seconds that are moved by hand."""

    def __init__(self) -> None:
        self.value = 0.0

    def __call__(self) -> float:
        """The present second."""
        return self.value


def test_a_snapshot_expires() -> None:
    """Up to its time to live a snapshot is found, afterwards it is not, and its engine snapshot is closed."""
    now = ManualSeconds()
    pinned = PinnedSnapshots(pinned_max=2, monotonic_s=now)
    engine = MemoryVolume().open_engine()
    snapshot = engine.snapshot()
    snapshot_id = pinned.pin(snapshot, 1000)
    now.value = 0.999
    assert pinned.find(snapshot_id) is snapshot
    now.value = 1.0
    with pytest.raises(SnapshotExpired):
        pinned.find(snapshot_id)
    pinned.expire()
    assert len(pinned) == 0
    with pytest.raises(EngineClosed):
        snapshot.get(b"a")


def test_expired_snapshots_make_room() -> None:
    """The bound counts living snapshots only; whoever is refused keeps the snapshot."""
    now = ManualSeconds()
    pinned = PinnedSnapshots(pinned_max=1, monotonic_s=now)
    engine = MemoryVolume().open_engine()
    pinned.pin(engine.snapshot(), 1000)
    refused = engine.snapshot()
    with pytest.raises(TooManySnapshots):
        pinned.pin(refused, 1000)
    assert refused.get(b"absent") is None
    now.value = 1.0
    assert pinned.find(pinned.pin(refused, 1000)) is refused


def test_nothing_is_pinned_after_close() -> None:
    """Close lets all go and refuses new ones."""
    pinned = PinnedSnapshots()
    engine = MemoryVolume().open_engine()
    snapshot_id = pinned.pin(engine.snapshot(), 1000)
    pinned.close()
    with pytest.raises(SnapshotExpired):
        pinned.find(snapshot_id)
    with pytest.raises(TooManySnapshots):
        pinned.pin(engine.snapshot(), 1000)

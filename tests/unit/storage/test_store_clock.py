"""The store's clock never goes backwards."""

from __future__ import annotations

from services.storage.store_clock import StoreClock
from tests.harness.storage import ManualClock


def test_it_follows_the_host_forwards_only() -> None:
    """A host clock that is set back is waited for."""
    host = ManualClock(100)
    clock = StoreClock(host)
    shown = []
    for host.ms in (100, 150, 120, 149, 151):
        shown.append(clock.now_ms())
    assert shown == [100, 150, 150, 150, 151]


def test_it_starts_at_what_was_persisted() -> None:
    """A persisted time holds it up; a lower one does not pull it down."""
    clock = StoreClock(ManualClock(100))
    clock.raise_to(300)
    clock.raise_to(200)
    assert clock.now_ms() == 300

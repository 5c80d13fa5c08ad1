"""The store's clock: milliseconds that never go backwards, not even over a restart with the host's clock set back."""

from __future__ import annotations

import threading

from services.runtime.clock import Clock


class StoreClock:
    """The host's clock, held at or above every time it has shown and every time that was persisted."""

    def __init__(self, host_clock: Clock) -> None:
        self._host_clock = host_clock
        self._lock = threading.Lock()
        self._highest_ms = 0

    def now_ms(self) -> int:
        """Return the present time in milliseconds since the Unix epoch."""
        with self._lock:
            self._highest_ms = max(self._highest_ms, self._host_clock.now_ms())
            return self._highest_ms

    def raise_to(self, persisted_ms: int) -> None:
        """Never again show a time before this one."""
        with self._lock:
            self._highest_ms = max(self._highest_ms, persisted_ms)

"""Wall-clock time behind an interface, so that rules can be tested with a chosen time."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Source of the present time."""

    def now_ms(self) -> int:
        """Return the present time in milliseconds since the Unix epoch."""
        ...


class SystemClock:
    """The clock of the host; it may go backwards. Only storage turns it into time that decides anything."""

    def now_ms(self) -> int:
        """Return the host's time in milliseconds since the Unix epoch."""
        return time.time_ns() // 1_000_000


class MonotonicClock:
    """Time since some moment before the process started; never goes backwards, and means nothing in another process."""

    def now_ms(self) -> int:
        """Return the milliseconds since that moment."""
        return time.monotonic_ns() // 1_000_000

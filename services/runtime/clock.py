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

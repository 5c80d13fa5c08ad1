"""When to start a process again that has ended by itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class RestartBackoff:
    """Doubling delays between restarts of one process, forgotten after it has run well for a while.

    Attributes:
        first_s: Delay after the first crash, seconds.
        longest_s: Bound of the delay, seconds.
        calm_s: A run of at least this many seconds starts the series anew.
    """

    first_s: float = 0.05
    longest_s: float = 5.0
    calm_s: float = 20.0
    crash_count: int = 0

    def next_delay_s(self, ran_for_s: float) -> float:
        """Return how long to wait before the next start, given how long the process has run."""
        if ran_for_s >= self.calm_s:
            self.crash_count = 0
        delay_s = min(self.longest_s, self.first_s * 2.0 ** min(self.crash_count, 30))
        self.crash_count += 1
        return delay_s

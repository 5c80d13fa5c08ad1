"""Waiting between attempts: exponentially longer, with full jitter, until a deadline."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final

FIRST_DELAY_S: Final = 0.005
LONGEST_DELAY_S: Final = 0.5


class Backoff:
    """The waits of one operation.

    Args:
        limit_s: Seconds from now after which no further attempt begins.
        first_s, longest_s: Upper bounds of the first and of any wait, in seconds.
        sleep, monotonic_s, jitter: Injected for tests; `jitter` returns a number in [0, 1).
    """

    def __init__(
        self,
        limit_s: float,
        *,
        first_s: float = FIRST_DELAY_S,
        longest_s: float = LONGEST_DELAY_S,
        sleep: Callable[[float], None] = time.sleep,
        monotonic_s: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._sleep = sleep
        self._monotonic_s = monotonic_s
        self._jitter = jitter
        self._delay_s = first_s
        self._longest_s = longest_s
        self._deadline_at_s = monotonic_s() + limit_s

    def wait(self) -> bool:
        """Wait before the next attempt. Returns False, without waiting, when the limit would pass."""
        delay_s = self._delay_s * self._jitter()
        self._delay_s = min(2 * self._delay_s, self._longest_s)
        if self._monotonic_s() + delay_s > self._deadline_at_s:
            return False
        self._sleep(delay_s)
        return True

"""Noticing that a process hangs: it has not ended, and answers nobody.

A process is asked again and again whether it lives, on a thread apart, so that a supervisor that waits for one answer
still tends the others. It hangs when it has answered before and then misses several questions in a row. Silence from
the start is a slow start and no hang: nobody knows how long a large store takes to open.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Final

MISSES_MAX: Final = 3
INTERVAL_S: Final = 5.0

Ask = Callable[[float], bool]
"""Seconds to wait -> whether the process has answered, whatever it said."""


@dataclass(slots=True)
class LivenessWatch:
    """Watches one process. Used by one thread, which must not wait.

    Attributes:
        ask: Asks the process; runs on a thread of `executor` and never raises.
        interval_s: Seconds between two questions, and the time for each answer. 0 asks nothing.
        clock: Monotonic seconds.
    """

    ask: Ask
    executor: Executor
    interval_s: float = INTERVAL_S
    clock: Callable[[], float] = time.monotonic
    _question: Future[bool] | None = field(default=None, init=False)
    _next_at_s: float = field(default=0.0, init=False)
    _has_answered: bool = field(default=False, init=False)
    _misses: int = field(default=0, init=False)

    def forget(self) -> None:
        """Start anew with another process; what the one before answers late does not count."""
        self._question = None
        self._next_at_s = 0.0
        self._has_answered = False
        self._misses = 0

    def is_hung(self) -> bool:
        """Whether too many questions in a row were missed. To be called often: it asks when the time has come."""
        if self.interval_s <= 0:
            return False
        if self._question is not None:
            if not self._question.done():
                return False
            self._count(self._question.result())
            self._question = None
        if self._misses >= MISSES_MAX:
            return True
        now_s = self.clock()
        if now_s >= self._next_at_s:
            self._next_at_s = now_s + self.interval_s
            self._question = self.executor.submit(self.ask, self.interval_s)
        return False

    def _count(self, answered: bool) -> None:
        if answered:
            self._has_answered, self._misses = True, 0
        elif self._has_answered:
            self._misses += 1

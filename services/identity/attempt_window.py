"""How many logins may fail in a stretch of time, for one account name and in all. Pure: the time is an argument."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from typing import Final

WINDOW_MS: Final = 60_000
NAME_FAILURES_MAX: Final = 10
TOTAL_FAILURES_MAX: Final = 300


@dataclass(slots=True, eq=False)
class Attempt:
    """One login that has failed, or is not decided yet."""

    name: bytes
    at_ms: int
    is_counted: bool = True


class AttemptWindow:
    """Attempts of the last stretch of time. Not safe to use from several threads at once.

    An attempt counts from its beginning, so that attempts at the same time cannot pass the bound together, and for
    exactly `window_ms`. One that succeeds is withdrawn.

    Args:
        window_ms: How long an attempt counts.
        name_max: Greatest number of counted attempts with one name.
        total_max: Greatest number of counted attempts in all.
    """

    def __init__(
        self, *, window_ms: int = WINDOW_MS, name_max: int = NAME_FAILURES_MAX, total_max: int = TOTAL_FAILURES_MAX
    ) -> None:
        self._window_ms = window_ms
        self._name_max = name_max
        self._total_max = total_max
        self._attempts: deque[Attempt] = deque()
        self._count_by_name: Counter[bytes] = Counter()

    def begin(self, name: bytes, now_ms: int) -> Attempt | None:
        """Count an attempt, unless there are too many: then None. The time never goes backwards."""
        self._forget_until(now_ms - self._window_ms)
        if self._count_by_name[name] >= self._name_max or self._count_by_name.total() >= self._total_max:
            return None
        attempt = Attempt(name, now_ms)
        self._attempts.append(attempt)
        self._count_by_name[name] += 1
        return attempt

    def withdraw(self, attempt: Attempt) -> None:
        """Let an attempt that has not failed count no longer. Safe to repeat."""
        if attempt.is_counted:
            attempt.is_counted = False
            self._count_by_name[attempt.name] -= 1
            if not self._count_by_name[attempt.name]:
                del self._count_by_name[attempt.name]

    def _forget_until(self, at_ms: int) -> None:
        while self._attempts and (not self._attempts[0].is_counted or self._attempts[0].at_ms <= at_ms):
            self.withdraw(self._attempts.popleft())

"""Waits grow, are jittered, and end before the limit."""

from __future__ import annotations

from services.storage.backoff import Backoff


class Time:
    """Time that passes only by waiting."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.waits_s: list[float] = []

    def sleep(self, delay_s: float) -> None:
        """Let time pass."""
        self.waits_s.append(delay_s)
        self.now_s += delay_s


def _backoff(time: Time, limit_s: float, jitter: float) -> Backoff:
    return Backoff(
        limit_s,
        first_s=1.0,
        longest_s=4.0,
        sleep=time.sleep,
        monotonic_s=lambda: time.now_s,
        jitter=lambda: jitter,
    )


def test_waits_double_up_to_the_longest() -> None:
    """Each wait is the jittered share of twice the former bound."""
    time = Time()
    backoff = _backoff(time, 100, 0.5)
    assert [backoff.wait() for _ in range(5)] == [True] * 5
    assert time.waits_s == [0.5, 1.0, 2.0, 2.0, 2.0]


def test_no_wait_begins_that_would_pass_the_limit() -> None:
    """The last wait ends before the limit, and the answer is then no, without waiting."""
    time = Time()
    backoff = _backoff(time, 4.0, 1.0)
    assert [backoff.wait(), backoff.wait(), backoff.wait()] == [True, True, False]
    assert time.waits_s == [1.0, 2.0]

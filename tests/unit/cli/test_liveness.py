"""When a process counts as hung."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from cli.liveness import MISSES_MAX, LivenessWatch


class Asked(Executor):
    """Holds each question until the test answers it."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.timeouts: list[float] = []
        self.open: list[Future[bool]] = []
        self.watch = LivenessWatch(lambda _timeout_s: False, self, 5.0, clock=lambda: self.now_s)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Take a question."""
        self.timeouts.append(args[0])
        self.open.append(Future())
        return self.open[-1]

    def after(self, *answers: bool) -> bool:
        """Whether the process counts as hung after these answers, each to a question of its own."""
        for answered in answers:
            self.watch.is_hung()
            self.open[-1].set_result(answered)
            self.now_s += 5.0
        return self.watch.is_hung()


def test_misses_in_a_row_are_a_hang() -> None:
    """A process that has answered and then misses as many questions as may be missed."""
    assert not Asked().after(True, *[False] * (MISSES_MAX - 1))
    assert Asked().after(True, *[False] * MISSES_MAX)


def test_an_answer_in_between_begins_the_count_anew() -> None:
    """Slow now and then is no hang."""
    assert not Asked().after(True, False, False, True, False, False, True, False, False)


def test_silence_from_the_start_is_a_slow_start() -> None:
    """Opening a large store takes what it takes."""
    assert not Asked().after(*[False] * 20)


def test_another_process_is_judged_for_itself() -> None:
    """After a restart nothing of the former counts, nor what it answers late."""
    asked = Asked()
    asked.after(True, False, False)
    late = asked.open[-1]
    asked.watch.forget()
    late.set_result(False)
    assert not asked.after(*[False] * 20)
    assert asked.after(True, *[False] * MISSES_MAX)


def test_one_question_at_a_time_and_no_sooner_than_due() -> None:
    """The time for an answer is the interval, and a question that is open is waited for without waiting."""
    asked = Asked()
    for _ in range(5):
        asked.watch.is_hung()
    assert [5.0] == asked.timeouts
    asked.open[-1].set_result(True)
    asked.now_s += 4.9
    asked.watch.is_hung()
    assert 1 == len(asked.open)
    asked.now_s += 0.1
    asked.watch.is_hung()
    assert 2 == len(asked.open)


def test_an_interval_of_zero_asks_nothing() -> None:
    """For who debugs a process and lets it stand still."""
    asked = Asked()
    asked.watch.interval_s = 0
    assert not asked.watch.is_hung()
    assert [] == asked.open

"""Two workers, no queue."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from services.domain.errors import LoginBusy
from services.identity.password_workers import WORKER_COUNT, PasswordWorkers

WAIT_S = 20.0


@pytest.fixture
def workers() -> Iterator[PasswordWorkers]:
    made = PasswordWorkers()
    yield made
    made.close()


def test_the_third_is_refused_and_not_begun(workers: PasswordWorkers) -> None:
    """While two work; once one has ended, the next is taken."""
    gates = [threading.Event() for _ in range(WORKER_COUNT)]
    begun = threading.Barrier(WORKER_COUNT + 1)

    def work(gate: threading.Event) -> str:
        begun.wait(WAIT_S)
        assert gate.wait(WAIT_S)
        return threading.current_thread().name

    with ThreadPoolExecutor(WORKER_COUNT) as callers:
        running: list[Future[str]] = [callers.submit(workers.run, lambda gate=gate: work(gate)) for gate in gates]
        begun.wait(WAIT_S)
        ran = False

        def third() -> None:
            nonlocal ran
            ran = True

        with pytest.raises(LoginBusy):
            workers.run(third)
        assert not ran
        gates[0].set()
        assert running[0].result(WAIT_S).startswith("password")
        workers.run(third)
        assert ran
        gates[1].set()
    assert WORKER_COUNT == 2


def test_work_that_fails_gives_its_worker_back(workers: PasswordWorkers) -> None:
    """What it raises reaches the caller, every time."""

    def fail() -> None:
        raise ValueError("broken")

    for _ in range(3 * WORKER_COUNT):
        with pytest.raises(ValueError, match="broken"):
            workers.run(fail)
    assert workers.run(lambda: 7) == 7

"""The lease is renewed while an extractor works, from the thread that may."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

import pytest

from cli.lease_renewal import renewing
from qilbeedb import ConsolidationInput, ConsolidationResult, ConsumerAPIError, ConsumerTransportError

RESULT = ConsolidationResult([], {"status": "unknown"}, "e")
JOB = "00000000-0000-4000-8000-000000000001"


class Lease:
    """Counts renewals, and fails those it is told to."""

    def __init__(self, *errors: Exception | None) -> None:
        self.errors = list(errors)
        self.threads: list[int] = []

    def renew(self) -> None:
        self.threads.append(threading.get_ident())
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error

    def given(self) -> ConsolidationInput:
        return ConsolidationInput(JOB, JOB, {"lease_millis": 3000}, [], self.renew)


class Turns:
    """Lets so many waits end without a result, then lets the extractor finish."""

    def __init__(self, count: int) -> None:
        self.remaining = count
        self.waited_s: list[float] = []
        self.may_finish = threading.Event()

    def wait(self, future: Future[ConsolidationResult], timeout_s: float) -> ConsolidationResult:
        self.waited_s.append(timeout_s)
        if self.remaining:
            self.remaining -= 1
            raise TimeoutError
        self.may_finish.set()
        return future.result()

    def extract(self, given: ConsolidationInput) -> ConsolidationResult:
        given.renew()
        self.may_finish.wait()
        return RESULT


def run(turns: Turns, lease: Lease) -> tuple[Any, int]:
    renewals: list[None] = []
    extract = renewing(turns.extract, on_renewal=lambda: renewals.append(None), wait=turns.wait)
    return extract(lease.given()), len(renewals)


def test_renews_at_every_third_of_the_lease() -> None:
    """Once for each wait in vain, in the thread that called, whatever the extractor's own renew does."""
    turns, lease = Turns(4), Lease()
    assert (RESULT, 4) == run(turns, lease)
    assert [1.0] * 5 == turns.waited_s
    assert [threading.get_ident()] * 4 == lease.threads


def test_a_refused_renewal_is_the_last() -> None:
    """The deadline has come: the extractor finishes, and the server decides about its output."""
    turns, lease = Turns(4), Lease(None, ConsumerAPIError("revision_conflict", status=409))
    assert (RESULT, 1) == run(turns, lease)
    assert 2 == len(lease.threads)


@pytest.mark.parametrize(
    "error", [ConsumerTransportError("transport_failure"), ConsumerAPIError("retrieval_busy", status=503)]
)
def test_a_passing_fault_is_tried_again(error: Exception) -> None:
    """A lost answer or a busy server ends nothing."""
    turns, lease = Turns(3), Lease(error)
    assert (RESULT, 2) == run(turns, lease)


@pytest.mark.parametrize("error", [OSError("lost"), TimeoutError("the provider's own")])
def test_the_extractors_error_is_its_own(error: Exception) -> None:
    """What it raises passes through, also when it looks like the end of a wait."""

    def fail(_: ConsolidationInput) -> ConsolidationResult:
        raise error

    with pytest.raises(type(error)) as caught:
        renewing(fail)(Lease().given())
    assert error is caught.value

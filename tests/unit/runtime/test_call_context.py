"""Request id and deadline of the call that a thread serves."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from services.runtime.call_context import bind_call, outgoing_metadata, release_call, remaining_s, request_id


@pytest.fixture(autouse=True)
def unbound() -> Iterator[None]:
    """Leave no call bound to the test's thread."""
    release_call()
    yield
    release_call()


def test_the_request_id_is_passed_on() -> None:
    """A hop inside a call carries the caller's request id."""
    bind_call("r-1", None)
    assert ("r-1", (("x-request-id", "r-1"),)) == (request_id(), outgoing_metadata())


def test_a_hop_never_outlives_the_callers_deadline() -> None:
    """The time left is bounded by the deadline, by the default, and by zero."""
    bind_call("r-1", 5.0)
    assert remaining_s(100.0) <= 5.0
    assert remaining_s(1.0) <= 1.0
    bind_call("r-1", -3.0)
    assert 0.0 == remaining_s(1.0)


def test_without_a_deadline_the_default_holds() -> None:
    """Outside of calls, and in calls without a deadline, the caller's default is used."""
    assert 7.0 == remaining_s(7.0)


def test_another_thread_sees_nothing_of_the_call() -> None:
    """Calls on different threads do not mix."""
    bind_call("r-1", 5.0)
    seen: list[object] = []
    thread = threading.Thread(target=lambda: seen.append(outgoing_metadata()))
    thread.start()
    thread.join()
    assert [()] == seen

"""Admission slots: never waited for, never lost, never kept beyond the answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from services.domain.errors import RetrievalBusy
from services.runtime.admission import AdmissionPool, AdmissionSettings, release_slot, releasing
from services.runtime.settings import read_settings
from services.runtime.start_failure import CannotStart


@pytest.fixture(autouse=True)
def clean_thread() -> Iterator[None]:
    yield
    release_slot()


def admit_elsewhere(pool: AdmissionPool) -> bool:
    """Whether another thread gets a slot; it keeps it."""
    admitted: list[bool] = []

    def run() -> None:
        try:
            pool.admit()
        except RetrievalBusy:
            admitted.append(False)
        else:
            admitted.append(True)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return admitted[0]


def test_as_many_as_there_are_slots() -> None:
    """The one after the last is refused at once."""
    pool = AdmissionPool(2)
    assert [admit_elsewhere(pool) for _ in range(3)] == [True, True, False]


def test_a_call_takes_one_slot_however_often_it_asks() -> None:
    """A rerun of the call's transaction keeps the slot that it has."""
    pool = AdmissionPool(2)
    pool.admit()
    pool.admit()
    assert [admit_elsewhere(pool) for _ in range(2)] == [True, False]


def test_release_gives_back_once() -> None:
    """Further releases do nothing."""
    pool = AdmissionPool(1)
    pool.admit()
    release_slot()
    release_slot()
    assert [admit_elsewhere(pool) for _ in range(2)] == [True, False]


def test_the_slot_is_held_until_the_answer_is_serialized() -> None:
    """It is still taken inside the serializer and free behind it, also when that fails."""
    pool = AdmissionPool(1)
    inside: list[bool] = []

    def serialize(answer: str) -> bytes:
        inside.append(admit_elsewhere(pool))
        return answer.encode("ascii")

    wrapped = releasing(serialize)
    assert wrapped is not None
    pool.admit()
    assert wrapped("x") == b"x"
    pool.admit()
    with pytest.raises(UnicodeEncodeError):
        wrapped("é")
    pool.admit()
    assert inside == [False, False]


@pytest.mark.parametrize(("text", "expected"), [("1", 1), ("64", 64), (None, 2)])
def test_setting(text: str | None, expected: int) -> None:
    """1 to 64; 2 when unset."""
    environment = {} if text is None else {"QILBEE_MAX_CONCURRENT_RETRIEVALS": text}
    assert expected == read_settings(AdmissionSettings, environment).max_concurrent_retrievals


@pytest.mark.parametrize("text", ["0", "65", "-1", "2.0", "two", "", "²"])
def test_invalid_setting(text: str) -> None:
    """Anything else stops the start."""
    with pytest.raises(CannotStart, match="1 to 64"):
        read_settings(AdmissionSettings, {"QILBEE_MAX_CONCURRENT_RETRIEVALS": text})

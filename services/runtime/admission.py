"""Admission slots: how many retrievals one server executes at a time.

There is no queue. A request that finds no free slot is refused before any work, with `retrieval_busy`.
"""

from __future__ import annotations

import os
import threading
from types import TracebackType

from services.domain.errors import RetrievalBusy

ENVIRONMENT_VARIABLE = "QILBEE_MAX_CONCURRENT_RETRIEVALS"
SLOTS_DEFAULT = 2
SLOTS_MAX = 64


def slot_count_from_environment() -> int:
    """Read the operator's setting, 1 to 64; 2 when unset.

    Raises:
        ValueError: The setting is no such number; the process must not start.
    """
    text = os.environ.get(ENVIRONMENT_VARIABLE, str(SLOTS_DEFAULT))
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= SLOTS_MAX):
        raise ValueError(f"{ENVIRONMENT_VARIABLE} must be an integer from 1 to {SLOTS_MAX}")
    return int(text)


class AdmissionSlot:
    """One taken slot. Release it once, after the answer is serialized; a `with` block does."""

    __slots__ = ("_semaphore",)

    def __init__(self, semaphore: threading.Semaphore) -> None:
        self._semaphore: threading.Semaphore | None = semaphore

    def release(self) -> None:
        """Give the slot back. Further calls do nothing."""
        semaphore, self._semaphore = self._semaphore, None
        if semaphore is not None:
            semaphore.release()

    def __enter__(self) -> AdmissionSlot:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()


class AdmissionPool:
    """The slots of one server, shared by all companies.

    Take one with `admit` after authentication, capability and scope. The slot belongs to the work, not to the
    connection: it stays taken until the holder releases it, also when the client is gone.
    """

    def __init__(self, slot_count: int) -> None:
        self.slot_count = slot_count
        self._semaphore = threading.Semaphore(slot_count)

    def admit(self) -> AdmissionSlot:
        """Take a slot, without waiting.

        Raises:
            RetrievalBusy: None is free.
        """
        if not self._semaphore.acquire(blocking=False):
            raise RetrievalBusy("all retrieval slots are taken")
        return AdmissionSlot(self._semaphore)

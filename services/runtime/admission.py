"""Admission slots: how many retrievals one server executes at a time.

There is no queue. A request that finds no free slot is refused before any work, with `retrieval_busy`. The slot belongs
to the work, not to the connection: it is given back when the answer has been serialized or the call has failed, also
when the client is gone, and before the answer is sent, so that a client's next call never meets its own slot.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final

from services.domain.errors import RetrievalBusy
from services.runtime.fault_points import fault_point
from services.runtime.metrics import ADMISSION_SLOTS, ADMISSION_SLOTS_TAKEN
from services.runtime.settings import IntegerVariable

SLOTS_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """What an operator sets of admission.

    Attributes:
        max_concurrent_retrievals: Slots of one server, 1 to 64.
    """

    max_concurrent_retrievals: Annotated[
        int, IntegerVariable("QILBEE_MAX_CONCURRENT_RETRIEVALS", least=1, greatest=SLOTS_MAX)
    ] = 2


class _Thread(threading.local):
    held: AdmissionPool | None = None


_thread = _Thread()


class AdmissionPool:
    """The slots of one server, shared by all companies."""

    def __init__(self, slot_count: int) -> None:
        self.slot_count = slot_count
        self._semaphore = threading.BoundedSemaphore(slot_count)
        ADMISSION_SLOTS.set(slot_count)

    def admit(self) -> None:
        """Take a slot for the call that this thread serves, without waiting; a call that has one keeps it.

        Call it after authentication, capability and scope. `runtime.handlers` gives the slot back; outside of a server,
        `release_slot` does.

        Raises:
            RetrievalBusy: None is free.
        """
        if _thread.held is self:
            return
        if not self._semaphore.acquire(blocking=False):
            raise RetrievalBusy("all retrieval slots are taken")
        _thread.held = self
        ADMISSION_SLOTS_TAKEN.inc()
        fault_point("admission.admitted")

    def give_back(self) -> None:
        """Return one slot to the pool. Only `release_slot` calls this."""
        self._semaphore.release()
        ADMISSION_SLOTS_TAKEN.dec()


def release_slot() -> None:
    """Give back the slot that the call of this thread holds, if it holds one."""
    pool, _thread.held = _thread.held, None
    if pool is not None:
        pool.give_back()


def releasing(serializer: Callable[[Any], bytes] | None) -> Callable[[Any], bytes] | None:
    """Wrap a response serializer so that the call's slot is given back once the answer is serialized."""
    if serializer is None:
        return None

    def serialize(response: Any) -> bytes:
        try:
            return serializer(response)
        finally:
            if _thread.held is not None:
                release_slot()

    return serialize

"""The workers that hash passwords: few, and nobody queues for them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from services.domain.errors import LoginBusy

WORKER_COUNT: Final = 2

T = TypeVar("T")


class PasswordWorkers:
    """Threads for password work, which so never takes more than `worker_count` cores (Argon2 leaves the interpreter).

    The worker belongs to the work, not to the call: it is free again when the work has ended.
    """

    def __init__(self, worker_count: int = WORKER_COUNT) -> None:
        self._free = threading.BoundedSemaphore(worker_count)
        self._pool = ThreadPoolExecutor(worker_count, thread_name_prefix="password")

    def run(self, work: Callable[[], T]) -> T:
        """Run work on a free worker and return what it returns, or raise what it raises.

        Raises:
            LoginBusy: No worker is free; the work was not begun.
        """
        if not self._free.acquire(blocking=False):
            raise LoginBusy("all password workers are taken")
        try:
            future = self._pool.submit(self._released, work)
        except BaseException:
            self._free.release()
            raise
        return future.result()

    def close(self) -> None:
        """End the threads once their work has ended."""
        self._pool.shutdown()

    def _released(self, work: Callable[[], T]) -> T:
        try:
            return work()
        finally:
            self._free.release()

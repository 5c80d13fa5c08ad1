"""SIGTERM and Ctrl-C as a wish to end when the work at hand is done."""

from __future__ import annotations

import os
import select
import signal
from types import FrameType


class DrainSignal:
    """Remembers that a signal came, and ends waits at once. A second Ctrl-C interrupts as usual.

    A pipe and no `threading.Event`: setting one in a signal handler can wait for ever for a lock of the same thread.
    """

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        self._is_set = False

    def install(self) -> None:
        """Handle SIGTERM and SIGINT from now on. Main thread only."""
        signal.signal(signal.SIGTERM, self._handle)
        signal.signal(signal.SIGINT, self._handle)

    def is_set(self) -> bool:
        """Tell whether to begin nothing new."""
        return self._is_set

    def set(self) -> None:
        """Wish for the end, as a signal does."""
        self._is_set = True
        os.write(self._writer, b"x")

    def wait(self, timeout_s: float) -> bool:
        """Wait so many seconds or until a signal comes, and return `is_set()`."""
        if not self._is_set:
            select.select([self._reader], [], [], timeout_s)
        return self._is_set

    def close(self) -> None:
        """Give the pipe back."""
        os.close(self._reader)
        os.close(self._writer)

    def _handle(self, signal_number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self.set()

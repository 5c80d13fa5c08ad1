"""Callers that begin a request and never say a word: what they hold must not be missed by others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Begin = Callable[[Iterator[Any]], Any]
"""Begins a call with an iterator of its requests, and returns the call."""


@contextmanager
def silent_streams(begin: Begin, count: int) -> Iterator[list[Any]]:
    """Begin so many calls that send nothing; they end with the block."""
    is_over = threading.Event()

    def silence() -> Iterator[Any]:
        is_over.wait()
        yield from ()

    calls = [begin(silence()) for _ in range(count)]
    try:
        yield calls
    finally:
        for call in calls:
            call.cancel()
        is_over.set()

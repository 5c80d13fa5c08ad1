"""When the engine is asked to drop what was overwritten, and in which pieces.

LevelDB merges by itself what is written; what was overwritten or removed long ago may stay in its deepest tables, where
nothing new arrives. A pass over everything, now and then while nobody writes, gives that room back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

SLICE_BYTES_MAX: Final = 4 * 1024 * 1024
"""A merge takes a slice with all tables that reach over its ends; it must stay below what the engine keeps free."""
ROUND_BYTES_MAX: Final = 64 * 1024 * 1024
"""What is merged in one go before others get their turn: about a second's work."""
_BOUND_BYTES: Final = 1 + 32 + 16
# Tags are ASCII letters.
_FIRST: Final = 0x40 << 8 * (_BOUND_BYTES - 1)
_END: Final = 0x80 << 8 * (_BOUND_BYTES - 1)


@dataclass(frozen=True, slots=True)
class CompactionSchedule:
    """When a pass is due.

    Attributes:
        interval_ms: Milliseconds between two passes; 0 for none ever.
        idle_ms: A pass waits until nothing was committed for so long, but not longer than a second interval.
    """

    interval_ms: int = 24 * 3600 * 1000
    idle_ms: int = 60_000

    def is_due(self, now_ms: int, *, last_pass_ms: int, last_commit_ms: int, has_commits: bool) -> bool:
        """Whether a pass should begin.

        Args:
            now_ms: The store's clock.
            last_pass_ms: When the last pass ended, or the store was opened.
            last_commit_ms: When the newest commit was seen first.
            has_commits: Anything was committed since the last pass.
        """
        waited_ms = now_ms - last_pass_ms
        if not self.interval_ms or not has_commits or waited_ms < self.interval_ms:
            return False
        return now_ms - last_commit_ms >= self.idle_ms or waited_ms >= 2 * self.interval_ms


class Slice(NamedTuple):
    """A range of keys, and about how many bytes lie in it."""

    start: bytes
    end: bytes
    stored_bytes: int


def plan_slices(stored_bytes: Callable[[bytes, bytes], int], slice_bytes_max: int = SLICE_BYTES_MAX) -> Iterator[Slice]:
    """Yield slices that together cover all keys of a store, in key order, each small enough to be done in a moment.

    What holds nothing is left out. Sizes are asked for when a slice is come to.

    Args:
        stored_bytes: How many bytes lie in [start, end).
        slice_bytes_max: Greatest size of a slice, unless its keys differ only behind their first 49 bytes.
    """
    waiting = [(_FIRST, _END)]
    while waiting:
        first, end = waiting.pop()
        start_key, end_key = _bound(first), _bound(end)
        size = stored_bytes(start_key, end_key)
        if not size:
            continue
        if size <= slice_bytes_max or end - first == 1:
            yield Slice(start_key, end_key, size)
            continue
        middle = (first + end) // 2
        waiting += [(middle, end), (first, middle)]


def _bound(number: int) -> bytes:
    return number.to_bytes(_BOUND_BYTES, "big")

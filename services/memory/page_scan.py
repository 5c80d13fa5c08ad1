"""One page of a walk over records that is bounded by results, by positions examined and by their bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from services.domain import limits
from services.workspace.partition import StoredRecord

StopReason = Literal["exhausted", "record_limit", "scan_limit", "byte_limit"]

P = TypeVar("P")
E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class ScannedPage(Generic[P, E]):
    """What a page holds and why it ends.

    Attributes:
        last: Last position examined, None when there was none.
        scanned_records: Positions examined.
        record_bytes: Stored bytes of all of them, at most 8 MiB.
    """

    stop_reason: StopReason
    last: P | None
    scanned_records: int
    record_bytes: int
    found: tuple[E, ...]

    @property
    def next_position(self) -> P | None:
        """Where to go on; None exactly when nothing is left."""
        return None if self.stop_reason == "exhausted" else self.last


def scan_page(
    positions: Iterable[tuple[P, StoredRecord]],
    accept: Callable[[P, StoredRecord], E | None],
    *,
    limit: int,
    scan_limit: int,
) -> ScannedPage[P, E]:
    """Examine positions in order until a bound is met or nothing is left.

    A page that ends exactly at a bound with nothing behind it is exhausted. The record that would pass 8 MiB is left
    for the next page.

    Args:
        positions: What to examine.
        accept: What the page holds of a position; None for nothing.
        limit: Greatest number of results.
        scan_limit: Greatest number of positions.
    """
    found: list[E] = []
    last: P | None = None
    scanned = record_bytes = 0

    def page(stop_reason: StopReason) -> ScannedPage[P, E]:
        return ScannedPage(stop_reason, last, scanned, record_bytes, tuple(found))

    for position, stored in positions:
        if len(found) == limit:
            return page("record_limit")
        if scanned == scan_limit:
            return page("scan_limit")
        if record_bytes + stored.size_bytes > limits.RECORD_BYTES_MAX:
            return page("byte_limit")
        scanned += 1
        record_bytes += stored.size_bytes
        last = position
        accepted = accept(position, stored)
        if accepted is not None:
            found.append(accepted)
    return page("exhausted")

"""How long the change log tells deletions, and forgetting those that are older.

A living key has one entry for ever, so the log grows with the partition only. A deleted key would leave an entry and a
note for ever, and what is made and deleted all the time, such as login sessions, would fill the disk with them. They
are needed by readers that follow a partition: such a reader comes back within the retention, or reads the partition
from the beginning, as it does anyway after the store was opened again. A reader that comes back too late is told so
(ChangesForgotten), never given less than what changed.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from services.storage.engine import EngineSnapshot, Operation
from services.storage.layout import (
    DATA_OFFSET,
    deletion_range,
    head_key,
    log_key,
    pack_head,
    unpack_deletion,
    unpack_head,
)

_SAMPLES_PER_RETENTION: Final = 24
_NOTES_MAX: Final = 1024


class SequenceHistory:
    """Which commit was the newest at which time, as far back as the retention needs it.

    Args:
        retention_ms: For how long deletions are told at least, in milliseconds.
    """

    def __init__(self, retention_ms: int) -> None:
        self._retention_ms = retention_ms
        self._samples: list[tuple[int, int]] = []

    def note(self, now_ms: int, sequence: int) -> None:
        """Record that this was the newest commit at this time. Kept at most 24 times in a retention."""
        spacing_ms = self._retention_ms // _SAMPLES_PER_RETENTION
        if not self._samples or now_ms - self._samples[-1][0] >= max(spacing_ms, 1):
            self._samples.append((now_ms, sequence))

    def forgettable(self, now_ms: int) -> int:
        """Return the newest commit that is certainly older than the retention, and drop samples before it."""
        old = [sample for sample in self._samples if sample[0] <= now_ms - self._retention_ms]
        if not old:
            return 0
        self._samples = self._samples[len(old) - 1 :]
        return old[-1][1]


class Forgetting(NamedTuple):
    """What to write to forget some deletions of a partition."""

    operations: list[Operation]
    forgotten_count: int
    next_start: bytes | None
    """Where to go on; None when all were looked at."""


def forget_deletions(snapshot: EngineSnapshot, partition: bytes, up_to: int, start: bytes | None = None) -> Forgetting:
    """Find deletions to forget among the next 1,024 notes of a partition.

    Args:
        snapshot: The present state.
        partition: 32 bytes.
        up_to: Deletions by this commit and earlier ones are forgotten.
        start: Where to begin; None for the beginning.

    Raises:
        StorageInconsistency: A note or the head contradicts its checksum.
        EngineError: The engine cannot read.
    """
    first, end = deletion_range(partition)
    rows, more = snapshot.scan(start or first, end, row_limit=_NOTES_MAX)
    operations: list[Operation] = []
    newest = 0
    for physical_key, stored in rows:
        sequence = unpack_deletion(physical_key, stored)
        if sequence <= up_to:
            operations += [(physical_key, None), (log_key(partition, sequence, physical_key[DATA_OFFSET:]), None)]
            newest = max(newest, sequence)
    count = len(operations) // 2
    if count:
        place = head_key(partition)
        head = unpack_head(place, snapshot.get(place))
        head = head._replace(deleted_count=head.deleted_count - count, forgotten=max(head.forgotten, newest))
        operations.append((place, pack_head(place, head)))
    return Forgetting(operations, count, rows[-1][0] + b"\x00" if more else None)

"""The scheduled work on an open store, a little at each call: forget old deletions, compact while nobody writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from services.domain.errors import StorageFull, StorageInconsistency
from services.runtime.logging import get_logger
from services.storage.compaction import ROUND_BYTES_MAX, CompactionSchedule, Slice, plan_slices
from services.storage.engine import EngineError, EngineSnapshot, Operation
from services.storage.errors import StorageUnavailable
from services.storage.layout import DATA_OFFSET, head_range, unpack_head
from services.storage.opening import Opening
from services.storage.retention import SequenceHistory, forget_deletions

_HEADS_PER_SCAN: Final = 4096
FORGET_PASSES_PER_RETENTION: Final = 24


@dataclass(frozen=True, slots=True)
class UpkeepOptions:
    """How a store is kept.

    Attributes:
        change_retention_ms: For how long the change log tells deletions at least, in milliseconds; 0 for ever.
        forget_count_min: Partitions that noted fewer deletions are left alone: what they hold is not worth a write.
        compaction: When compaction is due.
    """

    change_retention_ms: int = 24 * 3600 * 1000
    forget_count_min: int = 256
    compaction: CompactionSchedule = field(default_factory=CompactionSchedule)


class Upkeep:
    """The upkeep of one opening of a store. Called from one thread.

    Args:
        opening: The store.
        options: How it is kept.
        now_ms: The store's clock.
        note_damage: Told where damage was met; see `Quarantine.note`.
    """

    def __init__(
        self, opening: Opening, options: UpkeepOptions, now_ms: int, note_damage: Callable[[bytes | None], None]
    ) -> None:
        self._opening = opening
        self._options = options
        self._note_damage = note_damage
        self._history = SequenceHistory(options.change_retention_ms)
        self._last_forgetting_ms = now_ms
        self._last_pass_ms = now_ms
        self._compacted_sequence = self._seen_sequence = opening.committer.sequence
        self._last_commit_ms = now_ms
        self._slices: Iterator[Slice] | None = None

    def run(self, now_ms: int, *, has_room: Callable[[], bool], must_stop: Callable[[], bool]) -> None:
        """Do what is due now, for a second or so.

        Args:
            now_ms: The store's clock.
            has_room: Whether writes are accepted; without room nothing is begun.
            must_stop: Asked between steps.
        """
        sequence = self._opening.committer.sequence
        if sequence != self._seen_sequence:
            self._seen_sequence, self._last_commit_ms = sequence, now_ms
        if self._options.change_retention_ms:
            self._history.note(now_ms, sequence)
        if not has_room():
            return
        try:
            self._forget(now_ms, must_stop)
            self._compact(now_ms, lambda: must_stop() or not has_room())
        except (EngineError, StorageUnavailable, StorageFull) as error:
            # The store is being closed or opened again, or has become full: the next round goes on.
            get_logger().info("upkeep_interrupted", cause=str(error))

    def _forget(self, now_ms: int, must_stop: Callable[[], bool]) -> None:
        retention_ms = self._options.change_retention_ms
        if not retention_ms or now_ms - self._last_forgetting_ms < retention_ms // FORGET_PASSES_PER_RETENTION:
            return
        self._last_forgetting_ms = now_ms
        up_to = self._history.forgettable(now_ms)
        if not up_to:
            return
        forgotten = 0
        for partition in self._partitions_with_deletions():
            start: bytes | None = b""
            while start is not None and not must_stop():
                start, count = self._forget_some(partition, up_to, start)
                forgotten += count
        if forgotten:
            get_logger().info("deletions_forgotten", count=forgotten, up_to=up_to)

    def _forget_some(self, partition: bytes, up_to: int, start: bytes) -> tuple[bytes | None, int]:
        next_start: bytes | None = None
        count = 0

        def build(snapshot: EngineSnapshot) -> list[Operation]:
            nonlocal next_start, count
            found = forget_deletions(snapshot, partition, up_to, start or None)
            next_start, count = found.next_start, found.forgotten_count
            return found.operations

        try:
            self._opening.committer.run_chore(build)
        except StorageInconsistency as error:
            self._note_damage(error.partition)
            return None, 0
        return next_start, count

    def _partitions_with_deletions(self) -> list[bytes]:
        found = []
        start, end = head_range()
        more = True
        snapshot = self._opening.engine.snapshot()
        try:
            while more:
                rows, more = snapshot.scan(start, end, row_limit=_HEADS_PER_SCAN)
                for physical_key, stored in rows:
                    try:
                        if unpack_head(physical_key, stored).deleted_count >= self._options.forget_count_min:
                            found.append(physical_key[1:DATA_OFFSET])
                    except StorageInconsistency as error:
                        self._note_damage(error.partition)
                if more:
                    start = rows[-1][0] + b"\x00"
        finally:
            snapshot.close()
        return found

    def _compact(self, now_ms: int, must_stop: Callable[[], bool]) -> None:
        """Go on with a pass, or begin one that is due, for as long as others can wait."""
        if self._slices is None:
            if not self._options.compaction.is_due(
                now_ms,
                last_pass_ms=self._last_pass_ms,
                last_commit_ms=self._last_commit_ms,
                has_commits=self._seen_sequence != self._compacted_sequence,
            ):
                return
            get_logger().info("compaction_begun")
            self._compacted_sequence = self._seen_sequence
            self._slices = plan_slices(self._opening.engine.stored_bytes)
        merged_bytes = 0
        while merged_bytes < ROUND_BYTES_MAX and not must_stop():
            piece = next(self._slices, None)
            if piece is None:
                self._slices = None
                self._last_pass_ms = now_ms
                get_logger().info("compaction_done")
                return
            self._opening.engine.compact(piece.start, piece.end)
            merged_bytes += piece.stored_bytes

"""Deciding commits one after another against a snapshot and each other, and the engine operations that result.

The rules of the change log are in `layout`. Nothing here writes, waits or reads a clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from services.domain.errors import InvalidRequest
from services.storage.contract import Add, Commit, KeyRange, PartitionCommit, Put
from services.storage.engine import EngineSnapshot, Operation
from services.storage.errors import CommitConflict
from services.storage.layout import (
    DATA_OFFSET,
    PartitionHead,
    data_key,
    deletion_key,
    head_key,
    log_key,
    log_range,
    pack_deletion,
    pack_head,
    pack_log_entry,
    pack_value,
    unpack_deletion,
    unpack_head,
    unpack_log_entry,
    unpack_value,
)

_LOG_PAGE_ROWS: Final = 1024
_COUNTER_BYTES: Final = 8
_INT64_MAX: Final = (1 << 63) - 1


class _KeyState:
    """A key as the snapshot has it, and as the commits accepted so far leave it."""

    __slots__ = ("base_deletion", "base_version", "changed_at", "value")

    def __init__(self, base_version: int, base_deletion: int, value: bytes | None) -> None:
        self.base_version = base_version
        self.base_deletion = base_deletion
        self.value = value
        # Sequence of the last change in this batch; 0 when there is none.
        self.changed_at = 0

    @property
    def version(self) -> int:
        """The version that an expectation is compared with; 0 when absent."""
        if self.value is None:
            return 0
        return self.changed_at or self.base_version


class Batch:
    """Commits that are decided together and written at once.

    Args:
        snapshot: The present state of the engine; only this batch changes it until it is written.
        sequence: Sequence of the newest commit in the snapshot.
        clock_ms: The store's clock at which clock bounds are judged.
        incarnation: The present incarnation.
    """

    def __init__(self, snapshot: EngineSnapshot, *, sequence: int, clock_ms: int, incarnation: str) -> None:
        self._snapshot = snapshot
        self._clock_ms = clock_ms
        self._incarnation = incarnation
        self._base_sequence = sequence
        self._keys: dict[bytes, _KeyState] = {}
        self._heads: dict[bytes, PartitionHead] = {}
        self._changed: dict[bytes, dict[bytes, int]] = {}
        self.sequence = sequence
        """Sequence of the newest commit, those accepted in this batch included."""

    def decide(self, commit: Commit) -> int:
        """Accept one commit, so that later ones are decided against it, or refuse it without a trace.

        Returns:
            Its sequence; when it changes nothing, the sequence of the newest commit.

        Raises:
            CommitConflict: An expectation, the incarnation or the clock bound does not hold.
            InvalidRequest: A counter is not a counter or would overflow.
            StorageInconsistency: A stored value contradicts its checksum.
        """
        if commit.expected_incarnation and commit.expected_incarnation != self._incarnation:
            raise CommitConflict("the store was opened again since")
        if commit.clock_bound_ms is not None and self._clock_ms >= commit.clock_bound_ms:
            raise CommitConflict("the clock bound has passed")
        self._load(commit.partitions)
        for part in commit.partitions:
            self._check_keys(part)
            for key_range in part.expected_ranges:
                self._check_range(part.partition, key_range, commit.read_sequence)
        outcome: dict[bytes, bytes | None] = {}
        for part in commit.partitions:
            self._apply_writes(part, outcome)
        if not outcome:
            return self.sequence
        self.sequence += 1
        for physical_key, value in outcome.items():
            state = self._keys[physical_key]
            state.value = value
            state.changed_at = self.sequence
            partition, key = physical_key[1:DATA_OFFSET], physical_key[DATA_OFFSET:]
            self._changed.setdefault(partition, {})[key] = self.sequence
        return self.sequence

    def operations(self) -> list[Operation]:
        """Return what to write for all accepted commits, empty when they change nothing."""
        operations: list[Operation] = []
        for partition, changed in self._changed.items():
            head = self._heads[partition]
            counts = dict(head.counts)
            deleted_count = head.deleted_count
            for key in changed:
                physical_key = data_key(partition, key)
                state = self._keys[physical_key]
                was_alive, is_alive = state.base_version > 0, state.value is not None
                if is_alive != was_alive:
                    counts[key[0]] = counts.get(key[0], 0) + (1 if is_alive else -1)
                is_noted = not is_alive and (was_alive or state.base_deletion > 0)
                deleted_count += is_noted - (state.base_deletion > 0)
                operations += _key_operations(partition, key, physical_key, state)
            physical_key = head_key(partition)
            new_head = PartitionHead(max(changed.values()), deleted_count, counts, head.forgotten)
            operations.append((physical_key, pack_head(physical_key, new_head)))
        return operations

    def _load(self, parts: Iterable[PartitionCommit]) -> None:
        wanted: dict[bytes, bytes] = {}
        for part in parts:
            if part.partition not in self._heads:
                physical_key = head_key(part.partition)
                self._heads[part.partition] = unpack_head(physical_key, self._snapshot.get(physical_key))
            for item in (*part.expected_keys, *part.writes):
                physical_key = data_key(part.partition, item.key)
                if physical_key not in self._keys:
                    wanted[physical_key] = part.partition
        absent = []
        for physical_key, stored in zip(wanted, self._snapshot.get_many(list(wanted)), strict=True):
            if stored is None:
                self._keys[physical_key] = _KeyState(0, 0, None)
                if self._heads[wanted[physical_key]].deleted_count:
                    absent.append(physical_key)
            else:
                version, value = unpack_value(physical_key, stored)
                self._keys[physical_key] = _KeyState(version, 0, value)
        notes = [deletion_key(key[1:DATA_OFFSET], key[DATA_OFFSET:]) for key in absent]
        for physical_key, note, stored in zip(absent, notes, self._snapshot.get_many(notes), strict=True):
            if stored is not None:
                self._keys[physical_key].base_deletion = unpack_deletion(note, stored)

    def _check_keys(self, part: PartitionCommit) -> None:
        for key, version in part.expected_keys:
            if self._keys[data_key(part.partition, key)].version != version:
                raise CommitConflict("a key that was read has changed")

    def _check_range(self, partition: bytes, key_range: KeyRange, read_sequence: int) -> None:
        start, end = key_range.start, key_range.end
        if read_sequence > self._base_sequence:
            raise CommitConflict("the read sequence lies ahead of the store")
        # Nobody can have read what this batch changes, so each such change lies after the read sequence.
        if any(start <= key and (not end or key < end) for key in self._changed.get(partition, ())):
            raise CommitConflict("a range that was read has changed")
        head = self._heads[partition]
        if head.sequence <= read_sequence:
            return
        if read_sequence < head.forgotten:
            raise CommitConflict("the change log no longer tells what happened since the range was read")
        log_start, log_end = log_range(partition, read_sequence)
        more = True
        while more:
            rows, more = self._snapshot.scan(log_start, log_end, row_limit=_LOG_PAGE_ROWS)
            for physical_key, stored in rows:
                _, key, _ = unpack_log_entry(physical_key, stored)
                if start <= key and (not end or key < end):
                    raise CommitConflict("a range that was read has changed")
            if more:
                log_start = rows[-1][0] + b"\x00"

    def _apply_writes(self, part: PartitionCommit, outcome: dict[bytes, bytes | None]) -> None:
        for write in part.writes:
            physical_key = data_key(part.partition, write.key)
            if isinstance(write, Put):
                outcome[physical_key] = write.value
                continue
            present = outcome[physical_key] if physical_key in outcome else self._keys[physical_key].value
            if isinstance(write, Add):
                outcome[physical_key] = _added(present, write.amount)
            elif self._keys[physical_key].value is None:
                # Deleting what only this commit made, or what is not there, leaves nothing to write.
                outcome.pop(physical_key, None)
            else:
                outcome[physical_key] = None


def _added(stored: bytes | None, amount: int) -> bytes:
    if stored is not None and len(stored) != _COUNTER_BYTES:
        raise InvalidRequest("the key does not hold a counter", member="partitions.writes.add")
    total = amount + (0 if stored is None else int.from_bytes(stored, "big", signed=True))
    if not -_INT64_MAX - 1 <= total <= _INT64_MAX:
        raise InvalidRequest("the counter would overflow", member="partitions.writes.add")
    return total.to_bytes(_COUNTER_BYTES, "big", signed=True)


def _key_operations(partition: bytes, key: bytes, physical_key: bytes, state: _KeyState) -> Iterable[Operation]:
    former = state.base_version or state.base_deletion
    if former:
        yield log_key(partition, former, key), None
    if state.value is not None:
        yield physical_key, pack_value(physical_key, state.changed_at, state.value)
        if state.base_deletion:
            yield deletion_key(partition, key), None
    elif former:
        if state.base_version:
            yield physical_key, None
        note = deletion_key(partition, key)
        yield note, pack_deletion(note, state.changed_at)
    else:
        # Made and deleted inside this batch: nobody can have seen it.
        return
    entry = log_key(partition, state.changed_at, key)
    yield entry, pack_log_entry(entry, deleted=state.value is None)

"""Checking a whole store: every checksum, every count, and that the change log tells exactly what is there.

`StoreCheck` holds the rules and takes rows from wherever they come: a snapshot, an export, a backup.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Final, NamedTuple

from services.domain.errors import StorageInconsistency
from services.storage.engine import EngineCorrupt, EngineSnapshot
from services.storage.layout import (
    DATA_OFFSET,
    LOG_KEY_OFFSET,
    META_KEY,
    data_key,
    deletion_key,
    head_key,
    log_key,
    unpack_deletion,
    unpack_head,
    unpack_log_entry,
    unpack_meta,
    unpack_value,
)
from services.storage.store_rows import UnreadablePart, find_partitions, iterate_partition, iterate_rest, partition_of

_PAGE_BYTES: Final = 4 * 1024 * 1024
# One damaged block can spoil thousands of keys; the first ones say enough.
_NAMED_KEYS_MAX: Final = 100
_DATA_TAG: Final = data_key(b"", b"")
_DELETION_TAG: Final = deletion_key(b"", b"")
_LOG_TAG: Final = log_key(b"", 0, b"")[:1]


class Problem(NamedTuple):
    """Something that does not hold."""

    partition: bytes | None
    """Where; None for the store as a whole."""
    key: bytes | None
    """The key at fault, without its partition; None when it is not a single one's."""
    text: str
    """What is wrong, without stored content."""


class Verification(NamedTuple):
    """What a check of a whole store found."""

    partition_count: int
    key_count: int
    """Living keys of the partitions without problems."""
    problems: list[str]
    """A sentence for each, without stored content; empty when all is well."""


ValueSink = Callable[[bytes, bytes, bytes], None]
"""Told (partition, key, value) of every living key that its checksum vouches for."""
PartitionSink = Callable[[bytes], None]
"""Told that all rows of a partition have been taken."""


class StoreCheck:
    """Takes the rows of a store, those of one partition together, and judges them.

    Memory: about 300 bytes for each key of the partition that is being taken.

    Args:
        sequence: Sequence of the newest commit.
        on_value: Told of each value.
        on_partition: Told of each end of a partition.

    Attributes:
        problems: What was found so far.
        partition_count: Partitions judged.
        key_count: Living keys of those without problems.
        value_count: All values taken so far.
    """

    def __init__(
        self, sequence: int, *, on_value: ValueSink | None = None, on_partition: PartitionSink | None = None
    ) -> None:
        self.problems: list[Problem] = []
        self.partition_count = 0
        self.key_count = 0
        self.value_count = 0
        self._sequence = sequence
        self._on_value = on_value
        self._on_partition = on_partition
        self._current: _PartitionRows | None = None

    def take(self, physical_key: bytes, stored: bytes) -> None:
        """Take one row."""
        partition = partition_of(physical_key)
        if partition is None:
            self._take_foreign(physical_key, stored)
            return
        current = self._rows_of(partition)
        try:
            value = current.take(physical_key, stored)
        except StorageInconsistency as error:
            current.has_damage = True
            self.problems.append(Problem(partition, _logical_key(physical_key), str(error)))
            return
        if value is not None:
            self.value_count += 1
            if self._on_value is not None:
                self._on_value(partition, physical_key[DATA_OFFSET:], value)

    def miss(self, part: UnreadablePart) -> None:
        """Note that a part of the store cannot be read at all."""
        if part.partition is not None:
            self._rows_of(part.partition).has_damage = True
        self.problems.append(Problem(part.partition, None, part.text))

    def finish(self) -> list[Problem]:
        """Judge the last partition and return all problems."""
        self._end_partition()
        return self.problems

    def _rows_of(self, partition: bytes) -> _PartitionRows:
        current = self._current
        if current is None or current.partition != partition:
            self._end_partition()
            current = self._current = _PartitionRows(partition)
        return current

    def _take_foreign(self, physical_key: bytes, stored: bytes) -> None:
        if physical_key != META_KEY:
            self.problems.append(Problem(None, None, "a row is there that this version does not write"))
            return
        try:
            if unpack_meta(stored).sequence != self._sequence:
                self.problems.append(Problem(None, None, "the store's own entry names another commit as the newest"))
        except StorageInconsistency as error:
            self.problems.append(Problem(None, None, str(error)))

    def _end_partition(self) -> None:
        current, self._current = self._current, None
        if current is None:
            return
        found = [] if current.has_damage else list(current.judge(self._sequence))
        self.problems += [Problem(current.partition, key, text) for key, text in found]
        self.partition_count += 1
        if not found and not current.has_damage:
            self.key_count += len(current.living)
        if self._on_partition is not None:
            self._on_partition(current.partition)


class _PartitionRows:
    """What the rows of one partition say, without the values."""

    def __init__(self, partition: bytes) -> None:
        self.partition = partition
        self.has_damage = False
        self.living: dict[bytes, int] = {}
        self._head_key = head_key(partition)
        self._head_stored: bytes | None = None
        self._deleted: dict[bytes, int] = {}
        self._logged_living: dict[bytes, int] = {}
        self._logged_deleted: dict[bytes, int] = {}
        self._entry_count = 0

    def take(self, physical_key: bytes, stored: bytes) -> bytes | None:
        """Take one row and return its value when it is a living key's. Raises StorageInconsistency."""
        tag = physical_key[:1]
        if tag == _DATA_TAG:
            self.living[physical_key[DATA_OFFSET:]], value = unpack_value(physical_key, stored)
            return value
        if tag == _LOG_TAG:
            sequence, key, is_deleted = unpack_log_entry(physical_key, stored)
            self._entry_count += 1
            (self._logged_deleted if is_deleted else self._logged_living)[key] = sequence
        elif tag == _DELETION_TAG:
            self._deleted[physical_key[DATA_OFFSET:]] = unpack_deletion(physical_key, stored)
        elif physical_key == self._head_key:
            unpack_head(physical_key, stored)
            self._head_stored = stored
        else:
            raise StorageInconsistency("a row is there that this version does not write")
        return None

    def judge(self, newest: int) -> Iterator[tuple[bytes | None, str]]:
        """Yield (key at fault, what is wrong) once all rows were taken."""
        head = unpack_head(self._head_key, self._head_stored)
        living, deleted = self.living, self._deleted
        yield from self._judge_log()
        if Counter(key[0] for key in living) != head.counts or len(deleted) != head.deleted_count:
            yield None, "the counts in its head are not those of its keys"
        if not max((*living.values(), *deleted.values()), default=0) <= head.sequence <= newest:
            yield None, "its head is not at its last change"

    def _judge_log(self) -> Iterator[tuple[bytes | None, str]]:
        wrong = (self.living.items() ^ self._logged_living.items()) | (
            self._deleted.items() ^ self._logged_deleted.items()
        )
        named = sorted({key for key, _ in wrong})
        for key in named[:_NAMED_KEYS_MAX]:
            yield key, "the change log does not tell what is there"
        if len(named) > _NAMED_KEYS_MAX:
            yield None, f"the change log does not tell what is there under {len(named)} keys"
        if not named and self._entry_count != len(self.living) + len(self._deleted):
            yield None, "the change log has more than one entry for a key"


def verify_snapshot(snapshot: EngineSnapshot) -> Verification:
    """Check everything that a store holds. Reports and never repairs.

    Args:
        snapshot: The state to check.

    Raises:
        EngineError: The engine cannot read, for another cause than damage.
    """
    try:
        check = StoreCheck(unpack_meta(snapshot.get(META_KEY) or b"").sequence)
    except (StorageInconsistency, EngineCorrupt) as error:
        return Verification(0, 0, [f"the store: {error}"])
    partitions, unreadable = find_partitions(snapshot)
    for part in unreadable:
        check.miss(part)
    walks = (iterate_partition(snapshot, partition, page_bytes=_PAGE_BYTES) for partition in partitions)
    for page in chain(iterate_rest(snapshot, page_bytes=_PAGE_BYTES), chain.from_iterable(walks)):
        for part in page.unreadable:
            check.miss(part)
        for row in page.rows:
            check.take(*row)
    found = [
        f"the store: {text}" if partition is None else f"partition {partition.hex()}: {text}"
        for partition, _, text in check.finish()
    ]
    return Verification(check.partition_count, check.key_count, found)


def _logical_key(physical_key: bytes) -> bytes | None:
    """The key that a row of a partition is about; None for the head."""
    start = LOG_KEY_OFFSET if physical_key[:1] == _LOG_TAG else DATA_OFFSET
    return physical_key[start:] or None

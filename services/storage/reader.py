"""Reading one snapshot of a store step by step: what was read is remembered, what is missing is fetched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from services.storage.contract import (
    PARTITION_READS_MAX,
    KeyRange,
    PartitionRead,
    RangeRows,
    ReadResult,
    Row,
    Store,
    VersionedValue,
)

Prefetch = Mapping[bytes, Sequence[bytes]]
"""Keys to read, by partition."""


class MissingPrefetch(BaseException):
    """A key outside of the prefetch was asked for and there is no pinned snapshot to read it from.

    Not an Exception, so that no function between the read and the transaction loop takes it for a failure.
    """

    def __init__(self, partition: bytes, keys: Sequence[bytes]) -> None:
        super().__init__(partition, keys)
        self.partition = partition
        self.keys = keys


class ScannedRange(NamedTuple):
    """The rows of a range, and the part of it that had to be read to find them."""

    rows: list[Row]
    covered: KeyRange


class SnapshotReader:
    """Reads at one snapshot.

    Args:
        store: Where to read.
        prefetch: Keys that are read at once, in the round trip that takes the snapshot.
        pin: Keep the snapshot for further rounds; whoever made the reader lets it go with `release`. Without it only
            prefetched keys can be read.

    Raises:
        StorageUnavailable, TooManySnapshots, StorageInconsistency, InvalidRequest: See `Store.read`.
    """

    def __init__(self, store: Store, prefetch: Prefetch, *, pin: bool) -> None:
        self._store = store
        self._known: dict[tuple[bytes, bytes], VersionedValue] = {}
        self._heads: dict[bytes, int] = {}
        self._ranges_ahead: dict[tuple[bytes, KeyRange], RangeRows] = {}
        first = self._fetch([PartitionRead(partition, tuple(keys)) for partition, keys in prefetch.items()], pin=pin)
        self.clock_ms = first.clock_ms
        """The store's clock at the snapshot, milliseconds since the Unix epoch."""
        self.incarnation = first.incarnation
        """UUID of the opening of the store that the snapshot belongs to."""
        self.sequence = first.sequence
        """Sequence of the newest commit in the snapshot."""
        self.snapshot_id = first.snapshot_id
        """Id of the pinned snapshot; empty when none is."""

    def get(self, partition: bytes, key: bytes) -> bytes | None:
        """Return the value of a key, or None when it is absent."""
        return self.versions(partition, (key,))[0].value

    def get_many(self, partition: bytes, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of keys in the same order, None for each absent one, in at most one round trip."""
        return [found.value for found in self.versions(partition, keys)]

    def head(self, partition: bytes) -> int:
        """Return the sequence of the last commit that changed a partition; 0 for none. Never an expectation."""
        if partition not in self._heads:
            self._require_pin(partition, ())
            self._fetch([PartitionRead(partition)])
        return self._heads[partition]

    def version(self, partition: bytes, key: bytes) -> VersionedValue:
        """Return the value of a key with its version."""
        known = self._known.get((partition, key))
        return self.versions(partition, (key,))[0] if known is None else known

    def versions(self, partition: bytes, keys: Sequence[bytes]) -> list[VersionedValue]:
        """Return the values of keys with their versions, in the same order."""
        missing = [key for key in keys if (partition, key) not in self._known]
        if missing:
            self._require_pin(partition, missing)
            self._fetch([PartitionRead(partition, tuple(missing))])
        return [self._known[partition, key] for key in keys]

    def load(self, wanted: Prefetch) -> None:
        """Read keys of several partitions ahead, in one round trip for every 64 partitions."""
        reads = []
        for partition, keys in wanted.items():
            missing = tuple(key for key in keys if (partition, key) not in self._known)
            if missing:
                self._require_pin(partition, missing)
                reads.append(PartitionRead(partition, missing))
        for first in range(0, len(reads), PARTITION_READS_MAX):
            self._fetch(reads[first : first + PARTITION_READS_MAX])

    def load_ranges(self, wanted: Mapping[bytes, KeyRange]) -> None:
        """Read a range of each of several partitions ahead, in one round trip for every 64; a scan of it finds them."""
        reads = [PartitionRead(partition, (), (wanted_range,)) for partition, wanted_range in wanted.items()]
        for first in range(0, len(reads), PARTITION_READS_MAX):
            chunk = reads[first : first + PARTITION_READS_MAX]
            self._require_pin(chunk[0].partition, ())
            for read, state in zip(chunk, self._fetch(chunk).partitions, strict=True):
                self._ranges_ahead[read.partition, read.ranges[0]] = state.ranges[0]

    def scan(
        self, partition: bytes, start: bytes, end: bytes = b"", *, limit: int = 0, reverse: bool = False
    ) -> list[tuple[bytes, bytes]]:
        """Return the rows of [start, end) in key order or its reverse, at most `limit`; an empty end means no end."""
        scanned = self.scan_range(partition, KeyRange(start, end, row_limit=limit, reverse=reverse))
        return [(row.key, row.value) for row in scanned.rows]

    def scan_range(self, partition: bytes, wanted: KeyRange) -> ScannedRange:
        """Return the rows of a range, in as many rounds as its bytes need, and what was covered to find them."""
        self._require_pin(partition, ())
        rows: list[Row] = []
        remaining = wanted
        while True:
            ahead = self._ranges_ahead.pop((partition, remaining), None)
            answer = ahead or self._fetch([PartitionRead(partition, (), (remaining,))]).partitions[0].ranges[0]
            rows += answer.rows
            is_full = wanted.row_limit and len(rows) >= wanted.row_limit
            if not answer.more or is_full:
                break
            left = wanted.row_limit - len(rows) if wanted.row_limit else 0
            last_key = rows[-1].key
            remaining = (
                KeyRange(wanted.start, last_key, row_limit=left, reverse=True)
                if wanted.reverse
                else KeyRange(last_key + b"\x00", wanted.end, row_limit=left)
            )
        self._known.update({(partition, row.key): VersionedValue(row.value, row.version) for row in rows})
        if not answer.more:
            covered = KeyRange(wanted.start, wanted.end)
        elif wanted.reverse:
            covered = KeyRange(rows[-1].key, wanted.end)
        else:
            covered = KeyRange(wanted.start, rows[-1].key + b"\x00")
        return ScannedRange(rows, covered)

    def release(self) -> None:
        """Let the pinned snapshot go, if there is one. Safe to repeat."""
        if self.snapshot_id:
            self._store.close_snapshot(self.snapshot_id)
            self.snapshot_id = ""

    def _require_pin(self, partition: bytes, keys: Sequence[bytes]) -> None:
        if not self.snapshot_id:
            raise MissingPrefetch(partition, keys)

    def _fetch(self, reads: list[PartitionRead], *, pin: bool = False) -> ReadResult:
        snapshot_id = "" if pin else getattr(self, "snapshot_id", "")
        result = self._store.read(reads, snapshot_id=snapshot_id, pin=pin)
        for read, state in zip(reads, result.partitions, strict=True):
            self._heads[read.partition] = state.head
            for key, found in zip(read.keys, state.values, strict=True):
                self._known[read.partition, key] = found
        return result


@contextmanager
def read_snapshot(store: Store, prefetch: Prefetch | None = None) -> Iterator[SnapshotReader]:
    """Read a pinned snapshot in several rounds; it is let go at the end.

    Args:
        store: Where to read.
        prefetch: Keys to read in the round trip that pins the snapshot.

    Raises:
        SnapshotExpired: The block took longer than the snapshot lives, or the store was opened again.
    """
    reader = SnapshotReader(store, prefetch or {}, pin=True)
    try:
        yield reader
    finally:
        reader.release()

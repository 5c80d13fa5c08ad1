"""What the storage operations take and return, and the `Store` interface that offers them.

The same values travel whether the store is in this process (`core.LocalStore`) or behind a socket (`client.GrpcStore`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

PARTITION_READS_MAX: Final = 64
KEYS_MAX: Final = 4096
PARTITION_COMMITS_MAX: Final = 8
RANGE_BYTES_DEFAULT: Final = 4 * 1024 * 1024
PAGE_BYTES_DEFAULT: Final = 1024 * 1024
PAGE_BYTES_MAX: Final = 8 * 1024 * 1024
READ_BYTES_MAX: Final = 48 * 1024 * 1024
"""Greatest sum of value bytes in one answer of `read`."""
COMMIT_BYTES_MAX: Final = 48 * 1024 * 1024
"""Greatest sum of value bytes in one commit."""
SNAPSHOT_TTL_MS_DEFAULT: Final = 60_000
SNAPSHOT_TTL_MS_MAX: Final = 600_000


@dataclass(frozen=True, slots=True)
class KeyRange:
    """A range of keys of one partition in byte order: from `start` inclusive to `end` exclusive, empty for no end.

    Attributes:
        row_limit: Greatest number of rows; 0 for no limit.
        byte_limit: Stop after the row that brings the sum of value bytes, with 16 more for each row, to this or more; 0
            for 4 MiB.
        reverse: Walk from the end to the start.
        keys_only: Leave the values out.
    """

    start: bytes
    end: bytes = b""
    row_limit: int = 0
    byte_limit: int = 0
    reverse: bool = False
    keys_only: bool = False


@dataclass(frozen=True, slots=True)
class PartitionRead:
    """Keys to get and ranges to scan in one partition (32 bytes)."""

    partition: bytes
    keys: Sequence[bytes] = ()
    ranges: Sequence[KeyRange] = ()


class VersionedValue(NamedTuple):
    """A value with the sequence of the commit that wrote it; None and 0 for an absent key."""

    value: bytes | None
    version: int


class Row(NamedTuple):
    """One key with its value and version. `deleted` only comes from `changed_since`; the value is then empty."""

    key: bytes
    value: bytes
    version: int
    deleted: bool = False


class RangeRows(NamedTuple):
    """The rows of a range; `more` when a limit ended the walk and at least one more row exists."""

    rows: list[Row]
    more: bool


class PartitionState(NamedTuple):
    """What one partition held: head sequence, then one answer for each key and each range, in request order."""

    head: int
    values: list[VersionedValue]
    ranges: list[RangeRows]


class ReadResult(NamedTuple):
    """The answer of `read`, all in one snapshot."""

    partitions: list[PartitionState]
    """One for each requested partition, in request order."""
    sequence: int
    """Sequence of the newest commit in the snapshot."""
    clock_ms: int
    """The store's clock, milliseconds since the Unix epoch; never goes backwards."""
    incarnation: str
    """UUID of this opening of the store."""
    snapshot_id: str
    """Id of the snapshot when it is pinned, else empty."""


class KeyExpectation(NamedTuple):
    """A key and the version that it must still have; 0 for absent."""

    key: bytes
    version: int


class Put(NamedTuple):
    """Set the value of a key."""

    key: bytes
    value: bytes


class Delete(NamedTuple):
    """Remove a key; absent is fine."""

    key: bytes


class Add(NamedTuple):
    """Add to a counter: a signed 64-bit big-endian integer that is 0 when absent. Two adders do not conflict."""

    key: bytes
    amount: int


Write = Put | Delete | Add


@dataclass(frozen=True, slots=True)
class PartitionCommit:
    """Expectations and writes of one partition (32 bytes). Writes are applied in order."""

    partition: bytes
    expected_keys: Sequence[KeyExpectation] = ()
    expected_ranges: Sequence[KeyRange] = ()
    writes: Sequence[Write] = ()


@dataclass(frozen=True, slots=True)
class Commit:
    """A transaction to decide.

    Attributes:
        partitions: What to check and write.
        read_sequence: Sequence of the snapshot that was read; nothing may have changed since in the expected ranges.
        expected_incarnation: When not empty: must be the present incarnation.
        clock_bound_ms: When set: refused if the store's clock has reached it when the batch is taken.
        release_snapshot_id: A pinned snapshot to let go, whatever the outcome.
    """

    partitions: Sequence[PartitionCommit]
    read_sequence: int = 0
    expected_incarnation: str = ""
    clock_bound_ms: int | None = None
    release_snapshot_id: str = ""


class ChangePage(NamedTuple):
    """One page of `changed_since`."""

    rows: list[Row]
    head: int
    """Head of the partition in the snapshot, the same on every page."""
    incarnation: str
    counts: dict[int, int]
    """On the last page of a full read: number of living keys by first byte, as the store's running count has it."""
    last: bool


class PinnedSnapshot(NamedTuple):
    """A snapshot that stays readable until it is closed or its time is over."""

    snapshot_id: str
    sequence: int


class StoreStatus(NamedTuple):
    """What `status` reports; see the message of that name."""

    engine: str
    incarnation: str
    sequence: int
    clock_ms: int
    store_id: str
    format_version: int
    disk_free_bytes: int
    writable: bool
    open_snapshots: int
    disk_reserve_bytes: int
    damaged_partitions: int


class Store(Protocol):
    """The storage operations.

    Every operation raises InvalidRequest for a request out of bounds, StorageInconsistency when a stored value
    contradicts its checksum, and StorageUnavailable while the store cannot serve. Once that was met in a partition,
    `commit` raises StorageInconsistency for every write to it.
    """

    def read(self, partitions: Sequence[PartitionRead], *, snapshot_id: str = "", pin: bool = False) -> ReadResult:
        """Answer gets and scans in one snapshot: a fresh one, or the pinned one that `snapshot_id` names.

        Args:
            partitions: What to read, at most 64.
            snapshot_id: A pinned snapshot; empty for a fresh one.
            pin: Keep the fresh snapshot and return its id.

        Raises:
            SnapshotExpired: `snapshot_id` is not open.
            TooManySnapshots: Nothing more can be pinned.
        """
        ...

    def commit(self, commit: Commit) -> int:
        """Apply writes if every expectation holds, atomically and durably.

        Returns:
            The sequence of the commit: the version of every key it wrote. When it changed nothing, the sequence of
            the newest commit.

        Raises:
            CommitConflict: Something did not hold; nothing was written.
            StorageFull: The free-space guard refuses the write; nothing was written.
            StorageInconsistency: Damage was met where the commit would write; nothing was written.
            StorageUnavailable: The outcome is unknown; rerun the whole transaction.
        """
        ...

    def changed_since(
        self,
        partition: bytes,
        after: int,
        *,
        key_prefixes: Sequence[bytes] = (),
        page_bytes: int = 0,
        expected_incarnation: str = "",
    ) -> Iterator[ChangePage]:
        """Yield every key that changed after a sequence, with its present value or its deletion, in one snapshot.

        Args:
            partition: 32 bytes.
            after: Only changes after this sequence; 0 for every living key.
            key_prefixes: Only keys that start with one of these; empty for all.
            page_bytes: Target size of a page; 0 for 1 MiB.
            expected_incarnation: When not empty: must be the present incarnation.

        Yields:
            At least one page, the last marked so. Rows come in key order when `after` is 0, else by last change.

        Raises:
            CommitConflict: Another incarnation, or `after` lies ahead of the partition's head.
            ChangesForgotten: `after` lies so far back that deletions since may be forgotten; read from 0.
        """
        ...

    def open_snapshot(self, ttl_ms: int = 0) -> PinnedSnapshot:
        """Pin a snapshot for 1 to 600,000 ms; 0 for 60,000. Raises TooManySnapshots."""
        ...

    def close_snapshot(self, snapshot_id: str) -> None:
        """Let a pinned snapshot go. Unknown and expired ids are accepted."""
        ...

    def status(self) -> StoreStatus:
        """Report engine, incarnation, head, clock and disk."""
        ...

    def close(self) -> None:
        """Let go of the store, or of the connection to it. Safe to repeat."""
        ...

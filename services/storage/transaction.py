"""Optimistic transactions: a function over one snapshot, rerun until its commit holds.

    def rename(transaction: Transaction) -> str:
        stored = transaction.get(partition, key)
        transaction.put(partition, key, new_value)
        return receipt

    receipt = run_transaction(store, rename, prefetch={partition: [key]})

The function may run many times: it has no effects outside, and what must be the same on every run (identifiers above
all) is made before. A commit whose answer was lost is rerun too; the function then finds what it wrote, its receipt,
and stops. Everything that was read, absent keys and empty ranges included, must still hold when the commit is decided,
which makes transactions serializable. Writes to keys that were not read conflict with nobody.

The usual transaction costs one Read and one Commit: the first run reads all of `prefetch` at an unpinned snapshot. When
it asks for more, it is run again on a pinned one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from services.domain.errors import StorageFull
from services.runtime.call_context import remaining_s
from services.runtime.invariant import invariant
from services.storage.backoff import Backoff
from services.storage.contract import (
    Add,
    Commit,
    Delete,
    KeyExpectation,
    KeyRange,
    PartitionCommit,
    Put,
    Store,
    Write,
)
from services.storage.errors import (
    CommitConflict,
    OutcomeUnknown,
    SnapshotExpired,
    StorageUnavailable,
    TooManySnapshots,
    TransactionContention,
)
from services.storage.reader import MissingPrefetch, Prefetch, SnapshotReader, read_snapshot

__all__ = ["SnapshotReader", "Transaction", "read_snapshot", "run_transaction"]

T = TypeVar("T")

ATTEMPTS_DEFAULT: Final = 8
RETRY_LIMIT_S: Final = 15.0
"""How long a transaction rides out a storage that cannot be reached, for instance while it restarts."""
_COUNTER_BYTES: Final = 8


class Transaction:
    """One run of a transaction's function: reads at a snapshot, writes that wait for the commit.

    Attributes:
        clock_ms: The store's clock at the snapshot, milliseconds since the Unix epoch.
        incarnation: UUID of the present opening of the store.
    """

    def __init__(self, reader: SnapshotReader) -> None:
        self._reader = reader
        self.clock_ms = reader.clock_ms
        self.incarnation = reader.incarnation
        self._expected_keys: dict[tuple[bytes, bytes], int] = {}
        self._expected_ranges: dict[bytes, list[KeyRange]] = {}
        self._writes: dict[bytes, dict[bytes, Write]] = {}
        self._clock_bound_ms: int | None = None
        self._expected_incarnation = ""

    def get(self, partition: bytes, key: bytes) -> bytes | None:
        """Return the value of a key, this transaction's own writes included; None when it is absent."""
        write = self._writes.get(partition, {}).get(key)
        if isinstance(write, Put | Delete):
            return _value_after(write, None)
        found = self._reader.version(partition, key)
        self._expected_keys[partition, key] = found.version
        return _value_after(write, found.value)

    def get_many(self, partition: bytes, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of keys in the same order, as `get` does, in at most one round trip."""
        writes = self._writes.get(partition, {})
        stored_keys = [key for key in keys if not isinstance(writes.get(key), Put | Delete)]
        stored: dict[bytes, bytes | None] = {}
        for key, found in zip(stored_keys, self._reader.versions(partition, stored_keys), strict=True):
            self._expected_keys[partition, key] = found.version
            stored[key] = found.value
        return [_value_after(writes.get(key), stored.get(key)) for key in keys]

    def load(self, wanted: Prefetch) -> None:
        """Read keys of several partitions ahead, in as few round trips as possible; later gets find them."""
        self._reader.load(wanted)

    def load_ranges(self, wanted: Mapping[bytes, KeyRange]) -> None:
        """Read the beginnings of several partitions' ranges ahead, likewise; a scan with the same bounds finds them."""
        self._reader.load_ranges(wanted)

    def scan(
        self, partition: bytes, start: bytes, end: bytes = b"", *, limit: int = 0, reverse: bool = False
    ) -> list[tuple[bytes, bytes]]:
        """Return the rows of [start, end), this transaction's own writes included.

        Args:
            partition: 32 bytes.
            start: First key, inclusive.
            end: End, exclusive; empty for the end of the partition.
            limit: Greatest number of rows; 0 for all.
            reverse: From the end to the start.
        """
        own = {
            key: write
            for key, write in self._writes.get(partition, {}).items()
            if start <= key and (not end or key < end)
        }
        # Own deletions can take away that many of the stored rows.
        row_limit = limit + len(own) if limit else 0
        scanned = self._reader.scan_range(partition, KeyRange(start, end, row_limit=row_limit, reverse=reverse))
        self._expected_ranges.setdefault(partition, []).append(scanned.covered)
        rows: dict[bytes, bytes | None] = {row.key: row.value for row in scanned.rows}
        for key, write in own.items():
            rows[key] = _value_after(write, rows.get(key))
        living = [(key, value) for key, value in sorted(rows.items(), reverse=reverse) if value is not None]
        return living[:limit] if limit else living

    def head(self, partition: bytes) -> int:
        """Return the sequence of the last commit that changed a partition; 0 for none.

        A hint only: it does not become an expectation, else everybody who writes to the partition would conflict.
        """
        return self._reader.head(partition)

    def put(self, partition: bytes, key: bytes, value: bytes) -> None:
        """Set the value of a key."""
        self._writes.setdefault(partition, {})[key] = Put(key, value)

    def delete(self, partition: bytes, key: bytes) -> None:
        """Remove a key; absent is fine."""
        self._writes.setdefault(partition, {})[key] = Delete(key)

    def add(self, partition: bytes, key: bytes, amount: int) -> None:
        """Add to a counter, a signed 64-bit big-endian integer that is 0 when absent. Two adders do not conflict."""
        writes = self._writes.setdefault(partition, {})
        former = writes.get(key)
        if former is None:
            writes[key] = Add(key, amount)
        elif isinstance(former, Add):
            writes[key] = Add(key, former.amount + amount)
        else:
            writes[key] = Put(key, _added(former.value if isinstance(former, Put) else None, amount))

    def bound_clock(self, bound_ms: int) -> None:
        """Let the commit hold only while the store's clock is below this time, in milliseconds; the lowest counts."""
        former = self._clock_bound_ms
        self._clock_bound_ms = bound_ms if former is None else min(former, bound_ms)

    def require_incarnation(self, incarnation: str) -> None:
        """Let the commit hold only under this incarnation. When it does not, the function runs again and can look."""
        invariant(self._expected_incarnation in ("", incarnation), "a transaction requires two incarnations")
        self._expected_incarnation = incarnation

    def pending_commit(self) -> Commit | None:
        """Return what to commit, None when nothing is to be written."""
        if not any(self._writes.values()):
            return None
        expected: dict[bytes, list[KeyExpectation]] = {}
        for (partition, key), version in self._expected_keys.items():
            expected.setdefault(partition, []).append(KeyExpectation(key, version))
        partitions = dict.fromkeys((*expected, *self._expected_ranges, *self._writes))
        return Commit(
            [
                PartitionCommit(
                    partition,
                    expected.get(partition, ()),
                    self._expected_ranges.get(partition, ()),
                    list(self._writes.get(partition, {}).values()),
                )
                for partition in partitions
            ],
            read_sequence=self._reader.sequence,
            expected_incarnation=self._expected_incarnation,
            clock_bound_ms=self._clock_bound_ms,
            release_snapshot_id=self._reader.snapshot_id,
        )


def run_transaction(
    store: Store,
    function: Callable[[Transaction], T],
    *,
    prefetch: Prefetch | None = None,
    pin: bool = False,
    attempts: int = ATTEMPTS_DEFAULT,
    on_commit: Callable[[int], None] | None = None,
) -> T:
    """Run a function over a snapshot and commit what it wrote; rerun it while its commit does not hold.

    Args:
        store: The store.
        function: May run many times; its result on the run that committed is returned. What it raises ends the
            transaction and nothing is written.
        prefetch: Keys by partition that the function will usually read.
        pin: Begin with a pinned snapshot, for a function that is known to read more than `prefetch`.
        attempts: Greatest number of conflicting commits before giving up.
        on_commit: Told the sequence of the commit, if anything was written.

    Raises:
        TransactionContention: Every attempt conflicted; nothing was written.
        StorageUnavailable: Storage could not be reached for about 15 seconds, or the caller's deadline passed; the
            outcome of the last commit may be unknown.
        StorageFull: Writes are refused for want of space; nothing was written by any run.
    """
    keys = {partition: list(wanted) for partition, wanted in (prefetch or {}).items()}
    # With nothing to prefetch, a first unpinned run could read nothing.
    pin = pin or not any(keys.values())
    backoff = Backoff(remaining_s(RETRY_LIMIT_S))
    conflict_count = 0
    unsettled: set[str] = set()
    while True:
        try:
            return _run_once(store, function, keys, pin=pin, on_commit=on_commit, unsettled=unsettled)
        except MissingPrefetch as missing:
            pin = True
            keys.setdefault(missing.partition, []).extend(missing.keys)
            continue
        except OutcomeUnknown:
            # Waiting would not help: room comes back when somebody makes it.
            raise
        except CommitConflict as conflict:
            conflict_count += 1
            if conflict_count >= attempts:
                raise TransactionContention(f"the transaction conflicted {conflict_count} times") from conflict
            failure: CommitConflict | SnapshotExpired | TooManySnapshots | StorageUnavailable = conflict
        except (SnapshotExpired, TooManySnapshots, StorageUnavailable) as error:
            failure = error
        if not backoff.wait():
            if isinstance(failure, StorageUnavailable):
                raise failure
            raise StorageUnavailable("the transaction could not be finished in time") from failure


def _run_once(
    store: Store,
    function: Callable[[Transaction], T],
    prefetch: dict[bytes, list[bytes]],
    *,
    pin: bool,
    on_commit: Callable[[int], None] | None,
    unsettled: set[str],
) -> T:
    """Run once; `unsettled` are the incarnations under which a commit of an earlier run may still come to be."""
    reader = SnapshotReader(store, prefetch, pin=pin)
    try:
        transaction = Transaction(reader)
        result = function(transaction)
        commit = transaction.pending_commit()
        if commit is not None:
            # The commit lets the snapshot go, whatever its outcome.
            reader.snapshot_id = ""
            try:
                sequence = store.commit(commit)
            except StorageUnavailable:
                unsettled.add(transaction.incarnation)
                raise
            except StorageFull as refusal:
                # Another incarnation would have shown whether the earlier commit is there; this one has not.
                if transaction.incarnation in unsettled:
                    raise OutcomeUnknown(
                        "the outcome of an earlier attempt is unknown, and the store is full"
                    ) from refusal
                raise
            if on_commit is not None:
                on_commit(sequence)
        return result
    finally:
        reader.release()


def _value_after(write: Write | None, stored: bytes | None) -> bytes | None:
    if write is None:
        return stored
    if isinstance(write, Put):
        return write.value
    return _added(stored, write.amount) if isinstance(write, Add) else None


def _added(stored: bytes | None, amount: int) -> bytes:
    total = amount + (0 if stored is None else int.from_bytes(stored, "big", signed=True))
    return total.to_bytes(_COUNTER_BYTES, "big", signed=True)

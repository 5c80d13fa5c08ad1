"""The partitions that this process holds in memory: loaded on first use, kept up to date by the change log, evicted.

A query reads its partition's head together with its credential, so a replica at that head, or a later one of the same
incarnation, holds every write that was acknowledged before the query came.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from services.retrieval.allocator import release_free_memory
from services.retrieval.answer_encoder import AnswerEncoder
from services.retrieval.instruments import (
    REPLICA_BYTES,
    REPLICA_EVICTIONS,
    REPLICA_LAG_COMMITS,
    REPLICA_LOAD_SECONDS,
    REPLICA_PARTITIONS,
)
from services.retrieval.partition import Partition
from services.retrieval.partition_loading import LOADED_PREFIXES, PartitionLoader, apply_changes
from services.runtime.logging import get_logger
from services.storage.contract import Row, Store
from services.storage.errors import ChangesForgotten, CommitConflict, StorageUnavailable

LOAD_PAGE_BYTES: Final = 1024 * 1024
_LOAD_ATTEMPTS: Final = 3

log = get_logger()


class _Entry:
    """A place for one partition; its lock is held while it is brought up to date and while a request looks at it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.partition: Partition | None = None
        self.head = 0
        self.incarnation = ""
        self.memory_bytes = 0


class Replica:
    """See the module. Safe to use from any thread.

    Args:
        store: Where partitions are read.
        encoder: Makes what answers carry.
        memory_bytes_max: Least recently used partitions are dropped while the estimated sum is above this; the one in
            use always stays.
    """

    def __init__(self, store: Store, encoder: AnswerEncoder, *, memory_bytes_max: int) -> None:
        self._store = store
        self._encoder = encoder
        self._memory_bytes_max = memory_bytes_max
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self._entries_lock = threading.Lock()

    @contextmanager
    def open(self, partition_id: bytes, *, head: int, incarnation: str) -> Iterator[Partition]:
        """Look at a partition that no other thread changes meanwhile.

        Args:
            partition_id: 32 bytes.
            head: Head of the partition as the request has read it; 0 for one that was never written.
            incarnation: Incarnation that was read with it.

        Yields:
            The partition at `head`, or at a later head that another request has met already.

        Raises:
            StorageInconsistency: Stored values, counts and completeness data do not agree.
            StorageUnavailable: Storage cannot be reached.
        """
        if not head:
            yield Partition()
            return
        entry = self._entry(partition_id)
        with entry.lock:
            self._bring_up_to_date(partition_id, entry, head, incarnation)
            if entry.partition is None:
                raise LookupError("a partition was not loaded")
            yield entry.partition

    @property
    def memory_bytes(self) -> int:
        """Estimate of the memory that all loaded partitions hold."""
        with self._entries_lock:
            return sum(entry.memory_bytes for entry in self._entries.values())

    @property
    def loaded_count(self) -> int:
        """Number of partitions held."""
        with self._entries_lock:
            return len(self._entries)

    def _entry(self, partition_id: bytes) -> _Entry:
        with self._entries_lock:
            entry = self._entries.get(partition_id)
            if entry is None:
                entry = self._entries[partition_id] = _Entry()
            else:
                self._entries.move_to_end(partition_id)
            return entry

    def _bring_up_to_date(self, partition_id: bytes, entry: _Entry, head: int, incarnation: str) -> None:
        if entry.partition is not None and entry.incarnation == incarnation:
            REPLICA_LAG_COMMITS.observe(max(0, head - entry.head))
            if entry.head >= head:
                return
            if self._follow(partition_id, entry):
                return
        with REPLICA_LOAD_SECONDS.time():
            self._load(partition_id, entry)

    def _follow(self, partition_id: bytes, entry: _Entry) -> bool:
        """Apply what changed since; False when the store cannot tell it or is another one, so that all must be read."""
        rows: list[Row] = []
        try:
            for page in self._store.changed_since(
                partition_id,
                entry.head,
                key_prefixes=LOADED_PREFIXES,
                page_bytes=LOAD_PAGE_BYTES,
                expected_incarnation=entry.incarnation,
            ):
                rows += page.rows
                head = page.head
        except (CommitConflict, ChangesForgotten):
            return False
        partition, entry.partition = entry.partition, None
        if partition is None:
            return False
        # Put back only when every change has been applied: a half-changed partition must never be looked at.
        apply_changes(partition, rows, self._encoder)
        partition.head = head
        entry.partition, entry.head = partition, head
        self._account(partition_id, entry)
        return True

    def _load(self, partition_id: bytes, entry: _Entry) -> None:
        entry.partition = None
        for attempt in range(1, _LOAD_ATTEMPTS + 1):
            loader = PartitionLoader(self._encoder)
            try:
                for page in self._store.changed_since(
                    partition_id, 0, key_prefixes=LOADED_PREFIXES, page_bytes=LOAD_PAGE_BYTES
                ):
                    loader.add(page.rows)
                entry.partition = loader.finish(page.counts)
            except StorageUnavailable:
                # Storage went away between two pages; its next opening is another snapshot.
                if attempt == _LOAD_ATTEMPTS:
                    raise
                continue
            entry.head, entry.incarnation = page.head, page.incarnation
            entry.partition.head, entry.partition.incarnation = page.head, page.incarnation
            break
        release_free_memory()
        self._account(partition_id, entry)
        log.info("partition_loaded", partition=partition_id.hex()[:16], head=entry.head, bytes=entry.memory_bytes)

    def _account(self, partition_id: bytes, entry: _Entry) -> None:
        if entry.partition is None:
            return
        entry.memory_bytes = entry.partition.memory_bytes
        with self._entries_lock:
            total = sum(other.memory_bytes for other in self._entries.values())
            # A request that still looks at an evicted partition keeps it alive until it is done.
            for other_id in list(self._entries):
                if total <= self._memory_bytes_max:
                    break
                if other_id != partition_id:
                    total -= self._entries.pop(other_id).memory_bytes
                    REPLICA_EVICTIONS.inc()
            REPLICA_PARTITIONS.set(len(self._entries))
            REPLICA_BYTES.set(total)

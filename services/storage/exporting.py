"""Exports: everything that a store holds, from one snapshot, page by page, for backups and audits."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, Protocol, cast

from services.domain.errors import InvalidRequest, StorageInconsistency
from services.storage.core import LocalStore
from services.storage.engine import EngineClosed, EngineError, EngineSnapshot
from services.storage.errors import TooManySnapshots
from services.storage.layout import META_KEY, PARTITION_BYTES, head_key, unpack_head, unpack_meta
from services.storage.request_limits import check_page_bytes
from services.storage.store_rows import FoundPartitions, RowPage, find_partitions, iterate_partition, iterate_rest

EXPORTS_MAX: Final = 2
"""Exports that may run at a time: each keeps a snapshot, and with it all that was overwritten since."""
PARTITIONS_MAX: Final = 65_536


class ExportOpening(NamedTuple):
    """What is exported; see the message of that name."""

    store_id: str
    engine: str
    format_version: int
    incarnation: str
    sequence: int
    clock_ms: int
    partition_count: int
    key_count: int


class Export(NamedTuple):
    """An export that has begun. Whoever does not read it to its end closes `pages`, which lets the snapshot go."""

    opening: ExportOpening
    pages: Iterator[RowPage]


class Exporter(Protocol):
    """Makes exports, of a store in this process or behind a socket."""

    def export(self, *, partitions: Sequence[bytes] = (), page_bytes: int = 0) -> Export:
        """Begin an export.

        Args:
            partitions: Only these, 32 bytes each, at most 65,536, in this order, without what belongs to no partition;
                empty for all, ascending.
            page_bytes: Target size of a page; 0 for 1 MiB.

        Raises:
            InvalidRequest: An argument is out of bounds.
            TooManySnapshots: Two exports run already.
            StorageUnavailable: The store cannot serve. Pages raise it too.
        """
        ...


class LocalExporter:
    """Exports a store of this process; safe to use from any thread.

    Args:
        store: The store.
    """

    def __init__(self, store: LocalStore) -> None:
        self._store = store
        self._running = threading.BoundedSemaphore(EXPORTS_MAX)

    def export(self, *, partitions: Sequence[bytes] = (), page_bytes: int = 0) -> Export:
        """See `Exporter.export`."""
        page_bytes = check_page_bytes(page_bytes)
        if len(partitions) > PARTITIONS_MAX or any(len(partition) != PARTITION_BYTES for partition in partitions):
            raise InvalidRequest(f"at most {PARTITIONS_MAX} of {PARTITION_BYTES} bytes", member="partitions")
        walk = self._walk(list(dict.fromkeys(partitions)), page_bytes)
        return Export(cast(ExportOpening, next(walk)), cast(Iterator[RowPage], walk))

    def _walk(self, wanted: list[bytes], page_bytes: int) -> Iterator[ExportOpening | RowPage]:
        """The opening, then the pages: one generator, so that closing it lets everything go."""
        if not self._running.acquire(blocking=False):
            raise TooManySnapshots(f"{EXPORTS_MAX} exports run already")
        try:
            with self._store.whole_snapshot() as (snapshot, status):
                partitions, unreadable = FoundPartitions(wanted, []) if wanted else find_partitions(snapshot)
                yield ExportOpening(
                    status.store_id,
                    status.engine,
                    status.format_version,
                    status.incarnation,
                    unpack_meta(snapshot.get(META_KEY) or b"").sequence,
                    status.clock_ms,
                    len(partitions),
                    _count_keys(snapshot, partitions),
                )
                if unreadable:
                    yield RowPage([], unreadable)
                if not wanted:
                    yield from iterate_rest(snapshot, page_bytes=page_bytes)
                for partition in partitions:
                    yield from iterate_partition(snapshot, partition, page_bytes=page_bytes)
        finally:
            self._running.release()


def _count_keys(snapshot: EngineSnapshot, partitions: Sequence[bytes]) -> int:
    """What the heads count; a damaged one counts nothing here and is found when it is judged."""
    total = 0
    for partition in partitions:
        key = head_key(partition)
        try:
            total += sum(unpack_head(key, snapshot.get(key)).counts.values())
        except EngineClosed:
            raise
        except (StorageInconsistency, EngineError):
            continue
    return total

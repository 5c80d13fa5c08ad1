"""The store in this process: the storage operations over an engine."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from services.domain.errors import InvalidRequest, StorageFull, StorageInconsistency
from services.runtime.clock import Clock, SystemClock
from services.runtime.logging import get_logger
from services.storage import request_limits
from services.storage.change_log import iterate_changed, iterate_living
from services.storage.contract import (
    SNAPSHOT_TTL_MS_DEFAULT,
    ChangePage,
    Commit,
    PartitionRead,
    PinnedSnapshot,
    ReadResult,
    Row,
    StoreStatus,
)
from services.storage.engine import EngineError, EngineSnapshot
from services.storage.errors import ChangesForgotten, CommitConflict, StorageUnavailable
from services.storage.free_space import FreeSpaceGuard
from services.storage.layout import (
    FORMAT_VERSION,
    META_KEY,
    head_key,
    unpack_head,
    unpack_meta,
)
from services.storage.opening import Opening, StoreDamaged
from services.storage.quarantine import Quarantine
from services.storage.reads import answer_reads
from services.storage.snapshots import PINNED_MAX_DEFAULT
from services.storage.store_clock import StoreClock
from services.storage.upkeep import Upkeep, UpkeepOptions
from services.storage.verification import Verification, verify_snapshot
from services.storage.volume import MemoryVolume, Volume

_MAINTENANCE_INTERVAL_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """How a store is run.

    Attributes:
        free_bytes_min: Bytes of the volume that must stay free for writes; None for the default of `volume`.
        snapshots_max: Greatest number of pinned snapshots.
        snapshot_ttl_ms: Life of a snapshot that `read` pins.
        upkeep: What is done on schedule.
    """

    free_bytes_min: int | None = None
    snapshots_max: int = PINNED_MAX_DEFAULT
    snapshot_ttl_ms: int = SNAPSHOT_TTL_MS_DEFAULT
    upkeep: UpkeepOptions = field(default_factory=UpkeepOptions)


class LocalStore:
    """The storage operations in process; see `contract.Store`. Safe to use from any thread.

    Args:
        volume: Where the store lives, for example `directory.DataDirectory`; closed with the store.
        clock: The host's clock.
        options: How the store is run.

    Raises:
        EngineError, StoreDamaged: See `opening.Opening`; the volume is closed again.
    """

    def __init__(self, volume: Volume, *, clock: Clock | None = None, options: StoreOptions | None = None) -> None:
        self._volume = volume
        self._options = options or StoreOptions()
        self._clock = StoreClock(clock or SystemClock())
        self._guard = FreeSpaceGuard(volume, self._options.free_bytes_min)
        self._quarantine = Quarantine()
        self._wake = threading.Event()
        self._closing = False
        self._is_ending = False
        self._marker_failed = False
        self._maintenance_lock = threading.Lock()
        try:
            self._opening: Opening | None = self._open()
        except BaseException:
            volume.close()
            raise
        self._maintenance = threading.Thread(target=self._run_maintenance, name="store-maintenance", daemon=True)
        self._maintenance.start()

    @classmethod
    def in_memory(cls, *, clock: Clock | None = None, options: StoreOptions | None = None) -> LocalStore:
        """Return a new, empty, throw-away store."""
        return cls(MemoryVolume(), clock=clock, options=options)

    def __enter__(self) -> LocalStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, partitions: Sequence[PartitionRead], *, snapshot_id: str = "", pin: bool = False) -> ReadResult:
        """See `contract.Store.read`."""
        request_limits.check_reads(partitions)
        if pin and snapshot_id:
            raise InvalidRequest("not together with snapshot_id", member="pin")
        opening = self._serving()
        with self._quarantine.watch(pinned=bool(snapshot_id)):
            if snapshot_id:
                return self._answer(opening, opening.snapshots.find(snapshot_id), partitions, snapshot_id)
            snapshot = opening.engine.snapshot()
            try:
                result = self._answer(opening, snapshot, partitions, "")
                if pin:
                    pinned_id = opening.snapshots.pin(snapshot, self._options.snapshot_ttl_ms)
                    result = result._replace(snapshot_id=pinned_id)
            except BaseException:
                snapshot.close()
                raise
            if not pin:
                snapshot.close()
            return result

    def commit(self, commit: Commit) -> int:
        """See `contract.Store.commit`."""
        write_bytes = request_limits.check_commit(commit)
        opening = self._serving()
        try:
            refusal = self._quarantine.check(part.partition for part in commit.partitions if part.writes)
            if refusal is not None:
                raise refusal
            with self._quarantine.watch():
                return opening.committer.commit(commit, write_bytes)
        finally:
            if commit.release_snapshot_id:
                opening.snapshots.release(commit.release_snapshot_id)

    def changed_since(
        self,
        partition: bytes,
        after: int,
        *,
        key_prefixes: Sequence[bytes] = (),
        page_bytes: int = 0,
        expected_incarnation: str = "",
    ) -> Iterator[ChangePage]:
        """See `contract.Store.changed_since`. The request is checked, and the snapshot taken, at the first page."""
        request_limits.check_partition(partition)
        request_limits.check_prefixes(key_prefixes)
        page_bytes = request_limits.check_page_bytes(page_bytes)
        opening = self._serving()
        if expected_incarnation and expected_incarnation != opening.incarnation:
            raise CommitConflict("the store was opened again since")
        with self._quarantine.watch():
            snapshot = opening.engine.snapshot()
            try:
                physical_key = head_key(partition)
                head = unpack_head(physical_key, snapshot.get(physical_key))
                if after > head.sequence:
                    raise CommitConflict("the sequence lies ahead of the partition")
                if 0 < after < head.forgotten:
                    raise ChangesForgotten("deletions since that sequence are no longer told; read from 0")
                pages = (
                    iterate_changed(snapshot, partition, after, key_prefixes=key_prefixes, page_bytes=page_bytes)
                    if after
                    else iterate_living(snapshot, partition, key_prefixes=key_prefixes, page_bytes=page_bytes)
                )
                held: list[Row] = []
                for rows in pages:
                    if held:
                        yield ChangePage(held, head.sequence, opening.incarnation, {}, last=False)
                    held = rows
                counts = {} if after else head.counts
                yield ChangePage(held, head.sequence, opening.incarnation, counts, last=True)
            finally:
                snapshot.close()

    def open_snapshot(self, ttl_ms: int = 0) -> PinnedSnapshot:
        """See `contract.Store.open_snapshot`."""
        ttl_ms = request_limits.check_ttl_ms(ttl_ms)
        opening = self._serving()
        with self._quarantine.watch():
            snapshot = opening.engine.snapshot()
            try:
                sequence = unpack_meta(snapshot.get(META_KEY) or b"").sequence
                return PinnedSnapshot(opening.snapshots.pin(snapshot, ttl_ms), sequence)
            except BaseException:
                snapshot.close()
                raise

    def close_snapshot(self, snapshot_id: str) -> None:
        """See `contract.Store.close_snapshot`."""
        opening = self._opening
        if opening is not None:
            opening.snapshots.release(snapshot_id)

    def status(self) -> StoreStatus:
        """See `contract.Store.status`."""
        opening = self._serving()
        space = self._volume.disk_space()
        return StoreStatus(
            engine=opening.engine.name,
            incarnation=opening.incarnation,
            sequence=opening.committer.sequence,
            clock_ms=self._clock.now_ms(),
            store_id=self._volume.store_id,
            format_version=FORMAT_VERSION,
            disk_free_bytes=0 if space is None else space.free,
            writable=self.is_writable(),
            open_snapshots=len(opening.snapshots),
            disk_reserve_bytes=self._guard.reserve(opening.engine),
            damaged_partitions=len(self._quarantine.places()),
        )

    def is_open(self) -> bool:
        """Reads are served. A full disk does not stop them."""
        return self._opening is not None

    def is_writable(self) -> bool:
        """Writes are accepted: there is room, the engine has not failed, and no damage stops all of them."""
        opening = self._opening
        return opening is not None and not opening.committer.has_failed and self._refusal(opening) is None

    def verify(self) -> Verification:
        """Check every checksum, every count and the whole change log, in one snapshot. Reports, never repairs.

        When nothing is found, writes to partitions in which damage was met before are accepted again.

        Raises:
            StorageUnavailable: The store cannot serve.
        """
        opening = self._serving()
        met_before = self._quarantine.places()
        with self._quarantine.watch():
            snapshot = opening.engine.snapshot()
            try:
                found = verify_snapshot(snapshot)
            finally:
                snapshot.close()
        if not found.problems:
            self._quarantine.lift(met_before)
        return found

    @contextmanager
    def whole_snapshot(self) -> Iterator[tuple[EngineSnapshot, StoreStatus]]:
        """A snapshot of everything for as long as the block lasts, and the state of the store at or after it.

        Raises:
            StorageUnavailable: The store cannot serve, or is opened again while the block reads.
        """
        opening = self._serving()
        with self._quarantine.watch():
            snapshot = opening.engine.snapshot()
            try:
                yield snapshot, self.status()._replace(incarnation=opening.incarnation)
            finally:
                snapshot.close()

    def maintain(self) -> None:
        """Do what falls due: expire snapshots, record the newest commit, open again after a failure, upkeep.

        The store calls this by itself every second, and at once after a failure.
        """
        with self._maintenance_lock:
            if self._closing:
                return
            opening = self._opening
            if opening is None or (opening.committer.has_failed and self._guard.may_reopen(opening.engine)):
                self._reopen(opening)
            elif not opening.committer.has_failed:
                opening.snapshots.expire()
                self._record_sequence(opening)
                self._probe(opening)
                self._upkeep.run(
                    self._clock.now_ms(),
                    has_room=lambda: self._refusal(opening) is None,
                    must_stop=lambda: self._is_ending or opening.committer.has_failed,
                )
            else:
                opening.snapshots.expire()

    def close(self) -> None:
        """Finish waiting commits, close the engine, record the newest commit, let the place go. Safe to repeat."""
        # Upkeep in progress looks at this and makes way.
        self._is_ending = True
        with self._maintenance_lock:
            if self._closing:
                return
            self._closing = True
            opening, self._opening = self._opening, None
            if opening is not None:
                opening.close()
                self._record_sequence(opening)
            self._volume.close()
        self._wake.set()
        self._maintenance.join()

    def _open(self) -> Opening:
        opening = Opening(
            self._volume,
            self._clock,
            check_room=self._guard.check,
            on_failure=self._wake.set,
            snapshots_max=self._options.snapshots_max,
        )
        self._upkeep = Upkeep(opening, self._options.upkeep, self._clock.now_ms(), self._quarantine.note)
        return opening

    def _reopen(self, failed: Opening | None) -> None:
        self._opening = None
        if failed is not None:
            if failed.committer.found_damage:
                self._quarantine.note(None)
            failed.close()
        try:
            self._opening = self._open()
        except (EngineError, StoreDamaged) as error:
            get_logger().error("reopen_failed", place=self._volume.description, cause=str(error))
        else:
            get_logger().warning("reopened", place=self._volume.description, incarnation=self._opening.incarnation)

    def _probe(self, opening: Opening) -> None:
        if self._guard.is_probe_due(opening.engine, self._clock.now_ms()):
            # A failure has been told to the committer, which wakes this thread to open the store again.
            with suppress(StorageUnavailable):
                opening.committer.probe()

    def _record_sequence(self, opening: Opening) -> None:
        try:
            self._volume.record_sequence(opening.committer.sequence)
        except OSError as error:
            # Tried again every second; on a full disk it is said once.
            if not self._marker_failed:
                get_logger().warning("marker_not_written", place=self._volume.description, cause=str(error))
            self._marker_failed = True
        else:
            self._marker_failed = False

    def _run_maintenance(self) -> None:
        while not self._closing:
            self._wake.wait(_MAINTENANCE_INTERVAL_S)
            self._wake.clear()
            try:
                self.maintain()
            except Exception as error:  # noqa: BLE001 - whatever it was, the next round may succeed
                get_logger().error("maintenance_failed", cause=str(error), exc_info=True)

    def _serving(self) -> Opening:
        opening = self._opening
        if opening is None:
            raise StorageUnavailable("the store is not open")
        return opening

    def _refusal(self, opening: Opening) -> StorageFull | StorageInconsistency | None:
        """What every write would be refused with at present."""
        return self._quarantine.check(()) or self._guard.check(opening.engine, 0)

    def _answer(
        self, opening: Opening, snapshot: EngineSnapshot, partitions: Sequence[PartitionRead], snapshot_id: str
    ) -> ReadResult:
        states, sequence = answer_reads(snapshot, partitions)
        # The clock is read after the snapshot was taken: nothing in it was committed later than the time told.
        return ReadResult(states, sequence, self._clock.now_ms(), opening.incarnation, snapshot_id)

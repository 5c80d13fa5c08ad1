"""One opening of a store: an engine, an incarnation, the committer and the pinned snapshots that live with it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from uuid import UUID

from services.domain.errors import StorageFull, StorageInconsistency
from services.runtime.identifiers import new_uuid
from services.storage.committer import Committer
from services.storage.engine import Engine
from services.storage.layout import FORMAT_VERSION, META_KEY, StoreMeta, pack_meta, unpack_meta
from services.storage.snapshots import PinnedSnapshots
from services.storage.store_clock import StoreClock
from services.storage.volume import Volume


class StoreDamaged(Exception):
    """What the engine holds is not the store that belongs here. The message says what differs."""


class Opening:
    """An engine that was found to hold the right store, under a new incarnation.

    Args:
        volume: Where the store lives.
        clock: The store's clock; raised to what was persisted.
        check_room: See `FreeSpaceGuard.check`.
        on_failure: See `Committer`.
        snapshots_max: Greatest number of pinned snapshots.

    Raises:
        EngineError: The engine cannot be opened.
        StoreDamaged: It opens, but holds another store, an older state, or nothing.
    """

    def __init__(
        self,
        volume: Volume,
        clock: StoreClock,
        *,
        check_room: Callable[[Engine, int], StorageFull | None],
        on_failure: Callable[[], None],
        snapshots_max: int,
    ) -> None:
        self.engine = volume.open_engine()
        try:
            found = _read_meta(self.engine)
            _check_meta(found, volume)
            clock.raise_to(found.clock_ms)
            self.incarnation = new_uuid()
            meta = found._replace(clock_ms=clock.now_ms(), incarnation=UUID(self.incarnation).bytes)
            # Written before anything is served, so that a second writer on a shared engine would be noticed.
            self.engine.write([(META_KEY, pack_meta(meta))])
        except BaseException:
            self.engine.close()
            raise
        self.snapshots = PinnedSnapshots(pinned_max=snapshots_max)
        self.committer = Committer(
            self.engine, meta, clock, check_room=partial(check_room, self.engine), on_failure=on_failure
        )

    def close(self) -> None:
        """Finish waiting commits, let all snapshots go, close the engine. Safe to repeat."""
        self.committer.close()
        self.snapshots.close()
        self.engine.close()


def _read_meta(engine: Engine) -> StoreMeta:
    snapshot = engine.snapshot()
    try:
        stored = snapshot.get(META_KEY)
    finally:
        snapshot.close()
    if stored is None:
        raise StoreDamaged("the database is empty or has lost its own entry")
    try:
        return unpack_meta(stored)
    except StorageInconsistency as error:
        raise StoreDamaged("the store's own entry does not agree with its checksum") from error


def _check_meta(meta: StoreMeta, volume: Volume) -> None:
    store_id = str(UUID(bytes=meta.store_id))
    if store_id != volume.store_id:
        raise StoreDamaged(f"the database belongs to store {store_id}, the marker to store {volume.store_id}")
    if meta.format_version != FORMAT_VERSION:
        raise StoreDamaged(f"the database has format {meta.format_version}, this program reads {FORMAT_VERSION}")
    if meta.sequence < volume.recorded_sequence:
        raise StoreDamaged(
            f"the database ends at commit {meta.sequence}, but commit {volume.recorded_sequence} was acknowledged: "
            "it was rolled back or has lost its newest part"
        )

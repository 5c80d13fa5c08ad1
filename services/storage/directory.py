"""The data directory of a durable store: creating one, and opening nothing but the right one.

    DIRECTORY/
        store.lock      see `directory_lock`
        store.json      see `marker`
        leveldb/        the engine's own files, named after the engine

The marker lies beside the engine, so that a missing, emptied, swapped or rolled-back engine directory is noticed at
open. Nothing here ever repairs, or makes a store where there is one or where there was one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from services.runtime.clock import Clock
from services.runtime.identifiers import new_uuid
from services.storage.core import LocalStore, StoreOptions
from services.storage.directory_errors import (
    DirectoryDamaged,
    DirectoryIncompatible,
    DirectoryMissing,
    DirectoryOccupied,
    DirectoryUnusable,
)
from services.storage.directory_lock import LOCK_NAME, DirectoryLock
from services.storage.engine import Engine, EngineCorrupt, EngineError, EngineFactory, EngineMissing
from services.storage.engine_registry import ENGINES
from services.storage.layout import FORMAT_VERSION, META_KEY
from services.storage.marker import (
    MARKER_NAME,
    Marker,
    MarkerDamaged,
    MarkerMissing,
    read_marker,
    sync_directory,
    write_marker,
)
from services.storage.opening import StoreDamaged
from services.storage.volume import DiskSpace, initial_meta

# What an empty directory may hold: what mkfs makes, and what a refused attempt may have left.
_FRESH_VOLUME_NAMES: Final = frozenset({"lost+found", LOCK_NAME})


class DataDirectory:
    """A locked data directory with a store in it; a `volume.Volume`.

    Raises:
        DirectoryMissing, DirectoryHeld, DirectoryDamaged, DirectoryIncompatible, DirectoryUnusable: See there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        if not path.is_dir():
            raise DirectoryMissing(path, "there is no such directory")
        if not _traces(path):
            raise DirectoryMissing(path, "the directory holds no store")
        self._lock = DirectoryLock(path)
        try:
            self._marker = _read_marker(path)
            self._factory = _factory(path, self._marker)
        except BaseException:
            self._lock.close()
            raise

    @property
    def description(self) -> str:
        """How messages name the place."""
        return str(self._path)

    @property
    def store_id(self) -> str:
        """UUID of the store."""
        return self._marker.store_id

    @property
    def recorded_sequence(self) -> int:
        """A commit that the store certainly holds."""
        return self._marker.sequence

    def open_engine(self) -> Engine:
        """Open the engine. Raises EngineError."""
        return self._factory.open(self._path / self._factory.name)

    def record_sequence(self, sequence: int) -> None:
        """Write the marker again when it is behind. Raises OSError."""
        if sequence > self._marker.sequence:
            newer = self._marker._replace(sequence=sequence)
            write_marker(self._path, newer)
            self._marker = newer

    def disk_space(self) -> DiskSpace | None:
        """Return size and free bytes of the volume that holds the directory."""
        found = os.statvfs(self._path)
        return DiskSpace(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)

    def close(self) -> None:
        """Give the directory back. Safe to repeat."""
        self._lock.close()


def open_store(path: Path, *, clock: Clock | None = None, options: StoreOptions | None = None) -> LocalStore:
    """Open the store in a data directory.

    Args:
        path: The directory.
        clock: The host's clock.
        options: How the store is run.

    Raises:
        DirectoryError: Which of them says why, see `directory_errors`.
    """
    volume = DataDirectory(path)
    try:
        return LocalStore(volume, clock=clock, options=options)
    except StoreDamaged as error:
        raise DirectoryDamaged(path, str(error)) from error
    except (EngineMissing, EngineCorrupt) as error:
        raise DirectoryDamaged(path, f"the engine cannot be opened: {error}") from error
    except (EngineError, OSError) as error:
        raise DirectoryUnusable(path, f"the engine cannot be opened: {error}") from error


def create_store(path: Path, *, engine: str = "leveldb") -> str:
    """Lay a new, empty store into a directory, which is made when it is missing.

    Args:
        path: The directory. Other files in it are left alone.
        engine: Name of a durable engine.

    Returns:
        The id of the store, a UUID.

    Raises:
        DirectoryOccupied: There is a store, or a trace of one.
        DirectoryHeld: Another process works on the directory.
        DirectoryIncompatible: No such durable engine.
        DirectoryUnusable: The file system refuses.
    """
    store_id = new_uuid()

    def fill(draft: Engine) -> None:
        draft.write([(META_KEY, initial_meta(store_id))])

    lay_store(path, Marker(store_id, FORMAT_VERSION, engine, 0), fill, only_empty=False)
    return store_id


def lay_store(path: Path, marker: Marker, fill: Callable[[Engine], None], *, only_empty: bool) -> None:
    """Lay a store into a directory, which is made when missing. Whatever happens, it is there whole or not at all.

    Args:
        path: The directory.
        marker: What the store's marker will say.
        fill: Puts everything into the engine, durably. When it raises, the directory is left as it was.
        only_empty: Refuse a directory that holds anything else, beside what file systems put into a fresh volume.

    Raises:
        DirectoryOccupied: There is a store, or a trace of one, or anything else when it must be empty.
        DirectoryHeld: Another process works on the directory.
        DirectoryIncompatible: No such durable engine.
        DirectoryUnusable: The file system refuses.
    """
    factory = ENGINES.get(marker.engine)
    if factory is None or not factory.is_durable:
        durable = ", ".join(sorted(name for name, known in ENGINES.items() if known.is_durable))
        raise DirectoryIncompatible(path, f"there is no durable engine {marker.engine!r}", f"Choose one of: {durable}.")
    is_new = not path.exists()
    if only_empty:
        # Looked at before the lock is taken, which leaves a file.
        _check_vacant(path, only_empty=True)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DirectoryUnusable(path, f"the directory cannot be made: {error.strerror}") from error
    lock = DirectoryLock(path)
    try:
        _check_vacant(path, only_empty=only_empty)
        _lay(path, factory, marker, fill)
    except (OSError, EngineError) as error:
        raise DirectoryUnusable(path, f"the store cannot be created: {error}") from error
    finally:
        lock.close()
        if not _traces(path):
            # Nothing came of it, so nothing of it stays.
            (path / LOCK_NAME).unlink(missing_ok=True)
            if is_new:
                with suppress(OSError):
                    path.rmdir()


def _check_vacant(path: Path, *, only_empty: bool) -> None:
    traces = _traces(path)
    if traces:
        raise DirectoryOccupied(path, f"a store, or what is left of one, is here already: {', '.join(traces)}")
    if only_empty and path.exists():
        try:
            others = sorted({item.name for item in path.iterdir()} - _FRESH_VOLUME_NAMES)
        except OSError as error:
            raise DirectoryUnusable(path, f"it cannot be listed: {error.strerror}") from error
        if others:
            raise DirectoryOccupied(path, f"the directory is not empty, it holds {', '.join(others[:5])}")


def _lay(path: Path, factory: EngineFactory, marker: Marker, fill: Callable[[Engine], None]) -> None:
    # 1. The engine, complete, under a name that no opening looks at. A crash before step 2 leaves only this.
    draft = path / _draft_name(factory.name)
    try:
        engine = factory.create(draft)
        try:
            fill(engine)
        finally:
            engine.close()
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    # 2. The marker, which makes the directory a store. A crash before step 3 leaves a store without its engine.
    write_marker(path, marker)
    # 3. The engine under its own name.
    draft.rename(path / factory.name)
    sync_directory(path)


def _draft_name(engine: str) -> str:
    return f"{engine}.creating"


def _traces(path: Path) -> list[str]:
    """Names in a directory that show that there is, or was, a store."""
    names = [MARKER_NAME, *ENGINES, *map(_draft_name, ENGINES), "CURRENT"]
    return [name for name in names if os.path.lexists(path / name)]


def _read_marker(path: Path) -> Marker:
    drafts = [name for name in map(_draft_name, ENGINES) if os.path.lexists(path / name)]
    if drafts:
        raise DirectoryIncompatible(
            path,
            "creating the store was interrupted",
            f"It was never opened. Remove {MARKER_NAME} (if it is there) and {drafts[0]}, and create or restore it "
            "again.",
        )
    try:
        return read_marker(path)
    except (MarkerMissing, MarkerDamaged) as error:
        raise DirectoryDamaged(path, str(error)) from error
    except OSError as error:
        raise DirectoryUnusable(path, f"{MARKER_NAME} cannot be read: {error.strerror}") from error


def _factory(path: Path, marker: Marker) -> EngineFactory:
    factory = ENGINES.get(marker.engine)
    if marker.format_version != FORMAT_VERSION:
        raise DirectoryIncompatible(
            path,
            f"the store has format version {marker.format_version}, this program reads {FORMAT_VERSION}",
            "Use the version of the program that wrote it.",
        )
    if factory is None or not factory.is_durable:
        raise DirectoryIncompatible(
            path,
            f"the store needs the engine {marker.engine!r}, which this program does not have",
            "Use the version of the program that wrote it.",
        )
    return factory

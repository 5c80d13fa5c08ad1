"""Where a store lives: what opens its engine and knows how much room is left."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Protocol
from uuid import UUID

from services.runtime.identifiers import new_uuid
from services.storage.engine import Engine, EngineFactory
from services.storage.engine_memory import MemoryEngineFactory
from services.storage.layout import FORMAT_VERSION, META_KEY, StoreMeta, pack_meta


class DiskSpace(NamedTuple):
    """Size of a volume and what is free of it, in bytes."""

    total: int
    free: int


class Volume(Protocol):
    """The place of one store."""

    @property
    def description(self) -> str:
        """How messages name the place, for example its directory."""
        ...

    @property
    def store_id(self) -> str:
        """UUID of the store that belongs here."""
        ...

    @property
    def recorded_sequence(self) -> int:
        """A commit that the store certainly holds."""
        ...

    def open_engine(self) -> Engine:
        """Open the engine. Raises EngineError."""
        ...

    def record_sequence(self, sequence: int) -> None:
        """Note outside of the engine that it holds this commit. Raises OSError when that cannot be noted."""
        ...

    def disk_space(self) -> DiskSpace | None:
        """Return the room on the disk, None when there is no disk."""
        ...

    def close(self) -> None:
        """Let the place go to another process. Safe to repeat."""
        ...


def initial_meta(store_id: str) -> bytes:
    """Return the store's own entry as a new store has it."""
    return pack_meta(StoreMeta(UUID(store_id).bytes, FORMAT_VERSION, 0, 0, bytes(16)))


class MemoryVolume:
    """A throw-away store in memory. Closing and opening a `LocalStore` on the same object finds what was there."""

    def __init__(self) -> None:
        self._path = Path("memory")
        self._factory: EngineFactory = MemoryEngineFactory()
        self._store_id = new_uuid()
        self._recorded_sequence = 0
        engine = self._factory.create(self._path)
        engine.write([(META_KEY, initial_meta(self._store_id))])
        engine.close()

    @property
    def description(self) -> str:
        """How messages name the place."""
        return "memory"

    @property
    def store_id(self) -> str:
        """UUID of the store."""
        return self._store_id

    @property
    def recorded_sequence(self) -> int:
        """A commit that the store certainly holds."""
        return self._recorded_sequence

    def open_engine(self) -> Engine:
        """Open the engine."""
        return self._factory.open(self._path)

    def record_sequence(self, sequence: int) -> None:
        """Note that the engine holds this commit."""
        self._recorded_sequence = sequence

    def disk_space(self) -> DiskSpace | None:
        """There is no disk."""
        return None

    def close(self) -> None:
        """Nothing to let go."""

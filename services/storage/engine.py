"""The narrow interface of a storage engine: an ordered map of bytes with snapshots and atomic, durable batches.

An engine is one module that defines an `EngineFactory`, plus one line in `engine_registry`. Everything above it
(versions, checksums, change log, commits) is written once against this interface.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

Operation = tuple[bytes, bytes | None]
"""One change of a batch: a key with its new value, or with None to remove it."""


class EngineError(Exception):
    """The engine failed."""


class EngineClosed(EngineError):
    """The engine, or the snapshot, is closed."""


class EngineCorrupt(EngineError):
    """The engine found its own files damaged."""


class EngineWriteFailed(EngineError):
    """A batch was not confirmed; it may or may not be there when the engine is opened again.

    Attributes:
        found_damage: The cause is damage that the engine found in its own files.
    """

    def __init__(self, message: str, *, found_damage: bool = False) -> None:
        super().__init__(message)
        self.found_damage = found_damage


class EngineMissing(EngineError):
    """There is nothing to open at the path."""


class EngineExists(EngineError):
    """Something is already at the path where an engine should be created."""


class Scan(NamedTuple):
    """What a bounded scan found."""

    rows: list[tuple[bytes, bytes]]
    """Keys with their values, in walking order."""
    more: bool
    """A limit ended the walk and at least one more row exists."""


class EngineSnapshot(Protocol):
    """An unchanging view of the engine. Every call copies out what it returns, so nothing outlives `close`."""

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, or None. Raises EngineClosed, EngineCorrupt or EngineError."""
        ...

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of keys, or None for each absent one, in the same order. Raises like `get`."""
        ...

    def scan(self, start: bytes, end: bytes, *, row_limit: int = 0, byte_limit: int = 0, reverse: bool = False) -> Scan:
        """Walk the keys in [start, end) in byte order.

        Args:
            start: First key, inclusive.
            end: End, exclusive.
            row_limit: Greatest number of rows; 0 for no limit.
            byte_limit: Stop after the row that brings the sum of value bytes to this or more; 0 for no limit.
            reverse: Walk from the end to the start.

        Raises like `get`.
        """
        ...

    def close(self) -> None:
        """Let the snapshot go, after any call in progress has ended. Safe to repeat."""
        ...


class Engine(Protocol):
    """An open engine. Snapshots may be taken and used from any thread, batches written from one at a time."""

    @property
    def name(self) -> str:
        """Name of the engine as in the registry."""
        ...

    def snapshot(self) -> EngineSnapshot:
        """Return a view of everything written so far. Raises EngineClosed."""
        ...

    def write(self, operations: Iterable[Operation]) -> None:
        """Apply operations in order, atomically; durable when this returns.

        Raises:
            EngineClosed: Nothing was written.
            EngineWriteFailed: The outcome is unknown and the engine accepts no further batch until it is reopened;
                reads go on.
        """
        ...

    def working_bytes(self) -> int:
        """Bytes of disk that background work may take at present, beside what further batches add; 0 when closed."""
        ...

    def recovery_bytes(self) -> int:
        """Bytes of disk that opening the engine again may take; also known of a closed one."""
        ...

    def stored_bytes(self, start: bytes, end: bytes) -> int:
        """About how many bytes of disk the keys in [start, end) take, those in memory left out; 0 when closed."""
        ...

    def compact(self, start: bytes, end: bytes) -> None:
        """Drop what was overwritten and removed in [start, end). Takes time by the bytes there; nothing when closed."""
        ...

    def close(self) -> None:
        """Close every snapshot, wait for calls in progress, release the files. Safe to repeat."""
        ...


class EngineFactory(Protocol):
    """Makes and opens engines of one kind."""

    @property
    def name(self) -> str:
        """Name in the registry and in the marker of a store."""
        ...

    @property
    def is_durable(self) -> bool:
        """Whether what was written is still there in another process."""
        ...

    def create(self, path: Path) -> Engine:
        """Make an empty engine. Raises EngineExists when anything is at the path already."""
        ...

    def open(self, path: Path) -> Engine:
        """Open an existing engine. Raises EngineMissing, EngineCorrupt or EngineError; never creates or repairs."""
        ...

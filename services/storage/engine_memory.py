"""An engine that lives in memory: a sorted map that keeps old values for as long as a snapshot can see them.

It passes the same suite as the durable engines, so it serves tests and throw-away stores. Contents are kept by path for
the life of the process, so that closing and opening again finds them, as with a durable engine.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from services.storage.engine import EngineClosed, EngineExists, EngineMissing, Operation, Scan

_History = list[tuple[int, bytes | None]]


class _Contents:
    """The values of every key by write number, newest last, and who still looks at them."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.histories: dict[bytes, _History] = {}
        self.sorted_keys: list[bytes] = []
        self.write_number = 0
        self.viewers: dict[int, int] = {}
        # Keys whose history holds more than one living value, to be cut when no snapshot needs it.
        self.untidy: set[bytes] = set()

    def apply(self, operations: Iterable[Operation]) -> None:
        with self.lock:
            self.write_number += 1
            for key, value in operations:
                history = self.histories.get(key)
                if history is None:
                    history = self.histories[key] = []
                    insort(self.sorted_keys, key)
                if history and history[-1][0] == self.write_number:
                    history[-1] = (self.write_number, value)
                else:
                    history.append((self.write_number, value))
                if value is None or len(history) > 1:
                    self.untidy.add(key)
            self._tidy()

    def add_viewer(self) -> int:
        with self.lock:
            self.viewers[self.write_number] = self.viewers.get(self.write_number, 0) + 1
            return self.write_number

    def remove_viewer(self, write_number: int) -> None:
        """Call with the lock held."""
        self.viewers[write_number] -= 1
        if not self.viewers[write_number]:
            del self.viewers[write_number]
            self._tidy()

    def _tidy(self) -> None:
        if self.viewers:
            return
        for key in self.untidy:
            value = self.histories[key][-1][1]
            if value is None:
                del self.histories[key]
                del self.sorted_keys[bisect_left(self.sorted_keys, key)]
            else:
                self.histories[key][:-1] = []
        self.untidy.clear()


def _value_at(history: _History, write_number: int) -> bytes | None:
    for written_at, value in reversed(history):
        if written_at <= write_number:
            return value
    return None


class _MemorySnapshot:
    def __init__(self, engine: MemoryEngine, contents: _Contents) -> None:
        self._engine = engine
        self._contents = contents
        self._write_number = contents.add_viewer()
        self._closed = False

    def get(self, key: bytes) -> bytes | None:
        return self.get_many((key,))[0]

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        with self._contents.lock:
            self._check_open()
            histories, at = self._contents.histories, self._write_number
            return [_value_at(histories[key], at) if key in histories else None for key in keys]

    def scan(self, start: bytes, end: bytes, *, row_limit: int = 0, byte_limit: int = 0, reverse: bool = False) -> Scan:
        rows: list[tuple[bytes, bytes]] = []
        value_bytes = 0
        with self._contents.lock:
            self._check_open()
            sorted_keys = self._contents.sorted_keys
            span = range(bisect_left(sorted_keys, start), bisect_left(sorted_keys, end))
            for position in reversed(span) if reverse else span:
                key = sorted_keys[position]
                value = _value_at(self._contents.histories[key], self._write_number)
                if value is None:
                    continue
                if (row_limit and len(rows) >= row_limit) or (byte_limit and value_bytes >= byte_limit and rows):
                    return Scan(rows, more=True)
                rows.append((key, value))
                value_bytes += len(value)
        return Scan(rows, more=False)

    def close(self) -> None:
        self._engine.forget(self)
        with self._contents.lock:
            if not self._closed:
                self._closed = True
                self._contents.remove_viewer(self._write_number)

    def _check_open(self) -> None:
        if self._closed:
            raise EngineClosed("the snapshot is closed")


class MemoryEngine:
    """See the module."""

    def __init__(self, contents: _Contents) -> None:
        self._contents = contents
        self._lock = threading.Lock()
        self._snapshots: set[_MemorySnapshot] = set()
        self._closed = False

    @property
    def name(self) -> str:
        """Name of the engine as in the registry."""
        return "memory"

    def snapshot(self) -> _MemorySnapshot:
        """Return a view of everything written so far. Raises EngineClosed."""
        with self._lock:
            self._check_open()
            snapshot = _MemorySnapshot(self, self._contents)
            self._snapshots.add(snapshot)
            return snapshot

    def write(self, operations: Iterable[Operation]) -> None:
        """Apply operations in order, atomically. Raises EngineClosed."""
        with self._lock:
            self._check_open()
            # Read to the end first: operations that fail half-way must leave nothing behind.
            self._contents.apply(list(operations))

    def working_bytes(self) -> int:
        """There is no disk."""
        return 0

    def recovery_bytes(self) -> int:
        """There is no disk."""
        return 0

    def stored_bytes(self, start: bytes, end: bytes) -> int:
        """There is no disk."""
        return 0

    def compact(self, start: bytes, end: bytes) -> None:
        """Nothing is kept that no snapshot needs."""

    def close(self) -> None:
        """Close every snapshot; the contents stay for the next opening. Safe to repeat."""
        with self._lock:
            self._closed = True
            open_snapshots = list(self._snapshots)
        for snapshot in open_snapshots:
            snapshot.close()

    def forget(self, snapshot: _MemorySnapshot) -> None:
        """Drop a snapshot from those to be closed with the engine."""
        self._snapshots.discard(snapshot)

    def _check_open(self) -> None:
        if self._closed:
            raise EngineClosed("the engine is closed")


class MemoryEngineFactory:
    """Makes memory engines, and opens again those that this factory made."""

    name: Final = "memory"
    is_durable: Final = False

    def __init__(self) -> None:
        self._contents_by_path: dict[Path, _Contents] = {}

    def create(self, path: Path) -> MemoryEngine:
        """Make an empty engine. Raises EngineExists when this factory already made one for the path."""
        if path in self._contents_by_path:
            raise EngineExists(f"{path} already holds a memory engine")
        self._contents_by_path[path] = _Contents()
        return self.open(path)

    def open(self, path: Path) -> MemoryEngine:
        """Open an engine that this factory made. Raises EngineMissing."""
        contents = self._contents_by_path.get(path)
        if contents is None:
            raise EngineMissing(f"no memory engine was made for {path} in this process")
        return MemoryEngine(contents)

"""LevelDB as an engine; the only module that uses plyvel.

* Every batch is synced before `write` returns, and every read verifies LevelDB's block checksums: `paranoid_checks`
  alone does not verify reads.
* LevelDB frees memory under whoever still reads when it is closed. Each snapshot therefore has a lock that its reads
  hold and that `close` waits for.
* After a failed write or merge, LevelDB refuses every batch until it is opened again, and leaves the half-made tables
  where they are until then.
* LevelDB's own LOCK is lost as soon as this process opens and closes any descriptor on it. `directory` holds the lock
  that counts, and nothing here touches a file inside the directory while it is open.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice, takewhile
from pathlib import Path
from typing import Final, NamedTuple

import plyvel

from services.storage.engine import (
    EngineClosed,
    EngineCorrupt,
    EngineError,
    EngineExists,
    EngineMissing,
    EngineWriteFailed,
    Operation,
    Scan,
)

_MEBIBYTE: Final = 1024 * 1024
_CACHE_BYTES: Final = 64 * _MEBIBYTE
_CACHED_SCAN_ROWS_MAX: Final = 1000
_BLOOM_BITS_PER_KEY: Final = 10
_WRITE_BUFFER_BYTES_MIN: Final = 256 * 1024
_WRITE_BUFFER_BYTES_MAX: Final = 16 * _MEBIBYTE
_WRITE_BUFFER_VOLUME_SHARE: Final = 256
_TABLE_BYTES_MIN: Final = _MEBIBYTE
_TABLE_BYTES_MAX: Final = 2 * _MEBIBYTE
_TABLE_VOLUME_SHARE: Final = 512
# LevelDB widens a merge of one table to at most 25 tables' worth, and a table lies over at most 10 of the next level; a
# merge that we ask for has one such table at each end.
_MERGED_TABLES_MAX: Final = 32
# About what an entry takes in memory beside its key and value.
_ENTRY_BYTES: Final = 32
# The manifest, its successor, and the remainders of blocks.
_SMALL_FILES_BYTES: Final = 256 * 1024
_KEY_END: Final = b"\xff" * 2048
_LEVEL_SIZES: Final = re.compile(r"^ *([01]) +[0-9]+ +([0-9]+) ", re.MULTILINE)


class _Sizes(NamedTuple):
    """Greatest sizes in bytes of what LevelDB holds in memory before it flushes, and of one table."""

    write_buffer_bytes: int
    table_bytes: int


class _LevelDBSnapshot:
    def __init__(self, engine: LevelDBEngine, handle: plyvel.Snapshot) -> None:
        self._engine = engine
        self._handle = handle
        self._lock = threading.Lock()
        self._closed = False

    def get(self, key: bytes) -> bytes | None:
        return self.get_many((key,))[0]

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        with self._lock:
            if self._closed:
                raise EngineClosed("the snapshot is closed")
            get = self._handle.get
            try:
                return [get(key, verify_checksums=True) for key in keys]
            except plyvel.Error as error:
                raise _engine_error(error) from error

    def scan(self, start: bytes, end: bytes, *, row_limit: int = 0, byte_limit: int = 0, reverse: bool = False) -> Scan:
        if start >= end:
            return Scan([], more=False)
        with self._lock:
            if self._closed:
                raise EngineClosed("the snapshot is closed")
            try:
                # A walk over a whole partition must not push everything else out of the cache.
                is_short = 0 < row_limit <= _CACHED_SCAN_ROWS_MAX
                with self._handle.iterator(
                    # plyvel walks backwards past a row that stands exactly at the start when it is the first it
                    # meets; so it gets no start, and the walk is ended here.
                    start=None if reverse else start,
                    stop=end,
                    reverse=reverse,
                    verify_checksums=True,
                    fill_cache=is_short,
                ) as iterator:
                    walk = takewhile(lambda row: row[0] >= start, iterator) if reverse else iterator
                    return _bounded(walk, row_limit, byte_limit)
            except plyvel.Error as error:
                raise _engine_error(error) from error

    def close(self) -> None:
        self._engine.forget(self)
        with self._lock:
            if not self._closed:
                self._closed = True
                self._handle.close()


class LevelDBEngine:
    """See the module."""

    def __init__(self, database: plyvel.DB, path: Path, sizes: _Sizes) -> None:
        self._database = database
        self._path = path
        self._sizes = sizes
        self._compaction_lock = threading.Lock()
        self._lock = threading.Lock()
        self._write_lock = threading.Lock()
        self._snapshots: set[_LevelDBSnapshot] = set()
        self._closed = False
        self._write_failure: str | None = None
        self._filled_bytes = 0
        self._flushed_bytes = 0

    @property
    def name(self) -> str:
        """Name of the engine as in the registry."""
        return "leveldb"

    def snapshot(self) -> _LevelDBSnapshot:
        """Return a view of everything written so far. Raises EngineClosed."""
        with self._lock:
            if self._closed:
                raise EngineClosed("the engine is closed")
            snapshot = _LevelDBSnapshot(self, self._database.snapshot())
            self._snapshots.add(snapshot)
            return snapshot

    def write(self, operations: Iterable[Operation]) -> None:
        """Apply operations in order, atomically and synced.

        Raises:
            EngineClosed: Nothing was written.
            EngineWriteFailed: The outcome is unknown; LevelDB refuses all further batches until it is reopened.
        """
        with self._write_lock:
            if self._closed:
                raise EngineClosed("the engine is closed")
            if self._write_failure is not None:
                raise EngineWriteFailed(f"an earlier batch failed: {self._write_failure}")
            # Not used as a context manager: that would write a half-built batch when an operation raises.
            batch = self._database.write_batch(sync=True)
            put, delete = batch.put, batch.delete
            batch_bytes = 0
            for key, value in operations:
                batch_bytes += len(key) + _ENTRY_BYTES
                if value is None:
                    delete(key)
                else:
                    put(key, value)
                    batch_bytes += len(value)
            self._note_batch(batch_bytes)
            try:
                batch.write()
            except plyvel.Error as error:
                self._write_failure = str(error)
                raise EngineWriteFailed(str(error), found_damage=_is_corruption(error)) from error

    def working_bytes(self) -> int:
        """Bytes that flushes and merges may take at present; 0 when closed.

        A merge of level 0 takes at most what lies in levels 0 and 1, one of a deeper level at most 32 tables, and
        none takes more than all tables. What is in memory now, in one buffer that is being flushed and one that is
        being filled, comes on top: once as tables, once more when those are merged. A batch goes into a buffer whole,
        so that large ones make large buffers.
        """
        in_memory = max(self._filled_bytes + self._flushed_bytes, 2 * self._sizes.write_buffer_bytes)
        with self._lock:
            if self._closed:
                return 0
            stored: int = self._database.approximate_size(b"", _KEY_END)
            statistics = self._database.get_property(b"leveldb.stats").decode("ascii")
        # Levels are told in whole MiB.
        upper = sum((int(size) + 1) * _MEBIBYTE for _, size in _LEVEL_SIZES.findall(statistics))
        merge = min(stored, max(upper, _MERGED_TABLES_MAX * self._sizes.table_bytes))
        return merge + 2 * in_memory + _SMALL_FILES_BYTES

    def _note_batch(self, batch_bytes: int) -> None:
        """Follow how LevelDB fills its buffers: a full one is put aside to be flushed when the next batch comes."""
        if self._filled_bytes > self._sizes.write_buffer_bytes:
            self._flushed_bytes, self._filled_bytes = self._filled_bytes, 0
        self._filled_bytes += batch_bytes

    def recovery_bytes(self) -> int:
        """Bytes that opening again may take: the logs once more as tables, and a manifest. Only looks at sizes."""
        log_bytes = 0
        # LevelDB may remove a log between the two looks.
        with suppress(FileNotFoundError), os.scandir(self._path) as entries:
            for entry in entries:
                if entry.name.endswith(".log"):
                    log_bytes += entry.stat().st_size
        return 2 * log_bytes + _SMALL_FILES_BYTES

    def stored_bytes(self, start: bytes, end: bytes) -> int:
        """About how many bytes the tables hold of [start, end); 0 when closed."""
        with self._lock:
            size: int = 0 if self._closed else self._database.approximate_size(start, end)
        return size

    def compact(self, start: bytes, end: bytes) -> None:
        """Merge all tables of [start, end) down to their deepest level; nothing when closed. `close` waits for it."""
        with self._compaction_lock:
            if not self._closed:
                self._database.compact_range(start=start, stop=end)

    def close(self) -> None:
        """Close every snapshot, wait for calls in progress, release the files. Safe to repeat."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            open_snapshots = list(self._snapshots)
        for snapshot in open_snapshots:
            snapshot.close()
        with self._compaction_lock, self._write_lock, self._lock:
            self._database.close()

    def forget(self, snapshot: _LevelDBSnapshot) -> None:
        """Drop a snapshot from those to be closed with the engine."""
        self._snapshots.discard(snapshot)


class LevelDBEngineFactory:
    """Makes and opens LevelDB directories."""

    name: Final = "leveldb"
    is_durable: Final = True

    def create(self, path: Path) -> LevelDBEngine:
        """Make an empty database at a path where nothing exists. Raises EngineExists or EngineError."""
        try:
            path.mkdir(parents=False)
        except FileExistsError as error:
            raise EngineExists(f"{path} already exists") from error
        return self._open(path, create=True)

    def open(self, path: Path) -> LevelDBEngine:
        """Open an existing database. Raises EngineMissing, EngineCorrupt or EngineError."""
        # Looked at before LevelDB is: opening a missing database would leave a LOCK file behind.
        if not (path / "CURRENT").is_file():
            raise EngineMissing(f"{path} holds no LevelDB database (its CURRENT file is missing)")
        return self._open(path, create=False)

    def _open(self, path: Path, *, create: bool) -> LevelDBEngine:
        sizes = _sizes_for(shutil.disk_usage(path).total)
        try:
            database = plyvel.DB(
                str(path),
                create_if_missing=create,
                error_if_exists=create,
                paranoid_checks=True,
                write_buffer_size=sizes.write_buffer_bytes,
                max_file_size=sizes.table_bytes,
                lru_cache_size=_CACHE_BYTES,
                bloom_filter_bits=_BLOOM_BITS_PER_KEY,
            )
        except plyvel.Error as error:
            raise _engine_error(error) from error
        return LevelDBEngine(database, path, sizes)


def _sizes_for(volume_bytes: int) -> _Sizes:
    """Choose sizes by that of the volume: what flushes and merges take must stay a small part of it."""
    buffer_bytes = volume_bytes // _WRITE_BUFFER_VOLUME_SHARE
    return _Sizes(
        min(max(buffer_bytes, _WRITE_BUFFER_BYTES_MIN), _WRITE_BUFFER_BYTES_MAX),
        min(max(volume_bytes // _TABLE_VOLUME_SHARE, _TABLE_BYTES_MIN), _TABLE_BYTES_MAX),
    )


def _bounded(walk: Iterator[tuple[bytes, bytes]], row_limit: int, byte_limit: int) -> Scan:
    if not byte_limit:
        rows = list(islice(walk, row_limit)) if row_limit else list(walk)
        return Scan(rows, bool(row_limit) and next(walk, None) is not None)
    rows = []
    value_bytes = 0
    for row in walk:
        rows.append(row)
        value_bytes += len(row[1])
        if value_bytes >= byte_limit or len(rows) == row_limit:
            return Scan(rows, next(walk, None) is not None)
    return Scan(rows, more=False)


def _engine_error(error: plyvel.Error) -> EngineError:
    return EngineCorrupt(str(error)) if _is_corruption(error) else EngineError(str(error))


def _is_corruption(error: plyvel.Error) -> bool:
    return isinstance(error, plyvel.CorruptionError) or "Corruption" in str(error)

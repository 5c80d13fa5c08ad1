"""Making a backup out of an export, and a store out of a backup."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final
from uuid import UUID

from services.domain.errors import StorageInconsistency
from services.runtime.fault_points import fault_point
from services.runtime.version import VERSION
from services.storage.backup_file import BACKUP_FORMAT_VERSION, BackupDamaged, BackupHeader, BackupReader, BackupWriter
from services.storage.directory import lay_store
from services.storage.engine import Engine, Operation
from services.storage.exporting import Export
from services.storage.layout import FORMAT_VERSION, META_KEY, StoreMeta, pack_meta, unpack_meta
from services.storage.marker import Marker
from services.storage.verification import Problem, StoreCheck, verify_snapshot

_BATCH_BYTES: Final = 4 * 1024 * 1024

Progress = Callable[[int], None]


class StoreInconsistent(Exception):
    """The store that is to be backed up does not agree with itself.

    Attributes:
        problems: What was found, at least one.
    """

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__(f"the store does not agree with itself in {len(problems)} places")
        self.problems = problems


def header_of(export: Export) -> BackupHeader:
    """What a backup of an export says of itself."""
    opening = export.opening
    return BackupHeader(
        BACKUP_FORMAT_VERSION,
        opening.store_id,
        opening.engine,
        opening.format_version,
        opening.incarnation,
        opening.sequence,
        opening.clock_ms,
        opening.partition_count,
        opening.key_count,
        VERSION,
    )


def write_backup(export: Export, write: Callable[[bytes], object], *, on_progress: Progress) -> BackupHeader:
    """Write a whole export as a backup, judging it on the way.

    Args:
        export: Of all partitions.
        write: Takes the next bytes of the file.
        on_progress: Told the number of living keys written so far.

    Returns:
        The header that was written.

    Raises:
        StoreInconsistent: What was written is no good backup and must be thrown away.
        StorageUnavailable: The store was closed or opened again meanwhile; the same.
        OSError: The file cannot be written.
    """
    header = header_of(export)
    writer = BackupWriter(write, header)
    check = StoreCheck(header.sequence)
    for page in export.pages:
        for part in page.unreadable:
            check.miss(part)
        for key, value in page.rows:
            check.take(key, value)
            writer.put(key, value)
        on_progress(check.value_count)
        fault_point("backup.page")
    problems = check.finish()
    if problems:
        raise StoreInconsistent(problems)
    writer.finish()
    return header


def restore_store(path: Path, reader: BackupReader, *, engine: str = "leveldb", on_progress: Progress) -> None:
    """Make a store out of a backup, in a directory that is missing or empty.

    The store keeps its id, its sequences and its change log. Nothing of it is there to be opened before the whole file
    has been read, every checksum in it has been judged, and everything was read back from the disk and agreed with
    itself.

    Args:
        path: The directory.
        reader: At the first page of its file.
        engine: Name of a durable engine.
        on_progress: Told the bytes of the file read so far.

    Raises:
        BackupDamaged: The file is not the whole and unchanged backup, or holds a store that contradicts itself.
        DirectoryError: See `directory.lay_store`.
        OSError: The file cannot be read.
    """
    header = reader.header
    if header.storage_format_version != FORMAT_VERSION:
        raise BackupDamaged(
            f"it holds a store of format version {header.storage_format_version}, this program reads {FORMAT_VERSION}"
        )
    marker = Marker(header.store_id, FORMAT_VERSION, engine, header.sequence)
    lay_store(path, marker, lambda draft: _fill(draft, reader, on_progress), only_empty=True)


def _fill(draft: Engine, reader: BackupReader, on_progress: Progress) -> None:
    meta: StoreMeta | None = None
    held: list[Operation] = []
    held_bytes = 0
    try:
        for rows in reader.pages():
            for key, value in rows:
                if key == META_KEY:
                    meta = _restored_meta(value, reader.header)
                    continue
                held.append((key, value))
                held_bytes += len(value)
            if held_bytes >= _BATCH_BYTES:
                draft.write(held)
                held, held_bytes = [], 0
            on_progress(reader.bytes_read)
            fault_point("restore.page")
    except OSError as error:
        # Told apart from a directory that cannot be written.
        raise BackupDamaged(f"it cannot be read: {error.strerror or error}") from error
    if meta is None:
        raise BackupDamaged("it does not hold the store's own entry")
    draft.write([*held, (META_KEY, pack_meta(meta))])
    snapshot = draft.snapshot()
    try:
        found = verify_snapshot(snapshot)
    finally:
        snapshot.close()
    if found.problems:
        raise BackupDamaged(f"the store in it contradicts itself: {found.problems[0]}")
    if (found.partition_count, found.key_count) != (reader.header.partition_count, reader.header.key_count):
        raise BackupDamaged("its header counts other partitions or keys than it holds")
    fault_point("restore.filled")


def _restored_meta(stored: bytes, header: BackupHeader) -> StoreMeta:
    """The store's own entry as the restored store begins: under its id, at its commit, never at an earlier time."""
    try:
        meta = unpack_meta(stored)
    except StorageInconsistency as error:
        raise BackupDamaged(str(error)) from error
    if (str(UUID(bytes=meta.store_id)), meta.sequence) != (header.store_id, header.sequence):
        raise BackupDamaged("its header names another store or commit than it holds")
    return meta._replace(clock_ms=max(meta.clock_ms, header.clock_ms))

"""The format of a backup file, version 1: written and read here only.

    magic     16 bytes, "WAGGLE BACKUP" and line ends that a transfer as text would change
    block     kind (1 byte), length of the content (4 bytes), content, checksum (32 bytes)
    block     ...

Numbers are big-endian. The checksum of a block is BLAKE2b-256 over the checksum before it (over the magic for the
first) and the block's kind, length and content, so that a block that was changed, left out, repeated or moved is
found at its place, and the last checksum stands for the whole file.

    H  header, the first block: canonical JSON, see `BackupHeader`
    R  rows: length of the key (2 bytes), length of the value (4 bytes), key, value, and so on
    E  end, the last block: canonical JSON {"row_count", "value_bytes"}; nothing follows it

Rows are those of an export, each with the checksum of its own that the store gave it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import BinaryIO, Final, NamedTuple

from services.domain.canonical_json import canonical_bytes, parse_canonical
from services.storage.store_rows import PhysicalRow

BACKUP_FORMAT_VERSION: Final = 1

_MAGIC: Final = b"WAGGLE BACKUP\r\n\x1a"
_PREFIX: Final = struct.Struct(">cI")
_ROW: Final = struct.Struct(">HI")
_CHECKSUM_BYTES: Final = 32
_HEADER: Final = b"H"
_ROWS: Final = b"R"
_END: Final = b"E"
# Above the largest value with its key; a length that is more was damaged.
_BLOCK_BYTES_MAX: Final = 64 * 1024 * 1024
_BLOCK_BYTES_TARGET: Final = 1024 * 1024


class BackupDamaged(Exception):
    """A file is no backup, or not the whole and unchanged one. The message says what was found, and where."""


class BackupHeader(NamedTuple):
    """What a backup says of itself."""

    format_version: int
    store_id: str
    engine: str
    """Engine of the store that was backed up; a backup can be restored to any durable one."""
    storage_format_version: int
    incarnation: str
    """Of the opening that the backup was made from."""
    sequence: int
    """Sequence of the newest commit in the backup."""
    clock_ms: int
    """The store's clock after the snapshot was taken; a restored store never shows a time below it."""
    partition_count: int
    key_count: int
    program_version: str


class BackupWriter:
    """Writes a backup, block by block.

    Args:
        write: Takes the next bytes of the file.
        header: What the backup says of itself.
    """

    def __init__(self, write: Callable[[bytes], object], header: BackupHeader) -> None:
        self._write = write
        self._chain = _MAGIC
        self._held: list[bytes] = []
        self._held_bytes = 0
        self.row_count = 0
        """Rows written so far."""
        self.value_bytes = 0
        """Sum of the lengths of their values."""
        write(_MAGIC)
        self._block(_HEADER, canonical_bytes(header._asdict()))

    def put(self, key: bytes, value: bytes) -> None:
        """Write a row."""
        self._held += (_ROW.pack(len(key), len(value)), key, value)
        self._held_bytes += _ROW.size + len(key) + len(value)
        self.row_count += 1
        self.value_bytes += len(value)
        if self._held_bytes >= _BLOCK_BYTES_TARGET:
            self._flush()

    def finish(self) -> None:
        """Write what is held and the end block."""
        self._flush()
        self._block(_END, canonical_bytes({"row_count": self.row_count, "value_bytes": self.value_bytes}))

    def _flush(self) -> None:
        if self._held:
            self._block(_ROWS, b"".join(self._held))
            self._held, self._held_bytes = [], 0

    def _block(self, kind: bytes, content: bytes) -> None:
        prefix = _PREFIX.pack(kind, len(content))
        self._chain = _checksum(self._chain, prefix, content)
        self._write(prefix + content + self._chain)


class BackupReader:
    """Reads a backup from its start to its end, once.

    Args:
        file: The file, at its start.

    Attributes:
        header: What the backup says of itself.
        bytes_read: Bytes read so far.

    Raises:
        BackupDamaged: It is no backup, or its header is damaged, or of another version.
        OSError: It cannot be read.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._number = 0
        self.bytes_read = 0
        if self._take(len(_MAGIC)) != _MAGIC:
            raise BackupDamaged("it is not a Waggle backup")
        self._chain = _MAGIC
        kind, content = self._next_block()
        try:
            stated = parse_canonical(content) if kind == _HEADER else {}
            version = stated["format_version"]
            if version != BACKUP_FORMAT_VERSION:
                raise BackupDamaged(f"its format version is {version}, this program reads {BACKUP_FORMAT_VERSION}")
            self.header = BackupHeader(**{name: stated[name] for name in BackupHeader._fields})
        except (ValueError, KeyError, TypeError) as error:
            raise BackupDamaged("its first block is no header") from error

    def pages(self) -> Iterator[list[PhysicalRow]]:
        """Yield the rows, block after block. Only when this has ended is the whole file known to be good.

        Raises:
            BackupDamaged: A block is not the one that was written, the file is cut short, or something follows its end.
            OSError: It cannot be read.
        """
        row_count = value_bytes = 0
        while True:
            kind, content = self._next_block()
            if kind == _END:
                break
            if kind != _ROWS:
                raise BackupDamaged(f"block {self._number} is of an unknown kind")
            rows = self._rows(content)
            row_count += len(rows)
            value_bytes += sum(len(value) for _, value in rows)
            yield rows
        if content != canonical_bytes({"row_count": row_count, "value_bytes": value_bytes}):
            raise BackupDamaged("its end block counts other rows than it holds")
        if self._file.read(1):
            raise BackupDamaged("something follows its end block")

    def _rows(self, content: bytes) -> list[PhysicalRow]:
        rows = []
        place = 0
        while place < len(content):
            try:
                key_bytes, value_bytes = _ROW.unpack_from(content, place)
            except struct.error as error:
                raise BackupDamaged(f"block {self._number} ends within a row") from error
            middle = place + _ROW.size + key_bytes
            place = middle + value_bytes
            if place > len(content):
                raise BackupDamaged(f"block {self._number} ends within a row")
            rows.append((content[middle - key_bytes : middle], content[middle:place]))
        return rows

    def _next_block(self) -> tuple[bytes, bytes]:
        self._number += 1
        start = self.bytes_read
        where = f"block {self._number}, which begins at byte {start}"
        prefix = self._take(_PREFIX.size)
        if len(prefix) < _PREFIX.size:
            raise BackupDamaged(f"it was cut short: {where}, is not all there, and no end block came before")
        kind, length = _PREFIX.unpack(prefix)
        if length > _BLOCK_BYTES_MAX:
            raise BackupDamaged(f"{where}, does not agree with its checksum")
        content = self._take(length)
        found = self._take(_CHECKSUM_BYTES)
        if len(found) < _CHECKSUM_BYTES:
            raise BackupDamaged(f"it was cut short: {where}, is not all there, and no end block came before")
        self._chain = _checksum(self._chain, prefix, content)
        if found != self._chain:
            raise BackupDamaged(f"{where}, does not agree with its checksum")
        return kind, content

    def _take(self, length: int) -> bytes:
        taken = self._file.read(length)
        self.bytes_read += len(taken)
        return taken


def _checksum(before: bytes, prefix: bytes, content: bytes) -> bytes:
    digest = blake2b(before, digest_size=_CHECKSUM_BYTES)
    digest.update(prefix)
    digest.update(content)
    return digest.digest()

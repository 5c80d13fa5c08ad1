"""The physical keys and values of a store; nothing else builds or reads them. Format version 1.

    m                                       the store: id, format version, sequence, clock, incarnation
    p  partition                            head of a partition: sequence, deleted keys, living keys by first byte, and
                                            up to where deletions were forgotten
    d  partition  key                       version, checksum, value
    l  partition  sequence  key             change log: the key was last put, or deleted, by the commit of that sequence
    x  partition  key                       the sequence of the commit that deleted the key

A partition is 32 bytes, numbers are 8 bytes big-endian unsigned. Every value starts with or holds an 8-byte BLAKE2b
over its whole physical key and the rest of the value, so that a value that was changed, or that belongs to another key,
is found when it is read.

A key has exactly one entry in its partition's change log, that of its last change: a commit that changes it removes the
former entry, which it finds by the version in the key's `d` value, or in its `x` value when the key is deleted. For
example key k, put by commit 3, deleted by 5 and put again by 9:

    after 3:  d k = (3, value)    l 3 k = put
    after 5:  x k = 5             l 5 k = deleted
    after 9:  d k = (9, value)    l 9 k = put

A deletion may be forgotten (see `retention`): its `x` note and its `l` entry go, and the head notes the sequence below
which the log no longer tells every deletion.
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from typing import Final, NamedTuple

from services.domain.errors import StorageInconsistency

FORMAT_VERSION: Final = 1
PARTITION_BYTES: Final = 32
KEY_BYTES_MAX: Final = 1024
VALUE_BYTES_MAX: Final = 16 * 1024 * 1024

META_KEY: Final = b"m"
DATA_OFFSET: Final = 1 + PARTITION_BYTES
"""Where the key starts in a physical `d` or `x` key."""
LOG_KEY_OFFSET: Final = 1 + PARTITION_BYTES + 8
"""Where the key starts in a physical `l` key."""
ENVELOPE_BYTES: Final = 16
"""Length of version and checksum in front of a value."""

_HEAD_TAG: Final = b"p"
_DATA_TAG: Final = b"d"
_LOG_TAG: Final = b"l"
_DELETION_TAG: Final = b"x"
PARTITION_TAGS: Final = (_HEAD_TAG, _DATA_TAG, _LOG_TAG, _DELETION_TAG)
"""The tags that a partition follows."""
_CHECKSUM_BYTES: Final = 8
_UINT64: Final = struct.Struct(">Q")
_KEY_LENGTH: Final = struct.Struct(">H")
_META: Final = struct.Struct(">16sIQq16s")
_HEAD: Final = struct.Struct(">QQ")
_KIND_COUNT: Final = struct.Struct(">BQ")
_LOG_PUT: Final = b"\x01"
_LOG_DELETED: Final = b"\x02"


class StoreMeta(NamedTuple):
    """What the store knows of itself; rewritten with every batch."""

    store_id: bytes
    """16 bytes of a UUID, made when the store was created."""
    format_version: int
    sequence: int
    """Sequence of the newest commit."""
    clock_ms: int
    """Highest time that was persisted, in milliseconds since the Unix epoch."""
    incarnation: bytes
    """16 bytes of the UUID of the opening that wrote this."""


class PartitionHead(NamedTuple):
    """Running totals of one partition."""

    sequence: int
    """Sequence of the last commit that changed the partition; 0 for none."""
    deleted_count: int
    """Number of keys whose last change was a deletion."""
    counts: dict[int, int]
    """Number of living keys by their first byte; no zeros."""
    forgotten: int = 0
    """Deletions up to this sequence may be missing from the change log; 0 when every one is told."""


EMPTY_HEAD: Final = PartitionHead(0, 0, {})


def checksum(physical_key: bytes, *parts: bytes) -> bytes:
    """8 bytes of BLAKE2b over the length of the key, the key and the parts of its value."""
    return blake2b(
        b"".join((_KEY_LENGTH.pack(len(physical_key)), physical_key, *parts)), digest_size=_CHECKSUM_BYTES
    ).digest()


def head_key(partition: bytes) -> bytes:
    """Physical key of a partition's head."""
    return _HEAD_TAG + partition


def head_range() -> tuple[bytes, bytes]:
    """Physical range of all heads."""
    return tag_range(_HEAD_TAG)


def data_key(partition: bytes, key: bytes) -> bytes:
    """Physical key of a value."""
    return _DATA_TAG + partition + key


def data_range(partition: bytes, start: bytes, end: bytes) -> tuple[bytes, bytes]:
    """Physical range of the values of [start, end); an empty end means the end of the partition."""
    return _DATA_TAG + partition + start, _range_end(_DATA_TAG + partition, end)


def deletion_key(partition: bytes, key: bytes) -> bytes:
    """Physical key of the note that a key was deleted."""
    return _DELETION_TAG + partition + key


def deletion_range(partition: bytes) -> tuple[bytes, bytes]:
    """Physical range of all deletion notes of a partition."""
    return _DELETION_TAG + partition, _range_end(_DELETION_TAG + partition, b"")


def log_key(partition: bytes, sequence: int, key: bytes) -> bytes:
    """Physical key of a change log entry."""
    return b"".join((_LOG_TAG, partition, _UINT64.pack(sequence), key))


def log_range(partition: bytes, after: int) -> tuple[bytes, bytes]:
    """Physical range of the change log entries with a sequence above `after`."""
    return _LOG_TAG + partition + _UINT64.pack(after + 1), _range_end(_LOG_TAG + partition, b"")


def tag_range(prefix: bytes) -> tuple[bytes, bytes]:
    """Physical range of everything under a tag, or under a tag and a partition."""
    return prefix, _range_end(prefix, b"")


def _range_end(prefix: bytes, end: bytes) -> bytes:
    # Keys have at most 1,024 bytes, so nothing in the partition sorts after this.
    return prefix + (end or b"\xff" * (PARTITION_BYTES + KEY_BYTES_MAX + 9))


def pack_value(physical_key: bytes, version: int, value: bytes) -> bytes:
    """Wrap a value with its version and checksum."""
    packed_version = _UINT64.pack(version)
    return b"".join((packed_version, checksum(physical_key, packed_version, value), value))


def unpack_value(physical_key: bytes, stored: bytes) -> tuple[int, bytes]:
    """Return version and value. Raises StorageInconsistency when the checksum does not agree."""
    value = stored[ENVELOPE_BYTES:]
    if len(stored) < ENVELOPE_BYTES or stored[8:ENVELOPE_BYTES] != checksum(physical_key, stored[:8], value):
        raise _damaged("value", physical_key)
    return _UINT64.unpack_from(stored)[0], value


def pack_log_entry(physical_key: bytes, *, deleted: bool) -> bytes:
    """Build the value of a change log entry."""
    kind = _LOG_DELETED if deleted else _LOG_PUT
    return kind + checksum(physical_key, kind)


def unpack_log_entry(physical_key: bytes, stored: bytes) -> tuple[int, bytes, bool]:
    """Return sequence, key, and whether it was deleted. Raises StorageInconsistency."""
    kind = stored[:1]
    if (
        kind not in (_LOG_PUT, _LOG_DELETED)
        or stored[1:] != checksum(physical_key, kind)
        or len(physical_key) <= LOG_KEY_OFFSET
    ):
        raise _damaged("change log entry", physical_key)
    sequence: int = _UINT64.unpack_from(physical_key, DATA_OFFSET)[0]
    return sequence, physical_key[LOG_KEY_OFFSET:], kind == _LOG_DELETED


def pack_deletion(physical_key: bytes, sequence: int) -> bytes:
    """Build the note that a key was deleted by the commit of a sequence."""
    packed = _UINT64.pack(sequence)
    return packed + checksum(physical_key, packed)


def unpack_deletion(physical_key: bytes, stored: bytes) -> int:
    """Return the sequence of the deletion. Raises StorageInconsistency."""
    if len(stored) != 16 or stored[8:] != checksum(physical_key, stored[:8]):
        raise _damaged("deletion note", physical_key)
    sequence: int = _UINT64.unpack_from(stored)[0]
    return sequence


def pack_head(physical_key: bytes, head: PartitionHead) -> bytes:
    """Build the value of a partition head."""
    body = _HEAD.pack(head.sequence, head.deleted_count) + b"".join(
        _KIND_COUNT.pack(kind, count) for kind, count in sorted(head.counts.items()) if count
    )
    if head.forgotten:
        # Counts take 9 bytes each, so 8 more at the end are told from them by the length.
        body += _UINT64.pack(head.forgotten)
    return checksum(physical_key, body) + body


def unpack_head(physical_key: bytes, stored: bytes | None) -> PartitionHead:
    """Return a partition head, an empty one when nothing is stored. Raises StorageInconsistency."""
    if stored is None:
        return EMPTY_HEAD
    body = stored[_CHECKSUM_BYTES:]
    kinds, tail_bytes = divmod(len(body) - _HEAD.size, _KIND_COUNT.size)
    if kinds < 0 or tail_bytes not in (0, _UINT64.size) or stored[:_CHECKSUM_BYTES] != checksum(physical_key, body):
        raise _damaged("partition head", physical_key)
    sequence, deleted_count = _HEAD.unpack_from(body)
    kinds_end = _HEAD.size + kinds * _KIND_COUNT.size
    counts = dict(_KIND_COUNT.iter_unpack(body[_HEAD.size : kinds_end]))
    forgotten: int = _UINT64.unpack_from(body, kinds_end)[0] if tail_bytes else 0
    return PartitionHead(sequence, deleted_count, counts, forgotten)


def head_sequence(physical_key: bytes, stored: bytes | None) -> int:
    """Return the sequence of a partition head, without its counts. Raises StorageInconsistency."""
    if stored is None:
        return 0
    if len(stored) < _CHECKSUM_BYTES + _HEAD.size or stored[:_CHECKSUM_BYTES] != checksum(
        physical_key, stored[_CHECKSUM_BYTES:]
    ):
        raise _damaged("partition head", physical_key)
    sequence: int = _UINT64.unpack_from(stored, _CHECKSUM_BYTES)[0]
    return sequence


def pack_meta(meta: StoreMeta) -> bytes:
    """Build the value of the store's own entry."""
    body = _META.pack(*meta)
    return checksum(META_KEY, body) + body


def unpack_meta(stored: bytes) -> StoreMeta:
    """Return the store's own entry. Raises StorageInconsistency."""
    body = stored[_CHECKSUM_BYTES:]
    if len(body) != _META.size or stored[:_CHECKSUM_BYTES] != checksum(META_KEY, body):
        raise _damaged("store entry", META_KEY)
    return StoreMeta(*_META.unpack(body))


def _damaged(what: str, physical_key: bytes) -> StorageInconsistency:
    return StorageInconsistency(
        f"a stored {what} does not agree with its checksum", partition=physical_key[1:DATA_OFFSET] or None
    )

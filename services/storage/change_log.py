"""Reading what changed in a partition, page by page, from one snapshot of the engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from services.domain.errors import StorageInconsistency
from services.storage.contract import Row
from services.storage.engine import EngineSnapshot
from services.storage.layout import (
    DATA_OFFSET,
    data_key,
    data_range,
    log_range,
    unpack_log_entry,
    unpack_value,
)

PAGE_ROWS_MAX: Final = 8192


def iterate_living(
    snapshot: EngineSnapshot, partition: bytes, *, key_prefixes: Sequence[bytes], page_bytes: int
) -> Iterator[list[Row]]:
    """Yield every living key of a partition in key order, in pages that are never empty.

    Args:
        snapshot: Where to read.
        partition: 32 bytes.
        key_prefixes: Only keys that start with one of these; empty for all.
        page_bytes: Target size of a page in bytes of stored values.

    Raises:
        StorageInconsistency: A value contradicts its checksum.
    """
    for prefix in _disjoint_prefixes(key_prefixes):
        start, end = data_range(partition, prefix, _prefix_end(prefix))
        more = True
        while more:
            rows, more = snapshot.scan(start, end, row_limit=PAGE_ROWS_MAX, byte_limit=page_bytes)
            page = []
            for physical_key, stored in rows:
                version, value = unpack_value(physical_key, stored)
                page.append(Row(physical_key[DATA_OFFSET:], value, version))
            if more:
                start = rows[-1][0] + b"\x00"
            if page:
                yield page


def iterate_changed(
    snapshot: EngineSnapshot, partition: bytes, after: int, *, key_prefixes: Sequence[bytes], page_bytes: int
) -> Iterator[list[Row]]:
    """Yield every key that changed after a sequence, in the order of its last change, in pages that are never empty.

    Arguments and errors as `iterate_living`; also StorageInconsistency when log and values contradict each other.
    """
    prefixes = tuple(key_prefixes) or (b"",)
    start, end = log_range(partition, after)
    more = True
    page: list[Row] = []
    value_bytes = 0
    while more:
        entries, more = snapshot.scan(start, end, row_limit=1024)
        if more:
            start = entries[-1][0] + b"\x00"
        for log_entry in entries:
            sequence, key, deleted = unpack_log_entry(*log_entry)
            if not key.startswith(prefixes):
                continue
            physical_key = data_key(partition, key)
            stored = snapshot.get(physical_key)
            version, value = (sequence, b"") if stored is None else unpack_value(physical_key, stored)
            if deleted is not (stored is None) or version != sequence:
                raise StorageInconsistency("the change log does not agree with the values", partition=partition)
            page.append(Row(key, value, version, deleted))
            value_bytes += len(value)
            if value_bytes >= page_bytes or len(page) >= PAGE_ROWS_MAX:
                yield page
                page, value_bytes = [], 0
    if page:
        yield page


def _disjoint_prefixes(prefixes: Sequence[bytes]) -> list[bytes]:
    """Sorted prefixes without those that another one covers; one empty prefix for none."""
    disjoint: list[bytes] = []
    for prefix in sorted(prefixes) or [b""]:
        if not disjoint or not prefix.startswith(disjoint[-1]):
            disjoint.append(prefix)
    return disjoint


def _prefix_end(prefix: bytes) -> bytes:
    """The first key after all that start with a prefix; empty when there is none."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else b""

"""Checking a whole store: every checksum, every count, and that the change log tells exactly what is there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from services.domain.errors import StorageInconsistency
from services.storage.engine import EngineCorrupt, EngineSnapshot
from services.storage.layout import (
    DATA_OFFSET,
    META_KEY,
    PARTITION_TAGS,
    data_range,
    deletion_range,
    head_key,
    log_range,
    tag_range,
    unpack_deletion,
    unpack_head,
    unpack_log_entry,
    unpack_meta,
    unpack_value,
)

_SCAN_ROWS: Final = 4096
_SCAN_BYTES: Final = 4 * 1024 * 1024


class Verification(NamedTuple):
    """What a check of a whole store found."""

    partition_count: int
    key_count: int
    """Living keys of the partitions without problems."""
    problems: list[str]
    """A sentence for each, without stored content; empty when all is well."""


def verify_snapshot(snapshot: EngineSnapshot) -> Verification:
    """Check everything that a store holds. Reports and never repairs.

    Args:
        snapshot: The state to check.

    Raises:
        EngineError: The engine cannot read, for another cause than damage.
    """
    problems: list[str] = []
    key_count = 0
    try:
        newest = unpack_meta(snapshot.get(META_KEY) or b"").sequence
        partitions = _partitions(snapshot)
    except (StorageInconsistency, EngineCorrupt) as error:
        return Verification(0, 0, [f"the store: {error}"])
    for partition in partitions:
        try:
            found, keys = _check_partition(snapshot, partition, newest)
        except (StorageInconsistency, EngineCorrupt) as error:
            found, keys = [str(error)], 0
        problems += [f"partition {partition.hex()}: {problem}" for problem in found]
        key_count += keys
    return Verification(len(partitions), key_count, problems)


def _check_partition(snapshot: EngineSnapshot, partition: bytes, newest: int) -> tuple[list[str], int]:
    head = unpack_head(head_key(partition), snapshot.get(head_key(partition)))
    living: dict[bytes, int] = {}
    for physical_key, stored in _rows(snapshot, data_range(partition, b"", b"")):
        living[physical_key[DATA_OFFSET:]] = unpack_value(physical_key, stored)[0]
    deleted = {
        physical_key[DATA_OFFSET:]: unpack_deletion(physical_key, stored)
        for physical_key, stored in _rows(snapshot, deletion_range(partition))
    }
    entries = [unpack_log_entry(*row) for row in _rows(snapshot, log_range(partition, 0))]
    logged_living = {key: sequence for sequence, key, is_deleted in entries if not is_deleted}
    logged_deleted = {key: sequence for sequence, key, is_deleted in entries if is_deleted}
    problems = []
    if logged_living != living or logged_deleted != deleted or len(entries) != len(living) + len(deleted):
        problems.append("the change log does not tell what is there")
    if Counter(key[0] for key in living) != head.counts or len(deleted) != head.deleted_count:
        problems.append("the counts in its head are not those of its keys")
    if not max((*living.values(), *deleted.values()), default=0) <= head.sequence <= newest:
        problems.append("its head is not at its last change")
    return problems, len(living)


def _partitions(snapshot: EngineSnapshot) -> list[bytes]:
    """Every partition that has a head, a value, a log entry or a deletion note."""
    partitions: set[bytes] = set()
    for tag in PARTITION_TAGS:
        start, end = tag_range(tag)
        while rows := snapshot.scan(start, end, row_limit=1).rows:
            partition = rows[0][0][1:DATA_OFFSET]
            partitions.add(partition)
            start = tag_range(tag + partition)[1]
    return sorted(partitions)


def _rows(snapshot: EngineSnapshot, bounds: tuple[bytes, bytes]) -> Iterator[tuple[bytes, bytes]]:
    start, end = bounds
    more = True
    while more:
        rows, more = snapshot.scan(start, end, row_limit=_SCAN_ROWS, byte_limit=_SCAN_BYTES)
        yield from rows
        if more:
            start = rows[-1][0] + b"\x00"

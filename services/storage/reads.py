"""Answering gets and scans from one snapshot of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from services.domain.errors import InvalidRequest
from services.storage.contract import (
    RANGE_BYTES_DEFAULT,
    READ_BYTES_MAX,
    KeyRange,
    PartitionRead,
    PartitionState,
    RangeRows,
    Row,
    VersionedValue,
)
from services.storage.engine import EngineSnapshot
from services.storage.layout import (
    DATA_OFFSET,
    META_KEY,
    data_key,
    data_range,
    head_key,
    head_sequence,
    unpack_meta,
    unpack_value,
)

_ABSENT: Final = VersionedValue(None, 0)


def answer_reads(snapshot: EngineSnapshot, partitions: Sequence[PartitionRead]) -> tuple[list[PartitionState], int]:
    """Return what partitions hold, in request order, and the sequence of the newest commit in the snapshot.

    Raises:
        InvalidRequest: The values would exceed 48 MiB in all.
        StorageInconsistency: A stored value contradicts its checksum.
        EngineError: The engine cannot read.
    """
    # One call for everything: heads and values of all partitions.
    physical_keys = [META_KEY]
    for read in partitions:
        physical_keys.append(head_key(read.partition))
        physical_keys += [data_key(read.partition, key) for key in read.keys]
    stored = iter(zip(physical_keys, snapshot.get_many(physical_keys), strict=True))
    sequence = unpack_meta(next(stored)[1] or b"").sequence
    states = []
    room = READ_BYTES_MAX
    for read in partitions:
        head = head_sequence(*next(stored))
        values = []
        for _ in read.keys:
            physical_key, value = next(stored)
            if value is None:
                values.append(_ABSENT)
            else:
                version, payload = unpack_value(physical_key, value)
                values.append(VersionedValue(payload, version))
                room -= len(payload)
        ranges = []
        for key_range in read.ranges:
            rows, row_bytes = _scan(snapshot, read.partition, key_range)
            ranges.append(rows)
            room -= row_bytes
        if room < 0:
            raise InvalidRequest(f"the values would exceed {READ_BYTES_MAX} bytes", member="partitions")
        states.append(PartitionState(head, values, ranges))
    return states, sequence


def _scan(snapshot: EngineSnapshot, partition: bytes, key_range: KeyRange) -> tuple[RangeRows, int]:
    start, end = data_range(partition, key_range.start, key_range.end)
    found, more = snapshot.scan(
        start,
        end,
        row_limit=key_range.row_limit,
        byte_limit=key_range.byte_limit or RANGE_BYTES_DEFAULT,
        reverse=key_range.reverse,
    )
    rows = []
    row_bytes = 0
    for physical_key, stored in found:
        version, value = unpack_value(physical_key, stored)
        rows.append(Row(physical_key[DATA_OFFSET:], b"" if key_range.keys_only else value, version))
        row_bytes += len(value)
    return RangeRows(rows, more), row_bytes

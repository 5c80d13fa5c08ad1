"""The bounds of storage requests, checked in one place for every way in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from services.domain.errors import InvalidRequest
from services.storage.contract import (
    COMMIT_BYTES_MAX,
    KEYS_MAX,
    PAGE_BYTES_DEFAULT,
    PAGE_BYTES_MAX,
    PARTITION_COMMITS_MAX,
    PARTITION_READS_MAX,
    SNAPSHOT_TTL_MS_DEFAULT,
    SNAPSHOT_TTL_MS_MAX,
    Add,
    Commit,
    KeyRange,
    PartitionCommit,
    PartitionRead,
    Put,
)
from services.storage.layout import KEY_BYTES_MAX, PARTITION_BYTES, VALUE_BYTES_MAX

# A write puts its key under its value, into the change log, out of it, and into the note of a deletion.
_KEY_COPIES = 4
# Tags, partitions, sequences and checksums around those, and the engine's own framing; for a partition, its head.
_WRITE_OVERHEAD_BYTES = 320
_INT64_MIN = -(1 << 63)
_INT64_MAX = (1 << 63) - 1


def check_reads(partitions: Sequence[PartitionRead]) -> None:
    """Raise InvalidRequest unless the reads are within bounds."""
    if len(partitions) > PARTITION_READS_MAX:
        raise InvalidRequest(f"at most {PARTITION_READS_MAX}", member="partitions")
    for read in partitions:
        check_partition(read.partition)
        if len(read.keys) > KEYS_MAX:
            raise InvalidRequest(f"at most {KEYS_MAX}", member="partitions.keys")
        _check_keys(read.keys, "partitions.keys")
        _check_ranges(read.ranges, "partitions.ranges")


def check_commit(commit: Commit) -> int:
    """Return about how many bytes a commit writes, never too few. Raises InvalidRequest unless it is within bounds."""
    if len(commit.partitions) > PARTITION_COMMITS_MAX:
        raise InvalidRequest(f"at most {PARTITION_COMMITS_MAX}", member="partitions")
    value_bytes = sum(map(_check_partition_commit, commit.partitions))
    if value_bytes > COMMIT_BYTES_MAX:
        raise InvalidRequest(f"values of at most {COMMIT_BYTES_MAX} bytes in all", member="partitions.writes")
    key_bytes = sum(len(write.key) for part in commit.partitions for write in part.writes)
    write_count = sum(len(part.writes) for part in commit.partitions)
    return value_bytes + _KEY_COPIES * key_bytes + _WRITE_OVERHEAD_BYTES * (write_count + len(commit.partitions))


def _check_partition_commit(part: PartitionCommit) -> int:
    check_partition(part.partition)
    _check_keys([expectation.key for expectation in part.expected_keys], "partitions.expected_keys")
    _check_ranges(part.expected_ranges, "partitions.expected_ranges")
    _check_keys([write.key for write in part.writes], "partitions.writes.key")
    value_bytes = 0
    for write in part.writes:
        if isinstance(write, Put):
            if len(write.value) > VALUE_BYTES_MAX:
                raise InvalidRequest(f"at most {VALUE_BYTES_MAX} bytes", member="partitions.writes.put")
            value_bytes += len(write.value)
        elif isinstance(write, Add) and not _INT64_MIN <= write.amount <= _INT64_MAX:
            raise InvalidRequest("out of the signed 64-bit range", member="partitions.writes.add")
    return value_bytes


def check_partition(partition: bytes) -> None:
    """Raise InvalidRequest unless this is the id of a partition."""
    if len(partition) != PARTITION_BYTES:
        raise InvalidRequest(f"exactly {PARTITION_BYTES} bytes", member="partition")


def check_page_bytes(page_bytes: int) -> int:
    """Return the page size that a request asks for, in bytes. Raises InvalidRequest."""
    if not 0 <= page_bytes <= PAGE_BYTES_MAX:
        raise InvalidRequest(f"0 to {PAGE_BYTES_MAX}", member="page_bytes")
    return page_bytes or PAGE_BYTES_DEFAULT


def check_prefixes(prefixes: Sequence[bytes]) -> None:
    """Raise InvalidRequest unless these are prefixes of possible keys."""
    if len(prefixes) > KEYS_MAX or any(len(prefix) > KEY_BYTES_MAX for prefix in prefixes):
        raise InvalidRequest(f"at most {KEYS_MAX} of at most {KEY_BYTES_MAX} bytes", member="key_prefixes")


def check_ttl_ms(ttl_ms: int) -> int:
    """Return the time to live that a request asks for, in milliseconds. Raises InvalidRequest."""
    if not 0 <= ttl_ms <= SNAPSHOT_TTL_MS_MAX:
        raise InvalidRequest(f"0 to {SNAPSHOT_TTL_MS_MAX}", member="ttl_ms")
    return ttl_ms or SNAPSHOT_TTL_MS_DEFAULT


def _check_keys(keys: Iterable[bytes], member: str) -> None:
    for key in keys:
        if not 1 <= len(key) <= KEY_BYTES_MAX:
            raise InvalidRequest(f"1 to {KEY_BYTES_MAX} bytes", member=member)


def _check_ranges(ranges: Iterable[KeyRange], member: str) -> None:
    for key_range in ranges:
        if len(key_range.start) > KEY_BYTES_MAX + 1 or len(key_range.end) > KEY_BYTES_MAX + 1:
            raise InvalidRequest(f"bounds of at most {KEY_BYTES_MAX + 1} bytes", member=member)

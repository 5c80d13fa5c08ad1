"""Storage messages from and to the values of `contract`; nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from services.domain.errors import InvalidRequest
from services.storage.contract import (
    Add,
    ChangePage,
    Commit,
    Delete,
    KeyExpectation,
    KeyRange,
    PartitionCommit,
    PartitionRead,
    PartitionState,
    Put,
    RangeRows,
    ReadResult,
    Row,
    StoreStatus,
    VersionedValue,
    Write,
)
from waggle.storage.v1 import storage_service_pb2 as pb


def read_request(partitions: Sequence[PartitionRead], *, snapshot_id: str, pin: bool) -> pb.ReadRequest:
    """Build the message of a read."""
    return pb.ReadRequest(
        partitions=[
            pb.PartitionRead(
                partition=read.partition, keys=read.keys, ranges=[_range_message(item) for item in read.ranges]
            )
            for read in partitions
        ],
        snapshot_id=snapshot_id,
        pin=pin,
    )


def reads_from(request: pb.ReadRequest) -> list[PartitionRead]:
    """Take the reads out of a message."""
    return [
        PartitionRead(read.partition, tuple(read.keys), [_range_from(item) for item in read.ranges])
        for read in request.partitions
    ]


def read_response(result: ReadResult) -> pb.ReadResponse:
    """Build the answer of a read."""
    return pb.ReadResponse(
        partitions=[
            pb.PartitionState(
                head=state.head,
                values=[
                    pb.VersionedValue() if value is None else pb.VersionedValue(value=value, version=version)
                    for value, version in state.values
                ],
                ranges=[pb.RangeRows(rows=_row_messages(found.rows), more=found.more) for found in state.ranges],
            )
            for state in result.partitions
        ],
        sequence=result.sequence,
        clock_ms=result.clock_ms,
        incarnation=result.incarnation,
        snapshot_id=result.snapshot_id,
    )


def read_result_from(response: pb.ReadResponse) -> ReadResult:
    """Take the result out of the answer of a read."""
    return ReadResult(
        [
            PartitionState(
                state.head,
                [VersionedValue(found.value if found.version else None, found.version) for found in state.values],
                [RangeRows(_rows_from(found.rows), found.more) for found in state.ranges],
            )
            for state in response.partitions
        ],
        response.sequence,
        response.clock_ms,
        response.incarnation,
        response.snapshot_id,
    )


def commit_request(commit: Commit) -> pb.CommitRequest:
    """Build the message of a commit."""
    return pb.CommitRequest(
        partitions=[
            pb.PartitionCommit(
                partition=part.partition,
                expected_keys=[
                    pb.KeyExpectation(key=expected.key, version=expected.version) for expected in part.expected_keys
                ],
                expected_ranges=[_range_message(item) for item in part.expected_ranges],
                writes=[_write_message(write) for write in part.writes],
            )
            for part in commit.partitions
        ],
        read_sequence=commit.read_sequence,
        expected_incarnation=commit.expected_incarnation,
        clock_bound_ms=commit.clock_bound_ms,
        release_snapshot_id=commit.release_snapshot_id,
    )


def commit_from(request: pb.CommitRequest) -> Commit:
    """Take the commit out of a message. Raises InvalidRequest for a write without an action."""
    return Commit(
        [
            PartitionCommit(
                part.partition,
                [KeyExpectation(expected.key, expected.version) for expected in part.expected_keys],
                [_range_from(item) for item in part.expected_ranges],
                [_write_from(write) for write in part.writes],
            )
            for part in request.partitions
        ],
        read_sequence=request.read_sequence,
        expected_incarnation=request.expected_incarnation,
        clock_bound_ms=request.clock_bound_ms if request.HasField("clock_bound_ms") else None,
        release_snapshot_id=request.release_snapshot_id,
    )


def change_response(page: ChangePage) -> pb.ChangedSinceResponse:
    """Build the message of one page of changes."""
    return pb.ChangedSinceResponse(
        rows=_row_messages(page.rows),
        head=page.head,
        incarnation=page.incarnation,
        counts=[pb.KindCount(kind=kind, count=count) for kind, count in sorted(page.counts.items())],
        last=page.last,
    )


def change_page_from(response: pb.ChangedSinceResponse) -> ChangePage:
    """Take a page of changes out of its message."""
    counts = {item.kind: item.count for item in response.counts}
    return ChangePage(_rows_from(response.rows), response.head, response.incarnation, counts, response.last)


def status_response(status: StoreStatus) -> pb.StatusResponse:
    """Build the answer of a status request."""
    return pb.StatusResponse(**status._asdict())


def status_from(response: pb.StatusResponse) -> StoreStatus:
    """Take the status out of its message."""
    return StoreStatus(*(getattr(response, name) for name in StoreStatus._fields))


def _range_message(item: KeyRange) -> pb.KeyRange:
    return pb.KeyRange(
        start=item.start,
        end=item.end,
        row_limit=item.row_limit,
        byte_limit=item.byte_limit,
        reverse=item.reverse,
        keys_only=item.keys_only,
    )


def _range_from(item: pb.KeyRange) -> KeyRange:
    return KeyRange(item.start, item.end, item.row_limit, item.byte_limit, item.reverse, item.keys_only)


def _row_messages(rows: Iterable[Row]) -> list[pb.Row]:
    message = pb.Row
    return [message(key=key, value=value, version=version, deleted=deleted) for key, value, version, deleted in rows]


def _rows_from(rows: Iterable[pb.Row]) -> list[Row]:
    return [Row(row.key, row.value, row.version, row.deleted) for row in rows]


def _write_message(write: Write) -> pb.Write:
    if isinstance(write, Put):
        return pb.Write(key=write.key, put=write.value)
    if isinstance(write, Add):
        return pb.Write(key=write.key, add=write.amount)
    return pb.Write(key=write.key, delete=True)


def _write_from(message: pb.Write) -> Write:
    action = message.WhichOneof("action")
    if action == "put":
        return Put(message.key, message.put)
    if action == "add":
        return Add(message.key, message.add)
    if action == "delete" and message.delete:
        return Delete(message.key)
    raise InvalidRequest("says neither put, delete nor add", member="partitions.writes.action")

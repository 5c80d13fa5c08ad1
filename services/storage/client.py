"""The store behind a socket: what other services open."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

import grpc

from services.domain.errors import WaggleError
from services.runtime.call_context import outgoing_metadata, remaining_s
from services.runtime.status import RpcFailure, error_from_rpc, error_info
from services.runtime.transport import PLAIN, Transport
from services.storage import convert
from services.storage.backoff import Backoff
from services.storage.contract import (
    ChangePage,
    Commit,
    PartitionRead,
    PinnedSnapshot,
    ReadResult,
    StoreStatus,
)
from services.storage.errors import (
    ChangesForgotten,
    CommitConflict,
    SnapshotExpired,
    StorageUnavailable,
    TooManySnapshots,
)
from waggle.storage.v1 import storage_service_pb2 as pb
from waggle.storage.v1 import storage_service_pb2_grpc as pb_grpc

RETRY_LIMIT_S: Final = 15.0
"""How long reads ride out a storage that cannot be reached, for instance while it restarts."""
CALL_LIMIT_S: Final = 30.0
STREAM_LIMIT_S: Final = 120.0

_UNAVAILABLE_CODES: Final = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
)

T = TypeVar("T")


class GrpcStore:
    """The storage operations over a channel; see `contract.Store`. Safe to use from any thread.

    Reads are repeated while storage cannot be reached, up to 15 seconds or the deadline of the call that is being
    served; commits are not, because only a whole transaction may be repeated.

    Args:
        address: `unix:/path/to.sock` or `host:port`.
        retry_limit_s: How long reads are repeated, in seconds.
        transport: Opens the channel.
    """

    def __init__(self, address: str, *, retry_limit_s: float = RETRY_LIMIT_S, transport: Transport = PLAIN) -> None:
        self._retry_limit_s = retry_limit_s
        self._channel = transport.open_channel(address, "storage")
        stub = pb_grpc.StorageServiceStub(self._channel)
        self._read = stub.Read
        self._commit = stub.Commit
        self._changed_since = stub.ChangedSince
        self._open_snapshot = stub.OpenSnapshot
        self._close_snapshot = stub.CloseSnapshot
        self._status = stub.Status

    def __enter__(self) -> GrpcStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, partitions: Sequence[PartitionRead], *, snapshot_id: str = "", pin: bool = False) -> ReadResult:
        """See `contract.Store.read`."""
        request = convert.read_request(partitions, snapshot_id=snapshot_id, pin=pin)
        return convert.read_result_from(self._repeated(lambda: self._called(self._read, request)))

    def commit(self, commit: Commit) -> int:
        """See `contract.Store.commit`."""
        request = convert.commit_request(commit)
        return self._called(self._commit, request).sequence

    def changed_since(
        self,
        partition: bytes,
        after: int,
        *,
        key_prefixes: Sequence[bytes] = (),
        page_bytes: int = 0,
        expected_incarnation: str = "",
    ) -> Iterator[ChangePage]:
        """See `contract.Store.changed_since`. Only the first page is repeated: later ones belong to its snapshot."""
        request = pb.ChangedSinceRequest(
            partition=partition,
            after=after,
            key_prefixes=key_prefixes,
            page_bytes=page_bytes,
            expected_incarnation=expected_incarnation,
        )

        def begin() -> tuple[pb.ChangedSinceResponse, Any]:
            stream = self._changed_since(request, timeout=remaining_s(STREAM_LIMIT_S), metadata=outgoing_metadata())
            return next(stream), stream

        message, stream = self._repeated(lambda: _typed(begin))
        try:
            while True:
                yield convert.change_page_from(message)
                if message.last:
                    break
                message = _typed(lambda: next(stream))
        finally:
            stream.cancel()

    def open_snapshot(self, ttl_ms: int = 0) -> PinnedSnapshot:
        """See `contract.Store.open_snapshot`."""
        request = pb.OpenSnapshotRequest(ttl_ms=ttl_ms)
        response = self._repeated(lambda: self._called(self._open_snapshot, request))
        return PinnedSnapshot(response.snapshot_id, response.sequence)

    def close_snapshot(self, snapshot_id: str) -> None:
        """See `contract.Store.close_snapshot`. When storage cannot be reached, the snapshot expires by itself."""
        try:
            self._called(self._close_snapshot, pb.CloseSnapshotRequest(snapshot_id=snapshot_id))
        except StorageUnavailable:
            return

    def status(self) -> StoreStatus:
        """See `contract.Store.status`."""
        return convert.status_from(self._called(self._status, pb.StatusRequest()))

    def close(self) -> None:
        """Close the channel. Safe to repeat."""
        self._channel.close()

    def _called(self, method: Callable[..., T], request: object) -> T:
        return _typed(lambda: method(request, timeout=remaining_s(CALL_LIMIT_S), metadata=outgoing_metadata()))

    def _repeated(self, call: Callable[[], T]) -> T:
        backoff: Backoff | None = None
        while True:
            try:
                return call()
            except StorageUnavailable:
                backoff = backoff or Backoff(remaining_s(self._retry_limit_s))
                if not backoff.wait():
                    raise


def _typed(call: Callable[[], T]) -> T:
    try:
        return call()
    except grpc.RpcError as error:
        raise storage_error(error) from error


def storage_error(error: grpc.RpcError) -> WaggleError | RpcFailure:
    """The typed error of a failed call of storage."""
    found = error_from_rpc(error)
    if not isinstance(found, RpcFailure):
        return found
    if found.code in _UNAVAILABLE_CODES:
        return StorageUnavailable("storage cannot be reached")
    if found.code is grpc.StatusCode.ABORTED:
        return CommitConflict(found.message)
    if found.code is grpc.StatusCode.NOT_FOUND:
        return SnapshotExpired(found.message)
    if found.code is grpc.StatusCode.OUT_OF_RANGE:
        return ChangesForgotten(found.message)
    # gRPC itself answers with the same code when a message is too large; that carries no details of ours.
    if found.code is grpc.StatusCode.RESOURCE_EXHAUSTED and error_info(error) is not None:
        return TooManySnapshots(found.message)
    return found

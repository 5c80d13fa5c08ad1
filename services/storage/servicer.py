"""The storage contract over gRPC. Errors become statuses in the server's wrapper."""

from __future__ import annotations

from collections.abc import Iterator

import grpc

from services.storage import convert
from services.storage.contract import Store
from waggle.storage.v1 import storage_service_pb2 as pb
from waggle.storage.v1 import storage_service_pb2_grpc as pb_grpc


class StorageServicer(pb_grpc.StorageServiceServicer):
    """Serves one store; every method is described in the proto."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def Read(self, request: pb.ReadRequest, context: grpc.ServicerContext) -> pb.ReadResponse:
        """Answer gets and scans in one snapshot."""
        result = self._store.read(convert.reads_from(request), snapshot_id=request.snapshot_id, pin=request.pin)
        return convert.read_response(result)

    def Commit(self, request: pb.CommitRequest, context: grpc.ServicerContext) -> pb.CommitResponse:
        """Apply writes if every expectation holds."""
        return pb.CommitResponse(sequence=self._store.commit(convert.commit_from(request)))

    def ChangedSince(
        self, request: pb.ChangedSinceRequest, context: grpc.ServicerContext
    ) -> Iterator[pb.ChangedSinceResponse]:
        """Stream what changed in a partition."""
        pages = self._store.changed_since(
            request.partition,
            request.after,
            key_prefixes=tuple(request.key_prefixes),
            page_bytes=request.page_bytes,
            expected_incarnation=request.expected_incarnation,
        )
        for page in pages:
            yield convert.change_response(page)

    def OpenSnapshot(self, request: pb.OpenSnapshotRequest, context: grpc.ServicerContext) -> pb.OpenSnapshotResponse:
        """Pin a snapshot."""
        pinned = self._store.open_snapshot(request.ttl_ms)
        return pb.OpenSnapshotResponse(snapshot_id=pinned.snapshot_id, sequence=pinned.sequence)

    def CloseSnapshot(
        self, request: pb.CloseSnapshotRequest, context: grpc.ServicerContext
    ) -> pb.CloseSnapshotResponse:
        """Let a pinned snapshot go."""
        self._store.close_snapshot(request.snapshot_id)
        return pb.CloseSnapshotResponse()

    def Status(self, request: pb.StatusRequest, context: grpc.ServicerContext) -> pb.StatusResponse:
        """Report the state of the store."""
        return convert.status_response(self._store.status())

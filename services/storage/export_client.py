"""Exports of a store behind a socket."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import grpc

from services.runtime.call_context import outgoing_metadata
from services.runtime.transport import PLAIN, Transport
from services.storage.client import storage_error
from services.storage.errors import StorageUnavailable
from services.storage.exporting import Export, ExportOpening
from services.storage.store_rows import RowPage, UnreadablePart
from waggle.storage.v1 import export_service_pb2 as pb
from waggle.storage.v1 import export_service_pb2_grpc as pb_grpc

EXPORT_LIMIT_S: Final = 24 * 3600.0
"""How long one export may take; its snapshot is let go when it has passed."""


class GrpcExporter:
    """See `exporting.Exporter`. Pages come as they are asked for: a slow reader slows the stream, not its snapshot.

    Args:
        address: `unix:/path/to.sock` or `host:port`.
        transport: Opens the channel.
    """

    def __init__(self, address: str, *, transport: Transport = PLAIN) -> None:
        self._channel = transport.open_channel(address, "storage")
        self._export_store = pb_grpc.ExportServiceStub(self._channel).ExportStore

    def __enter__(self) -> GrpcExporter:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def export(self, *, partitions: Sequence[bytes] = (), page_bytes: int = 0) -> Export:
        """See `exporting.Exporter.export`."""
        request = pb.ExportStoreRequest(partitions=partitions, page_bytes=page_bytes)
        stream = self._export_store(request, timeout=EXPORT_LIMIT_S, metadata=outgoing_metadata())
        opening = _next(stream).opening
        found = ExportOpening(*(getattr(opening, name) for name in ExportOpening._fields))
        return Export(found, _pages(stream))


def _pages(stream: Any) -> Iterator[RowPage]:
    try:
        while not (message := _next(stream)).last:
            unreadable = [UnreadablePart(part.partition or None, part.text) for part in message.unreadable]
            yield RowPage([(row.key, row.value) for row in message.rows], unreadable)
    finally:
        stream.cancel()


def _next(stream: Any) -> pb.ExportStoreResponse:
    try:
        message: pb.ExportStoreResponse = next(stream)
    except grpc.RpcError as error:
        raise storage_error(error) from error
    except StopIteration:
        raise StorageUnavailable("the export ended before its last page") from None
    return message

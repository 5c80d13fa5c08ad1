"""ExportService over gRPC. Errors become statuses in the server's wrapper."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any, cast

import grpc

from services.storage.exporting import Exporter
from waggle.storage.v1 import export_service_pb2 as pb
from waggle.storage.v1 import export_service_pb2_grpc as pb_grpc


class ExportServicer(pb_grpc.ExportServiceServicer):
    """Serves the exports of one store; the method is described in the proto."""

    def __init__(self, exporter: Exporter) -> None:
        self._exporter = exporter

    def ExportStore(
        self, request: pb.ExportStoreRequest, context: grpc.ServicerContext
    ) -> Iterator[pb.ExportStoreResponse]:
        """Stream everything."""
        export = self._exporter.export(partitions=tuple(request.partitions), page_bytes=request.page_bytes)
        # A caller that goes away leaves the generator unfinished: closing it lets the snapshot go at once.
        with closing(cast(Any, export.pages)):
            yield pb.ExportStoreResponse(opening=pb.ExportOpening(**export.opening._asdict()))
            make_row = pb.PhysicalRow
            for page in export.pages:
                rows = [make_row(key=key, value=value) for key, value in page.rows]
                unreadable = [
                    pb.UnreadablePart(partition=part.partition or b"", text=part.text) for part in page.unreadable
                ]
                yield pb.ExportStoreResponse(rows=rows, unreadable=unreadable)
            yield pb.ExportStoreResponse(last=True)

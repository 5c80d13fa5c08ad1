"""ConsolidationService over gRPC: convert, let `access` run it, convert back."""

from __future__ import annotations

from waggle.consolidation.v1 import consolidation_service_pb2_grpc


class ConsolidationServicer(consolidation_service_pb2_grpc.ConsolidationServiceServicer):
    """Jobs of the calling subject; see the service's proto for what each method does and refuses."""

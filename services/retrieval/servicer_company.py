"""CompanyRetrievalService over gRPC: convert, let `company_access` run it, convert back."""

from __future__ import annotations

import grpc

from services.identity.call_token import call_token
from services.retrieval.company_access import CompanyRetrievalAccess
from services.retrieval.servicer_graphs import ancestry_graph, typed_graph
from services.workspace.messages import company_answer
from waggle.retrieval.v1 import company_retrieval_service_pb2 as pb
from waggle.retrieval.v1 import company_retrieval_service_pb2_grpc


class CompanyRetrievalServicer(company_retrieval_service_pb2_grpc.CompanyRetrievalServiceServicer):
    """Graphs of any workspace of a company, for its administrators; every method takes an admission slot."""

    def __init__(self, access: CompanyRetrievalAccess) -> None:
        self._access = access

    def TraceCompanyAncestry(
        self, request: pb.TraceCompanyAncestryRequest, context: grpc.ServicerContext
    ) -> pb.TraceCompanyAncestryResponse:
        """Walk from derived records to their sources."""
        workspace, graph = self._access.run(
            call_token(context),
            request.workspace_id,
            lambda retrieval: ancestry_graph(retrieval, request.query),
        )
        return pb.TraceCompanyAncestryResponse(**company_answer(workspace), graph=graph)

    def TraverseCompanyTypedGraph(
        self, request: pb.TraverseCompanyTypedGraphRequest, context: grpc.ServicerContext
    ) -> pb.TraverseCompanyTypedGraphResponse:
        """Walk typed relations from given records."""
        workspace, graph = self._access.run(
            call_token(context),
            request.workspace_id,
            lambda retrieval: typed_graph(retrieval, request.query),
        )
        return pb.TraverseCompanyTypedGraphResponse(**company_answer(workspace), graph=graph)

"""RetrievalService over gRPC: convert, let `access` run it, convert back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import grpc

from services.identity.call_token import call_token
from services.retrieval import convert_answers, convert_graph, convert_requests
from services.retrieval.access import Retrieval, RetrievalAccess
from services.retrieval.base_selection import select_base
from services.retrieval.graph_search import search_graph
from services.retrieval.profiles import CANDIDATE_SELECTION_VERSION, LEXICAL_VERSION, SEMANTIC_VERSION
from services.retrieval.seed import Seed
from services.retrieval.selection import BaseSelection
from services.retrieval.servicer_graphs import ancestry_graph, typed_graph
from services.retrieval.settings import Settings
from services.workspace.messages import scope_from_message
from waggle.retrieval.v1 import retrieval_service_pb2 as pb
from waggle.retrieval.v1 import retrieval_service_pb2_grpc

RANKING_VERSION_KEY: Final = "x-qilbee-ranking-version"
RETRIEVAL_MICROS_KEY: Final = "x-qilbee-retrieval-micros"
SELECTION_VERSION_KEY: Final = "x-qilbee-candidate-selection-version"
SCANNED_RECORDS_KEY: Final = "x-qilbee-scanned-records"
INDEX_BYTES_KEY: Final = "x-qilbee-candidate-index-bytes"
SCANNED_BYTES_KEY: Final = "x-qilbee-scanned-bytes"

Page = TypeVar("Page")
ScopedRequest = (
    pb.SearchSemanticRequest
    | pb.SearchLexicalRequest
    | pb.SearchHybridRequest
    | pb.SearchGraphRequest
    | pb.TraverseTypedGraphRequest
    | pb.TraceAncestryRequest
)
FlatRequest = pb.SearchSemanticRequest | pb.SearchLexicalRequest | pb.SearchHybridRequest


class RetrievalServicer(retrieval_service_pb2_grpc.RetrievalServiceServicer):
    """Searches, walks and profile catalogues; see the service's proto for what each method does and refuses."""

    def __init__(self, access: RetrievalAccess, settings: Settings) -> None:
        """Serve through an access, within an operator's limits."""
        self._access = access
        self._settings = settings
        self._ranking_catalog = convert_answers.ranking_catalog_message(settings)
        self._graph_ranking_catalog = convert_answers.graph_ranking_catalog_message(settings)

    def SearchSemantic(
        self, request: pb.SearchSemanticRequest, context: grpc.ServicerContext
    ) -> pb.SearchSemanticResponse:
        """Search by vector."""
        seed = convert_requests.semantic_seed_from_message(request.query, self._settings, member="query")
        response = pb.SearchSemanticResponse(contract_version=1, scope=request.scope)
        micros, headers = self._search(
            request,
            context,
            seed,
            None,
            lambda retrieval, selection: convert_answers.fill_semantic_page(
                response.page, retrieval.partition, seed, selection, retrieval.cache.work
            ),
        )
        own_headers = ((RANKING_VERSION_KEY, SEMANTIC_VERSION), (RETRIEVAL_MICROS_KEY, str(micros)))
        context.set_trailing_metadata((*own_headers, *headers))
        return response

    def SearchLexical(
        self, request: pb.SearchLexicalRequest, context: grpc.ServicerContext
    ) -> pb.SearchLexicalResponse:
        """Search by text."""
        response = pb.SearchLexicalResponse(
            contract_version=1, scope=request.scope, mode=request.mode, ranking_version=LEXICAL_VERSION
        )
        response.timing.retrieval_micros, headers = self._search(
            request,
            context,
            convert_requests.lexical_seed_from_message(request.query, member="query"),
            convert_requests.scan_bytes_limit_from_message(request.query, self._settings),
            lambda retrieval, selection: convert_answers.fill_lexical_page(
                response.page, retrieval.partition, selection, retrieval.cache.work
            ),
        )
        context.set_trailing_metadata(headers)
        return response

    def SearchHybrid(self, request: pb.SearchHybridRequest, context: grpc.ServicerContext) -> pb.SearchHybridResponse:
        """Search by text and vector."""
        seed = convert_requests.hybrid_seed_from_message(request.query, self._settings, member="query")
        response = pb.SearchHybridResponse(
            contract_version=1,
            scope=request.scope,
            mode=request.mode,
            ranking_version=request.query.ranking_version,
        )
        response.timing.retrieval_micros, headers = self._search(
            request,
            context,
            seed,
            convert_requests.scan_bytes_limit_from_message(request.query, self._settings),
            lambda retrieval, selection: convert_answers.fill_hybrid_page(
                response.page, retrieval.partition, seed, selection, retrieval.cache.work
            ),
        )
        context.set_trailing_metadata(headers)
        return response

    def _search(
        self,
        request: FlatRequest,
        context: grpc.ServicerContext,
        seed: Seed,
        scan_bytes_limit: int | None,
        fill_page: Callable[[Retrieval, BaseSelection], None],
    ) -> tuple[int, tuple[tuple[str, str], ...]]:
        """A flat search: the microseconds that it took, and the headers that all three share."""
        query = request.query
        narrowing = convert_requests.narrowing_from_message(query)

        def run(retrieval: Retrieval) -> tuple[int, tuple[tuple[str, str], ...]]:
            selection = select_base(
                retrieval.partition,
                seed,
                narrowing=narrowing,
                limit=query.limit,
                scan_limit=convert_requests.scan_limit_from_message(query),
                scan_bytes_limit=scan_bytes_limit,
                after=convert_requests.after_from_message(query),
                cache=retrieval.cache,
                now_ms=retrieval.now_ms,
            )
            micros = retrieval.elapsed_micros()
            headers = (
                (SELECTION_VERSION_KEY, CANDIDATE_SELECTION_VERSION),
                (SCANNED_RECORDS_KEY, str(selection.scanned_records)),
                (INDEX_BYTES_KEY, str(selection.candidate_index_bytes)),
                (SCANNED_BYTES_KEY, str(selection.scanned_bytes)),
            )
            fill_page(retrieval, selection)
            return micros, headers

        return self._run(request, context, run)

    def ListRankingProfiles(
        self, request: pb.ListRankingProfilesRequest, context: grpc.ServicerContext
    ) -> pb.ListRankingProfilesResponse:
        """Publish the hybrid profiles."""
        del request
        self._access.check(call_token(context))
        return self._ranking_catalog

    def SearchGraph(self, request: pb.SearchGraphRequest, context: grpc.ServicerContext) -> pb.SearchGraphResponse:
        """Search by a seed and by the typed paths around what it finds."""
        query = convert_requests.graph_query_from_message(request.query, self._settings)
        response = pb.SearchGraphResponse(contract_version=1, scope=request.scope)

        def run(retrieval: Retrieval) -> int:
            page = search_graph(retrieval.partition, query, cache=retrieval.cache, now_ms=retrieval.now_ms)
            micros = retrieval.elapsed_micros()
            convert_graph.fill_graph_page(response.page, retrieval.partition, query, page, now_ms=retrieval.now_ms)
            return micros

        micros = self._run(request, context, run)
        context.set_trailing_metadata(((RETRIEVAL_MICROS_KEY, str(micros)),))
        return response

    def ListGraphRankingProfiles(
        self, request: pb.ListGraphRankingProfilesRequest, context: grpc.ServicerContext
    ) -> pb.ListGraphRankingProfilesResponse:
        """Publish the graph profiles."""
        del request
        self._access.check(call_token(context))
        return self._graph_ranking_catalog

    def TraverseTypedGraph(
        self, request: pb.TraverseTypedGraphRequest, context: grpc.ServicerContext
    ) -> pb.TraverseTypedGraphResponse:
        """Walk typed relations from given records."""

        def run(retrieval: Retrieval) -> pb.TraverseTypedGraphResponse:
            graph = typed_graph(retrieval, request.query)
            return pb.TraverseTypedGraphResponse(contract_version=1, scope=request.scope, graph=graph)

        return self._run(request, context, run)

    def TraceAncestry(
        self, request: pb.TraceAncestryRequest, context: grpc.ServicerContext
    ) -> pb.TraceAncestryResponse:
        """Walk from derived records to their sources."""

        def run(retrieval: Retrieval) -> pb.TraceAncestryResponse:
            graph = ancestry_graph(retrieval, request.query)
            return pb.TraceAncestryResponse(contract_version=1, scope=request.scope, graph=graph)

        return self._run(request, context, run)

    def _run(
        self, request: ScopedRequest, context: grpc.ServicerContext, function: Callable[[Retrieval], Page]
    ) -> Page:
        token = call_token(context)
        return self._access.run(token, scope_from_message(request.scope), function)

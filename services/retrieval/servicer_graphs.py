"""Typed graphs and ancestry as answers, from a request's query on; both servicers of this process answer with them."""

from __future__ import annotations

from services.retrieval import convert_graph, convert_requests
from services.retrieval.access import Retrieval
from services.retrieval.ancestry import walk_ancestry
from services.retrieval.typed_graph import walk_typed_graph
from waggle.retrieval.v1 import traversal_pb2


def typed_graph(retrieval: Retrieval, query: traversal_pb2.TypedGraphQuery) -> traversal_pb2.TypedGraph:
    """Walk typed relations from given records.

    Raises:
        WaggleError: See `walk_typed_graph`.
    """
    graph = walk_typed_graph(
        retrieval.partition,
        list(query.root_record_ids),
        convert_requests.expansion_from_message(query),
        relation_kinds=convert_requests.relation_kinds_from_message(query),
        cache=retrieval.cache,
        now_ms=retrieval.now_ms,
    )
    return convert_graph.typed_graph_message(retrieval.partition, graph, now_ms=retrieval.now_ms)


def ancestry_graph(retrieval: Retrieval, query: traversal_pb2.AncestryQuery) -> traversal_pb2.AncestryGraph:
    """Walk from derived records to their sources.

    Raises:
        WaggleError: See `walk_ancestry`.
    """
    max_depth, node_limit = convert_requests.ancestry_bounds_from_message(query)
    graph = walk_ancestry(
        retrieval.partition,
        list(query.root_record_ids),
        max_depth=max_depth,
        node_limit=node_limit,
        cache=retrieval.cache,
        now_ms=retrieval.now_ms,
    )
    return convert_graph.ancestry_graph_message(retrieval.partition, graph, now_ms=retrieval.now_ms)

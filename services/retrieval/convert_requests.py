"""Searches and walks from request messages that have passed `runtime.validation`. Nothing but conversion."""

from __future__ import annotations

from typing import Final, cast

from services.domain.canonical_json import canonical_bytes
from services.domain.embeddings import Float32Vector, Space, vector_from_numbers
from services.domain.errors import RetrievalScanLimit
from services.domain.relations import RELATION_KINDS, RelationKind
from services.retrieval.affinity import EMBEDDING_BYTES_MAX
from services.retrieval.graph_search import GraphQuery
from services.retrieval.profiles import (
    GRAPH_PROFILE_OF,
    HYBRID_PROFILE_OF,
    GraphRankingVersion,
    HybridRankingVersion,
)
from services.retrieval.seed import HybridSeed, LexicalSeed, Seed, SemanticSeed
from services.retrieval.settings import DEFAULT_SCAN_BYTES, Settings
from services.retrieval.tokenizer import query_terms
from services.retrieval.traversal import Direction, Expansion
from services.retrieval.view import Filter
from services.runtime.common_messages import words_by_number
from services.workspace.messages import episode_type_from_message, kind_from_number, space_from_message
from waggle.retrieval.v1 import graph_search_pb2, profiles_pb2, searches_pb2, traversal_pb2

SCAN_LIMIT_DEFAULT: Final = 10_000
MIN_SCORE_DEFAULT: Final = -1.0
ANCESTRY_DEPTH_DEFAULT: Final = 4
NODE_LIMIT_DEFAULT: Final = 128

_DIRECTIONS = cast(dict[int, Direction], words_by_number(traversal_pb2.TraversalDirection.DESCRIPTOR))
_HYBRID_VERSIONS = cast(dict[int, HybridRankingVersion], words_by_number(profiles_pb2.HybridRankingVersion.DESCRIPTOR))
_GRAPH_VERSIONS = cast(dict[int, GraphRankingVersion], words_by_number(profiles_pb2.GraphRankingVersion.DESCRIPTOR))

FlatQuery = searches_pb2.SemanticQuery | searches_pb2.LexicalQuery | searches_pb2.HybridQuery
BoundedQuery = searches_pb2.LexicalQuery | searches_pb2.HybridQuery | graph_search_pb2.GraphQuery


def narrowing_from_message(query: FlatQuery | graph_search_pb2.GraphQuery) -> Filter:
    """The exact filters of a search."""
    episode_type = None
    if query.HasField("episode_type"):
        episode_type = canonical_bytes(episode_type_from_message(query.episode_type)).decode()
    return Filter(episode_type, query.tag if query.HasField("tag") else None)


def scan_limit_from_message(query: FlatQuery | graph_search_pb2.GraphQuery) -> int:
    """Most candidates to examine."""
    return query.scan_limit if query.HasField("scan_limit") else SCAN_LIMIT_DEFAULT


def scan_bytes_limit_from_message(query: BoundedQuery, settings: Settings) -> int:
    """Most bytes to examine.

    Raises:
        RetrievalScanLimit: It is above the operator's ceiling.
    """
    if not query.HasField("scan_bytes_limit"):
        return DEFAULT_SCAN_BYTES
    if query.scan_bytes_limit > settings.max_scan_bytes:
        raise RetrievalScanLimit(f"must be at most {settings.max_scan_bytes}", member="query.scan_bytes_limit")
    return query.scan_bytes_limit


def after_from_message(query: FlatQuery) -> str | None:
    """The cursor."""
    return query.after if query.HasField("after") else None


def lexical_seed_from_message(
    query: searches_pb2.LexicalQuery | graph_search_pb2.LexicalSeed, *, member: str
) -> LexicalSeed:
    """Rank by text.

    Raises:
        InvalidRequest: The text has no term or too many.
    """
    return LexicalSeed(query_terms(query.text, member=f"{member}.text"))


def semantic_seed_from_message(
    query: searches_pb2.SemanticQuery | graph_search_pb2.SemanticSeed, settings: Settings, *, member: str
) -> SemanticSeed:
    """Rank by vector.

    Raises:
        EmbeddingDimensionLimit: The dimensions are above the operator's ceiling.
        InvalidRequest: The vector does not fit its space, or is not finite or zero as float32.
    """
    space, vector = _query_vector(query, settings, member)
    return SemanticSeed(space, vector, query.min_score if query.HasField("min_score") else MIN_SCORE_DEFAULT)


def hybrid_seed_from_message(
    query: searches_pb2.HybridQuery | graph_search_pb2.HybridSeed, settings: Settings, *, member: str
) -> HybridSeed:
    """Rank by both; both are checked.

    Raises:
        EmbeddingDimensionLimit, InvalidRequest: As for the other seeds.
    """
    space, vector = _query_vector(query, settings, member)
    return HybridSeed(
        query_terms(query.text, member=f"{member}.text"),
        space,
        vector,
        HYBRID_PROFILE_OF[_HYBRID_VERSIONS[query.ranking_version]],
        query.min_score if query.HasField("min_score") else MIN_SCORE_DEFAULT,
    )


def _query_vector(
    query: searches_pb2.SemanticQuery
    | searches_pb2.HybridQuery
    | graph_search_pb2.SemanticSeed
    | graph_search_pb2.HybridSeed,
    settings: Settings,
    member: str,
) -> tuple[Space, Float32Vector]:
    space = space_from_message(query.space, dimensions_max=settings.max_embedding_dimensions, member=f"{member}.space")
    return space, vector_from_numbers(list(query.vector), space.dimensions, member=f"{member}.vector")


def graph_query_from_message(query: graph_search_pb2.GraphQuery, settings: Settings) -> GraphQuery:
    """A graph search.

    Raises:
        EmbeddingDimensionLimit, RetrievalScanLimit, InvalidRequest: As for the parts.
    """
    expansion, embedding_bytes_limit = Expansion(), EMBEDDING_BYTES_MAX
    if query.HasField("expansion"):
        wanted = query.expansion
        expansion = Expansion(
            _DIRECTIONS[wanted.direction], wanted.max_depth, wanted.node_limit, wanted.edge_limit, wanted.scan_limit
        )
        embedding_bytes_limit = wanted.embedding_bytes_limit
    return GraphQuery(
        GRAPH_PROFILE_OF[_GRAPH_VERSIONS[query.ranking_version]],
        _seed_from_message(query.seed, settings),
        query.limit,
        scan_limit_from_message(query),
        scan_bytes_limit_from_message(query, settings),
        expansion,
        embedding_bytes_limit,
        narrowing_from_message(query),
    )


def _seed_from_message(seed: graph_search_pb2.GraphSeed, settings: Settings) -> Seed:
    mode = seed.WhichOneof("seed")
    if mode == "lexical":
        return lexical_seed_from_message(seed.lexical, member="query.seed")
    if mode == "semantic":
        return semantic_seed_from_message(seed.semantic, settings, member="query.seed")
    return hybrid_seed_from_message(seed.hybrid, settings, member="query.seed")


def expansion_from_message(query: traversal_pb2.TypedGraphQuery) -> Expansion:
    """Bounds of a typed graph request."""
    default = Expansion()
    return Expansion(
        _DIRECTIONS[query.direction] if query.HasField("direction") else default.direction,
        query.max_depth if query.HasField("max_depth") else default.max_depth,
        query.node_limit if query.HasField("node_limit") else default.node_limit,
        query.edge_limit if query.HasField("edge_limit") else default.edge_limit,
        query.scan_limit if query.HasField("scan_limit") else default.scan_limit,
    )


def relation_kinds_from_message(query: traversal_pb2.TypedGraphQuery) -> tuple[RelationKind, ...]:
    """Kinds to walk; all when none are named."""
    if not query.HasField("relation_kinds"):
        return RELATION_KINDS
    return tuple(map(kind_from_number, query.relation_kinds.kinds))


def ancestry_bounds_from_message(query: traversal_pb2.AncestryQuery) -> tuple[int, int]:
    """Depth and node limit of an ancestry request."""
    return (
        query.max_depth if query.HasField("max_depth") else ANCESTRY_DEPTH_DEFAULT,
        query.node_limit if query.HasField("node_limit") else NODE_LIMIT_DEFAULT,
    )

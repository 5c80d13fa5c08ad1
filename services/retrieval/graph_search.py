"""Graph search: base selection, anchors, traversal, affinity, strongest paths, and the two rankings fused."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from services.domain.eligibility import DependencyCache, DependencyWork
from services.retrieval.affinity import (
    EMBEDDING_BYTES_MAX,
    Affinities,
    AffinityWork,
    lexical_affinities,
    measure_affinities,
)
from services.retrieval.base_selection import select_base
from services.retrieval.partition import Partition
from services.retrieval.path_ranking import PathLabel, PathStep, path_steps, rank_paths
from services.retrieval.profiles import GraphRankingProfile
from services.retrieval.seed import LexicalSeed, Seed
from services.retrieval.selection import BaseHit, BaseSelection
from services.retrieval.traversal import OPEN_FILTER, Expansion, Root, Traversal, TraversalCoverage, traverse
from services.retrieval.view import Filter, PartitionView

DEFAULT_EXPANSION = Expansion()


@dataclass(frozen=True, slots=True)
class GraphQuery:
    """A graph search.

    Attributes:
        limit: Most hits, 1 to 100.
        scan_limit: Most base candidates examined, 1 to 10,000.
        scan_bytes_limit: Most bytes of base candidates examined.
        embedding_bytes_limit: Most bytes of bindings that affinity reads, 1 to 8 MiB.
        narrowing: Filters base candidates and neighbours alike.
    """

    profile: GraphRankingProfile
    seed: Seed
    limit: int
    scan_limit: int = 10_000
    scan_bytes_limit: int = 8 * 1024 * 1024
    expansion: Expansion = DEFAULT_EXPANSION
    embedding_bytes_limit: int = EMBEDDING_BYTES_MAX
    narrowing: Filter = OPEN_FILTER


@dataclass(frozen=True, slots=True)
class BasePart:
    """The base ranking's part of a score.

    Attributes:
        rank: From 1, at most 100.
        hit: What base selection found.
    """

    rank: int
    contribution: float
    hit: BaseHit


@dataclass(frozen=True, slots=True)
class PathPart:
    """The graph ranking's part of a score, with the path that it comes from.

    Attributes:
        rank: Graph rank from 1.
        strength: Of the strongest path.
        anchor_rank: Base rank of the anchor, 1 to 4.
        steps: From the anchor to the record; none for an anchor.
        missing_affinity: Rows of destinations without a current binding, in walking order.
    """

    rank: int
    strength: float
    contribution: float
    anchor_row: int
    anchor_rank: int
    steps: tuple[PathStep, ...]
    missing_affinity: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GraphHit:
    """A ranked record.

    Attributes:
        cosine: To the query vector, of a current binding; None without one and for lexical queries.
    """

    row: int
    score: float
    base: BasePart | None
    graph: PathPart | None
    cosine: float | None


@dataclass(frozen=True, slots=True)
class GraphSeed:
    """The base pool and how it was made.

    Attributes:
        selection: Counters, and the pool as its hits.
        anchors: Rows, in base-rank order.
        truncated: More candidates than the pool holds.
        dependency_work: After base selection.
    """

    selection: BaseSelection
    anchors: tuple[int, ...]
    truncated: bool
    dependency_work: DependencyWork


@dataclass(frozen=True, slots=True)
class GraphCompleteness:
    """Whether the source, the pool, the graph and the embeddings were seen whole, relative to anchors and filters."""

    source_complete: bool
    candidates_complete: bool
    graph_complete: bool
    embeddings_complete: bool

    @property
    def complete(self) -> bool:
        """All four."""
        return self.source_complete and self.candidates_complete and self.graph_complete and self.embeddings_complete


@dataclass(frozen=True, slots=True)
class GraphPage:
    """The answer to a graph search; rows and relation indexes stand for records and relations of the view.

    Attributes:
        graph_candidates: Records with a graph rank.
        candidates_ranked: Records in the base pool or with a graph rank.
        hits: Score descending, then record id ascending.
        relations: Indexes of the relations on the hits' paths, each once, ascending relation id.
    """

    seed: GraphSeed
    graph_roots: tuple[Root, ...]
    graph_coverage: TraversalCoverage
    affinity_work: AffinityWork
    graph_candidates: int
    candidates_ranked: int
    coverage: GraphCompleteness
    hits: tuple[GraphHit, ...]
    relations: tuple[int, ...]


def search_graph(view: Partition, query: GraphQuery, *, cache: DependencyCache, now_ms: int) -> GraphPage:
    """Search one partition.

    Args:
        cache: The request's dependency lookups, shared by base selection and traversal.
        now_ms: The request's clock.

    Raises:
        InvalidRequest: A byte bound or the dependency work of a request is exceeded; nothing is answered then.
        StorageInconsistency: An adjacency list does not agree with its completeness data.
    """
    base = select_base(
        view,
        query.seed,
        narrowing=query.narrowing,
        limit=query.profile.base_candidate_limit,
        scan_limit=query.scan_limit,
        scan_bytes_limit=query.scan_bytes_limit,
        after=None,
        cache=cache,
        now_ms=now_ms,
    )
    return expand_base(view, base, query, cache=cache, now_ms=now_ms)


def expand_base(
    view: PartitionView, base: BaseSelection, query: GraphQuery, *, cache: DependencyCache, now_ms: int
) -> GraphPage:
    """The stages after base selection.

    Raises:
        InvalidRequest: As `search_graph`.
        StorageInconsistency: As `search_graph`.
    """
    profile = query.profile
    pool = base.hits[: profile.base_candidate_limit]
    anchors = tuple(hit.row for hit in pool[: profile.anchor_limit])
    seed = GraphSeed(base, anchors, base.matched > len(pool), cache.work)
    traversal = traverse(
        view,
        [view.record_id(row) for row in anchors],
        query.expansion,
        profile.walked_kinds,
        cache,
        now_ms,
        narrowing=query.narrowing,
    )
    affinities = _affinities(view, traversal, pool, query)
    labels = rank_paths(
        view,
        traversal,
        [row for row in anchors if row in traversal.depth_of],
        profile,
        affinities.affinity_of,
        direction=query.expansion.direction,
        max_depth=query.expansion.max_depth,
    )
    base_ranks = {hit.row: rank for rank, hit in enumerate(pool, start=1)}
    graph_ranks = {label.row: rank for rank, label in enumerate(labels, start=1)}
    scores = _fuse(base_ranks, graph_ranks, profile)
    record_id = view.record_id
    best_rows = heapq.nsmallest(query.limit, scores, key=lambda row: (-scores[row], record_id(row)))
    hits = tuple(
        GraphHit(
            row,
            scores[row],
            _base_part(pool, base_ranks.get(row), profile),
            _path_part(view, labels, graph_ranks.get(row), affinities, profile),
            affinities.cosine_of.get(row, pool[base_ranks[row] - 1].cosine if row in base_ranks else None),
        )
        for row in best_rows
    )
    return GraphPage(
        seed,
        traversal.roots,
        traversal.coverage,
        affinities.work,
        len(labels),
        len(scores),
        _completeness(seed, traversal, affinities.work),
        hits,
        _relations_of(view, hits),
    )


def _affinities(view: PartitionView, traversal: Traversal, pool: Sequence[BaseHit], query: GraphQuery) -> Affinities:
    """Affinity of every included record, cosines of the pool taken over."""
    seed = query.seed
    if isinstance(seed, LexicalSeed):
        return lexical_affinities(query.embedding_bytes_limit)
    return measure_affinities(
        view,
        seed.space,
        seed.vector,
        list(traversal.depth_of),
        {hit.row: hit.cosine for hit in pool if hit.cosine is not None},
        query.profile,
        byte_limit=query.embedding_bytes_limit,
    )


def _fuse(
    base_ranks: Mapping[int, int], graph_ranks: Mapping[int, int], profile: GraphRankingProfile
) -> dict[int, float]:
    """Score of each record of the union: base part plus graph part, each weight / (constant + rank)."""
    constant = profile.rank_constant
    scores = {row: profile.base_weight / (constant + rank) for row, rank in base_ranks.items()}
    for row, rank in graph_ranks.items():
        scores[row] = scores.get(row, 0.0) + profile.graph_weight / (constant + rank)
    return scores


def _base_part(pool: Sequence[BaseHit], rank: int | None, profile: GraphRankingProfile) -> BasePart | None:
    if rank is None:
        return None
    return BasePart(rank, profile.base_weight / (profile.rank_constant + rank), pool[rank - 1])


def _path_part(
    view: PartitionView,
    labels: Sequence[PathLabel],
    rank: int | None,
    affinities: Affinities,
    profile: GraphRankingProfile,
) -> PathPart | None:
    if rank is None:
        return None
    label = labels[rank - 1]
    steps = path_steps(view, label)
    missing: tuple[int, ...] = ()
    if affinities.affinity_of is not None:
        missing = tuple(step.to_row for step in steps if step.to_row not in affinities.cosine_of)
    return PathPart(
        rank,
        label.strength,
        profile.graph_weight / (profile.rank_constant + rank),
        label.anchor_row,
        label.anchor_rank,
        steps,
        missing,
    )


def _completeness(seed: GraphSeed, traversal: Traversal, work: AffinityWork) -> GraphCompleteness:
    # An empty corpus lacks no vector.
    embeddings_complete = not work.requested or (
        seed.selection.embedding_coverage in ("complete", "empty_corpus")
        and work.missing_bindings == 0
        and work.stale_bindings == 0
    )
    return GraphCompleteness(
        source_complete=seed.selection.exhaustive,
        candidates_complete=not seed.truncated and not seed.selection.channel_candidates_truncated,
        graph_complete=traversal.coverage.complete,
        embeddings_complete=embeddings_complete,
    )


def _relations_of(view: PartitionView, hits: Sequence[GraphHit]) -> tuple[int, ...]:
    """The relations on the hits' paths, by ascending relation id."""
    indexes = {step.relation_index for hit in hits if hit.graph is not None for step in hit.graph.steps}
    return tuple(sorted(indexes, key=lambda index: view.relation(index).relation_id))

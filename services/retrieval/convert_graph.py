"""Messages of graph searches, typed graphs and ancestry from the values of this service. Nothing but conversion."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

from services.domain.records import SourceRef
from services.retrieval.affinity import AffinityWork
from services.retrieval.ancestry import AncestryGraph
from services.retrieval.answer_bytes import check_hits_fit
from services.retrieval.convert_answers import (
    COVERAGE_NUMBERS,
    KIND_NUMBERS,
    dependency_work_message,
    graph_profile_message,
    hybrid_profile_message,
    rank_contribution_message,
)
from services.retrieval.graph_search import (
    BasePart,
    GraphCompleteness,
    GraphHit,
    GraphPage,
    GraphQuery,
    GraphSeed,
    PathPart,
)
from services.retrieval.partition import Partition
from services.retrieval.profiles import (
    ANCESTRY_VERSION,
    CANDIDATE_SELECTION_VERSION,
    LEXICAL_VERSION,
    SEMANTIC_VERSION,
    TYPED_TRAVERSAL_VERSION,
)
from services.retrieval.seed import HybridSeed, LexicalSeed, Seed, SemanticSeed
from services.retrieval.traversal import Expansion, Root, TraversalCoverage
from services.retrieval.typed_graph import GraphNode, TypedGraph
from services.runtime.common_messages import numbers_by_word
from waggle.common.v1 import embeddings_pb2, records_pb2, relations_pb2
from waggle.retrieval.v1 import graph_search_pb2, searches_pb2, traversal_pb2

_DIRECTIONS = numbers_by_word(traversal_pb2.TraversalDirection.DESCRIPTOR)
_ROOT_STATUSES = numbers_by_word(traversal_pb2.RootStatus.DESCRIPTOR)
_STOP_REASONS = numbers_by_word(traversal_pb2.TraversalStopReason.DESCRIPTOR)
_MODES = numbers_by_word(searches_pb2.SearchMode.DESCRIPTOR)
_OUTGOING, _INCOMING = _DIRECTIONS["outgoing"], _DIRECTIONS["incoming"]


def fill_graph_page(
    message: graph_search_pb2.GraphSearchPage, partition: Partition, query: GraphQuery, page: GraphPage, *, now_ms: int
) -> None:
    """A page of graph search. Filled in place: an assigned page would be copied whole. See `check_hits_fit`."""
    check_hits_fit(partition, (found.row for found in page.hits))
    head = graph_search_pb2.GraphSearchPage(
        ranking=graph_profile_message(query.profile),
        evaluated_at_millis=now_ms,
        seed=_seed_message(partition, query.seed, page.seed),
        expansion=_expansion_message(query.expansion, query.embedding_bytes_limit),
        graph_roots=_root_messages(page.graph_roots),
        graph_coverage=_coverage_message(page.graph_coverage),
        affinity_work=_affinity_work_message(page.affinity_work),
        graph_candidates=page.graph_candidates,
        candidates_ranked=page.candidates_ranked,
        coverage=_completeness_message(page.coverage),
    )
    message.MergeFrom(head)
    for found in page.hits:
        _add_hit(message, partition, query.seed, found)
    _add_relations(message.relations, partition, page.relations)


def _seed_message(partition: Partition, seed: Seed, found: GraphSeed) -> graph_search_pb2.GraphSeedSummary:
    selection = found.selection
    message = graph_search_pb2.GraphSeedSummary(
        mode=_MODES[selection.mode],
        selected_anchors=[_row_ref(partition, row) for row in found.anchors],
        candidate_selection_version=CANDIDATE_SELECTION_VERSION,
        scanned_records=selection.scanned_records,
        scanned_bytes=selection.scanned_bytes,
        candidate_index_bytes=selection.candidate_index_bytes,
        corpus_records=selection.corpus_records,
        lexical_matches=selection.lexical_matches,
        semantic_matches=selection.semantic_matches,
        base_candidates=len(selection.hits),
        base_candidates_truncated=found.truncated,
        channel_candidates_truncated=selection.channel_candidates_truncated,
        scan_complete=selection.exhaustive,
        dependency_work=dependency_work_message(found.dependency_work),
    )
    if isinstance(seed, LexicalSeed):
        message.ranking_version = LEXICAL_VERSION
        return message
    message.embedding_space.MergeFrom(embeddings_pb2.EmbeddingSpace(**seed.space.as_json()))
    message.embedding_coverage = COVERAGE_NUMBERS[selection.embedding_coverage or ""]
    if isinstance(seed, HybridSeed):
        message.ranking_version = seed.profile.version
        message.hybrid_profile.MergeFrom(hybrid_profile_message(seed.profile))
    else:
        message.ranking_version = SEMANTIC_VERSION
    return message


def _add_hit(message: graph_search_pb2.GraphSearchPage, partition: Partition, seed: Seed, found: GraphHit) -> None:
    hit = message.hits.add(score=found.score)
    hit.record.MergeFromString(partition.records.answers[found.row])
    if found.base is not None:
        _fill_base(hit.base, partition, seed, found.base)
    if found.graph is not None:
        hit.graph.MergeFrom(_path_message(partition, found.graph))
    if found.cosine is not None and not isinstance(seed, LexicalSeed):
        hit.affinity.cosine = found.cosine
        hit.affinity.embedding.MergeFromString(partition.receipt_answer(seed.space, found.row))


def _fill_base(
    message: graph_search_pb2.GraphBaseContribution, partition: Partition, seed: Seed, base: BasePart
) -> None:
    message.rank = base.rank
    message.contribution = base.contribution
    found = base.hit
    if isinstance(seed, LexicalSeed):
        message.retrieval.lexical.score = found.score
    elif isinstance(seed, SemanticSeed):
        message.retrieval.semantic.score = found.score
        message.retrieval.semantic.embedding.MergeFromString(partition.receipt_answer(seed.space, found.row))
    else:
        hybrid = message.retrieval.hybrid
        hybrid.MergeFrom(
            graph_search_pb2.HybridRetrieval(
                score=found.score,
                lexical=rank_contribution_message(found.lexical),
                semantic=rank_contribution_message(found.semantic),
            )
        )
        if found.semantic is not None:
            hybrid.embedding.MergeFromString(partition.receipt_answer(seed.space, found.row))


def _path_message(partition: Partition, part: PathPart) -> graph_search_pb2.GraphPathContribution:
    message = graph_search_pb2.GraphPathContribution(
        rank=part.rank,
        strength=part.strength,
        contribution=part.contribution,
        anchor=_row_ref(partition, part.anchor_row),
        anchor_rank=part.anchor_rank,
        missing_affinity=[_row_ref(partition, row) for row in part.missing_affinity],
    )
    for step in part.steps:
        relation = partition.relation(step.relation_index)
        message.steps.add(
            relation_id=relation.relation_id,
            relation_revision=relation.revision,
            direction=_OUTGOING if step.outgoing else _INCOMING,
            from_record=_row_ref(partition, step.from_row),
            to_record=_row_ref(partition, step.to_row),
        )
    return message


def _affinity_work_message(work: AffinityWork) -> graph_search_pb2.GraphAffinityWork:
    return graph_search_pb2.GraphAffinityWork(
        requested=work.requested,
        reused_scores=work.reused_scores,
        lookups=work.lookups,
        current_bindings=work.current_bindings,
        missing_bindings=work.missing_bindings,
        stale_bindings=work.stale_bindings,
        bytes_read=work.bytes_read,
        byte_limit=work.byte_limit,
    )


def _completeness_message(coverage: GraphCompleteness) -> graph_search_pb2.GraphSearchCoverage:
    return graph_search_pb2.GraphSearchCoverage(
        source_complete=coverage.source_complete,
        candidates_complete=coverage.candidates_complete,
        graph_complete=coverage.graph_complete,
        embeddings_complete=coverage.embeddings_complete,
        complete=coverage.complete,
    )


def _expansion_message(expansion: Expansion, embedding_bytes_limit: int) -> graph_search_pb2.GraphExpansion:
    return graph_search_pb2.GraphExpansion(
        direction=_DIRECTIONS[expansion.direction],
        max_depth=expansion.max_depth,
        node_limit=expansion.node_limit,
        edge_limit=expansion.edge_limit,
        scan_limit=expansion.scan_limit,
        embedding_bytes_limit=embedding_bytes_limit,
    )


def _coverage_message(coverage: TraversalCoverage) -> traversal_pb2.TypedGraphCoverage:
    return traversal_pb2.TypedGraphCoverage(
        complete=coverage.complete,
        stop_reasons=[_STOP_REASONS[reason] for reason in coverage.stop_reasons],
        records_examined=coverage.records_examined,
        record_bytes=coverage.record_bytes,
        adjacency_entries_examined=coverage.adjacency_entries_examined,
        relations_examined=coverage.relations_examined,
        relation_bytes=coverage.relation_bytes,
        dependency_work=dependency_work_message(coverage.dependency_work),
    )


def typed_graph_message(partition: Partition, graph: TypedGraph, *, now_ms: int) -> traversal_pb2.TypedGraph:
    """A typed graph."""
    expansion = graph.expansion
    message = traversal_pb2.TypedGraph(
        traversal_version=TYPED_TRAVERSAL_VERSION,
        evaluated_at_millis=now_ms,
        direction=_DIRECTIONS[expansion.direction],
        relation_kinds=[KIND_NUMBERS[kind] for kind in graph.relation_kinds],
        max_depth=expansion.max_depth,
        node_limit=expansion.node_limit,
        edge_limit=expansion.edge_limit,
        scan_limit=expansion.scan_limit,
        roots=_root_messages(graph.roots),
        coverage=_coverage_message(graph.coverage),
    )
    _add_nodes(message.nodes, partition, graph.nodes)
    _add_relations(message.edges, partition, graph.edges)
    return message


def ancestry_graph_message(partition: Partition, graph: AncestryGraph, *, now_ms: int) -> traversal_pb2.AncestryGraph:
    """An ancestry graph."""
    coverage = graph.coverage
    message = traversal_pb2.AncestryGraph(
        traversal_version=ANCESTRY_VERSION,
        evaluated_at_millis=now_ms,
        max_depth=graph.max_depth,
        node_limit=graph.node_limit,
        roots=_root_messages(graph.roots),
        edges=[
            traversal_pb2.AncestryEdge(
                source=_ref_message(edge.source), target=_ref_message(edge.target), relation="derived_from"
            )
            for edge in graph.edges
        ],
        coverage=traversal_pb2.AncestryCoverage(
            complete=coverage.complete,
            stop_reasons=[_STOP_REASONS[reason] for reason in coverage.stop_reasons],
            records_examined=coverage.records_examined,
            record_bytes=coverage.record_bytes,
            dependency_work=dependency_work_message(coverage.dependency_work),
        ),
    )
    _add_nodes(message.nodes, partition, graph.nodes)
    return message


def _root_messages(roots: Sequence[Root]) -> list[traversal_pb2.GraphRoot]:
    return [traversal_pb2.GraphRoot(record_id=root.record_id, status=_ROOT_STATUSES[root.status]) for root in roots]


def _add_nodes(
    messages: RepeatedCompositeFieldContainer[traversal_pb2.GraphNode], partition: Partition, nodes: Iterable[GraphNode]
) -> None:
    for node in nodes:
        messages.add(depth=node.depth).record.MergeFromString(partition.records.answers[node.row])


def _add_relations(
    messages: RepeatedCompositeFieldContainer[relations_pb2.MemoryRelation],
    partition: Partition,
    indexes: Iterable[int],
) -> None:
    for index in indexes:
        messages.add().MergeFromString(partition.graph.answer(index))


def _row_ref(partition: Partition, row: int) -> records_pb2.SourceRef:
    return records_pb2.SourceRef(record_id=partition.record_id(row), revision=partition.revision(row))


def _ref_message(reference: SourceRef) -> records_pb2.SourceRef:
    return records_pb2.SourceRef(record_id=reference.record_id, revision=reference.revision)

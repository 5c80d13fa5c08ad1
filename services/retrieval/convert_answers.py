"""Messages of flat searches and profile catalogues from the values of this service. Nothing but conversion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from services.domain.eligibility import DependencyWork
from services.retrieval.answer_bytes import check_hits_fit
from services.retrieval.partition import Partition
from services.retrieval.profiles import (
    GRAPH_PROFILES,
    HYBRID_PROFILES,
    LEXICAL_VERSION,
    SEMANTIC_VERSION,
    GraphRankingProfile,
    HybridRankingProfile,
)
from services.retrieval.seed import HybridSeed, SemanticSeed
from services.retrieval.selection import BaseSelection, RankContribution
from services.retrieval.settings import DEFAULT_SCAN_BYTES, VECTOR_REQUEST_BODY_BYTES, Settings
from services.runtime.common_messages import (
    embedding_receipt_message,
    numbers_by_word,
    record_message,
    relation_message,
)
from waggle.common.v1 import records_pb2, relations_pb2
from waggle.retrieval.v1 import profiles_pb2, retrieval_service_pb2, searches_pb2

HYBRID_VERSION_NUMBERS = numbers_by_word(profiles_pb2.HybridRankingVersion.DESCRIPTOR)
GRAPH_VERSION_NUMBERS = numbers_by_word(profiles_pb2.GraphRankingVersion.DESCRIPTOR)
COVERAGE_NUMBERS = numbers_by_word(searches_pb2.EmbeddingCoverage.DESCRIPTOR)
KIND_NUMBERS = numbers_by_word(relations_pb2.RelationKind.DESCRIPTOR)


class ProtobufAnswerEncoder:
    """Encodes stored objects as the serialized messages that answers are put together from."""

    def encode_record(self, record: Mapping[str, Any]) -> bytes:
        """A MemoryRecord."""
        return record_message(record).SerializeToString()

    def encode_receipt(self, receipt: Mapping[str, Any]) -> bytes:
        """An EmbeddingReceipt."""
        return embedding_receipt_message(receipt).SerializeToString()

    def encode_relation(self, relation: Mapping[str, Any]) -> bytes:
        """A MemoryRelation."""
        return relation_message(relation).SerializeToString()


def dependency_work_message(work: DependencyWork) -> records_pb2.DependencyWork:
    """Counters of dependency work."""
    return records_pb2.DependencyWork(records_examined=work.records_examined, bytes_examined=work.bytes_examined)


def rank_contribution_message(part: RankContribution | None) -> searches_pb2.RankContribution | None:
    """One channel's part, or nothing."""
    if part is None:
        return None
    return searches_pb2.RankContribution(rank=part.rank, score=part.score, contribution=part.contribution)


def fill_semantic_page(
    page: searches_pb2.SemanticPage,
    partition: Partition,
    seed: SemanticSeed,
    selection: BaseSelection,
    work: DependencyWork,
) -> None:
    """A page of semantic search. Filled in place: an assigned page would be copied whole. See `check_hits_fit`."""
    check_hits_fit(partition, (found.row for found in selection.hits))
    head = searches_pb2.SemanticPage(
        next_after=selection.next_after,
        scanned_embeddings=selection.scanned_embeddings or 0,
        matched_records=selection.matched,
        exhaustive=selection.exhaustive,
        dependency_work=dependency_work_message(work),
    )
    page.MergeFrom(head)
    for found in selection.hits:
        hit = page.hits.add(score=found.score)
        hit.record.MergeFromString(partition.records.answers[found.row])
        hit.embedding.MergeFromString(partition.receipt_answer(seed.space, found.row))


def fill_lexical_page(
    page: searches_pb2.LexicalPage, partition: Partition, selection: BaseSelection, work: DependencyWork
) -> None:
    """A page of lexical search. Filled in place: an assigned page would be copied whole. See `check_hits_fit`."""
    check_hits_fit(partition, (found.row for found in selection.hits))
    head = searches_pb2.LexicalPage(
        scanned_records=selection.scanned_records,
        scanned_bytes=selection.scanned_bytes,
        corpus_records=selection.corpus_records or 0,
        next_after=selection.next_after,
        exhaustive=selection.exhaustive,
        matched_records=selection.matched,
        dependency_work=dependency_work_message(work),
    )
    page.MergeFrom(head)
    for found in selection.hits:
        page.hits.add(score=found.score).record.MergeFromString(partition.records.answers[found.row])


def fill_hybrid_page(
    page: searches_pb2.HybridPage,
    partition: Partition,
    seed: HybridSeed,
    selection: BaseSelection,
    work: DependencyWork,
) -> None:
    """A page of hybrid search. Filled in place: an assigned page would be copied whole. See `check_hits_fit`."""
    check_hits_fit(partition, (found.row for found in selection.hits))
    head = searches_pb2.HybridPage(
        scanned_records=selection.scanned_records,
        scanned_bytes=selection.scanned_bytes,
        corpus_records=selection.corpus_records or 0,
        next_after=selection.next_after,
        exhaustive=selection.exhaustive,
        embedded_records=selection.embedded_records or 0,
        lexical_matches=selection.lexical_matches or 0,
        semantic_matches=selection.semantic_matches or 0,
        lexical_candidates=selection.lexical_candidates or 0,
        semantic_candidates=selection.semantic_candidates or 0,
        ranking=hybrid_profile_message(seed.profile),
        embedding_coverage=COVERAGE_NUMBERS[selection.embedding_coverage or ""],
        candidates_truncated=selection.channel_candidates_truncated,
        rank_constant=seed.profile.rank_constant,
        dependency_work=dependency_work_message(work),
    )
    page.MergeFrom(head)
    for found in selection.hits:
        hit = page.hits.add(
            score=found.score,
            lexical=rank_contribution_message(found.lexical),
            semantic=rank_contribution_message(found.semantic),
        )
        hit.record.MergeFromString(partition.records.answers[found.row])
        if found.semantic is not None:
            hit.embedding.MergeFromString(partition.receipt_answer(seed.space, found.row))


def hybrid_profile_message(profile: HybridRankingProfile) -> profiles_pb2.HybridRankingProfile:
    """A hybrid ranking profile."""
    return profiles_pb2.HybridRankingProfile(
        version=HYBRID_VERSION_NUMBERS[profile.version],
        method=profile.method,
        lexical_version=profile.lexical_version,
        semantic_version=profile.semantic_version,
        candidate_limit=profile.candidate_limit,
        lexical_weight=profile.lexical_weight,
        semantic_weight=profile.semantic_weight,
        rank_constant=profile.rank_constant,
        experimental=profile.experimental,
    )


def graph_profile_message(profile: GraphRankingProfile) -> profiles_pb2.GraphRankingProfile:
    """A graph ranking profile."""
    return profiles_pb2.GraphRankingProfile(
        version=GRAPH_VERSION_NUMBERS[profile.version],
        method=profile.method,
        experimental=profile.experimental,
        traversal_version=profile.traversal_version,
        base_candidate_limit=profile.base_candidate_limit,
        anchor_limit=profile.anchor_limit,
        rank_constant=profile.rank_constant,
        base_weight=profile.base_weight,
        graph_weight=profile.graph_weight,
        hop_decay=profile.hop_decay,
        cosine_affinity_floor=profile.cosine_affinity_floor,
        cosine_affinity_weight=profile.cosine_affinity_weight,
        missing_embedding_affinity=profile.missing_embedding_affinity,
        maximum_score=profile.maximum_score,
        relation_weights=[
            profiles_pb2.RelationWeight(kind=KIND_NUMBERS[kind], weight=weight)
            for kind, weight in profile.relation_weights
        ],
    )


def execution_limits_message(settings: Settings) -> profiles_pb2.ExecutionLimits:
    """What this server executes at most."""
    return profiles_pb2.ExecutionLimits(
        scope="server_instance",
        max_embedding_dimensions=settings.max_embedding_dimensions,
        max_scan_bytes=settings.max_scan_bytes,
        default_scan_bytes=DEFAULT_SCAN_BYTES,
        max_concurrent_retrievals=settings.max_concurrent_retrievals,
        vector_request_body_bytes=VECTOR_REQUEST_BODY_BYTES,
    )


def ranking_catalog_message(settings: Settings) -> retrieval_service_pb2.ListRankingProfilesResponse:
    """The hybrid profiles."""
    return retrieval_service_pb2.ListRankingProfilesResponse(
        contract_version=1,
        component_versions=profiles_pb2.ComponentVersions(lexical=LEXICAL_VERSION, semantic=SEMANTIC_VERSION),
        hybrid_profiles=map(hybrid_profile_message, HYBRID_PROFILES),
        execution_limits=execution_limits_message(settings),
    )


def graph_ranking_catalog_message(settings: Settings) -> retrieval_service_pb2.ListGraphRankingProfilesResponse:
    """The graph profiles."""
    return retrieval_service_pb2.ListGraphRankingProfilesResponse(
        contract_version=1,
        graph_profiles=map(graph_profile_message, GRAPH_PROFILES),
        execution_limits=execution_limits_message(settings),
    )

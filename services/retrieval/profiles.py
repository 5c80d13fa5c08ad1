"""The ranking profiles: frozen values that a request names and an answer repeats whole.

A profile never changes. Another weight or constant is another version.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from services.domain.relations import RELATION_KINDS, RelationKind

HybridRankingVersion = Literal["weighted_rrf_v1", "weighted_rrf_v2"]
GraphRankingVersion = Literal[
    "typed_path_balanced_v1", "typed_path_entity_v1", "typed_path_temporal_v1", "typed_path_evidence_v1"
]

LEXICAL_VERSION = "bm25_v1"
SEMANTIC_VERSION = "cosine_exact_v1"
CANDIDATE_SELECTION_VERSION = "current_records_v1"
TYPED_TRAVERSAL_VERSION = "typed_relations_v1"
ANCESTRY_VERSION = "derived_ancestry_v1"


@dataclass(frozen=True, slots=True)
class HybridRankingProfile:
    """Weighted reciprocal rank fusion of a lexical and a semantic channel: sum of weight / (rank_constant + rank).

    Attributes:
        candidate_limit: Candidates kept of each channel before fusion.
    """

    version: HybridRankingVersion
    lexical_weight: float
    semantic_weight: float
    rank_constant: int
    method: str = "weighted_rrf"
    lexical_version: str = LEXICAL_VERSION
    semantic_version: str = SEMANTIC_VERSION
    candidate_limit: int = 100
    experimental: bool = True


@dataclass(frozen=True, slots=True)
class GraphRankingProfile:
    """Strongest typed path, fused by rank with the base ranking.

    Attributes:
        weights: One weight of [0, 1] for each of `RELATION_KINDS`, in that order; a kind of weight 0 is never walked.
        base_candidate_limit: Size of the base pool.
        anchor_limit: The first so many of the pool are the roots of the traversal.
        hop_decay: Factor of each hop.
        cosine_affinity_floor, cosine_affinity_weight: Affinity is floor + weight * max(cosine, 0).
        missing_embedding_affinity: Affinity of a record without a current binding, in a query with a vector.
        maximum_score: Rank 1 in both rankings.
    """

    version: GraphRankingVersion
    weights: tuple[float, float, float, float, float, float]
    method: str = "strongest_typed_path_rrf"
    experimental: bool = True
    traversal_version: str = TYPED_TRAVERSAL_VERSION
    base_candidate_limit: int = 100
    anchor_limit: int = 4
    rank_constant: int = 2
    base_weight: float = 0.25
    graph_weight: float = 0.75
    hop_decay: float = 0.5
    cosine_affinity_floor: float = 0.5
    cosine_affinity_weight: float = 0.5
    missing_embedding_affinity: float = 0.5
    maximum_score: float = 1 / 3

    @property
    def relation_weights(self) -> tuple[tuple[RelationKind, float], ...]:
        """Kind and weight, in the documented order."""
        return tuple(zip(RELATION_KINDS, self.weights, strict=True))

    @property
    def walked_kinds(self) -> tuple[RelationKind, ...]:
        """The kinds that are walked, in the documented order."""
        return tuple(kind for kind, weight in self.relation_weights if weight > 0)


HYBRID_PROFILES: tuple[HybridRankingProfile, ...] = (
    HybridRankingProfile("weighted_rrf_v1", lexical_weight=0.5, semantic_weight=0.5, rank_constant=60),
    HybridRankingProfile("weighted_rrf_v2", lexical_weight=0.25, semantic_weight=0.75, rank_constant=2),
)

GRAPH_PROFILES: tuple[GraphRankingProfile, ...] = (
    GraphRankingProfile("typed_path_balanced_v1", (1.0, 1.0, 1.0, 1.0, 1.0, 1.0)),
    GraphRankingProfile("typed_path_entity_v1", (0.5, 1.0, 0.0, 0.0, 0.0, 0.0)),
    GraphRankingProfile("typed_path_temporal_v1", (0.25, 0.5, 1.0, 0.0, 0.0, 0.0)),
    GraphRankingProfile("typed_path_evidence_v1", (0.25, 0.5, 0.25, 0.75, 1.0, 1.0)),
)

HYBRID_PROFILE_OF: dict[HybridRankingVersion, HybridRankingProfile] = {
    profile.version: profile for profile in HYBRID_PROFILES
}
GRAPH_PROFILE_OF: dict[GraphRankingVersion, GraphRankingProfile] = {
    profile.version: profile for profile in GRAPH_PROFILES
}

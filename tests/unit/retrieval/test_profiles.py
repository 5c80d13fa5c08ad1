"""The profile catalogues."""

from __future__ import annotations

import pytest

from services.retrieval.profiles import GRAPH_PROFILES, HYBRID_PROFILES, GraphRankingProfile


def test_graph_profiles_have_the_documented_weights() -> None:
    """Order and weights are those of the documented table."""
    assert [(profile.version, profile.weights) for profile in GRAPH_PROFILES] == [
        ("typed_path_balanced_v1", (1, 1, 1, 1, 1, 1)),
        ("typed_path_entity_v1", (0.5, 1, 0, 0, 0, 0)),
        ("typed_path_temporal_v1", (0.25, 0.5, 1, 0, 0, 0)),
        ("typed_path_evidence_v1", (0.25, 0.5, 0.25, 0.75, 1, 1)),
    ]


@pytest.mark.parametrize("profile", GRAPH_PROFILES, ids=lambda profile: profile.version)
def test_graph_profiles_share_everything_else(profile: GraphRankingProfile) -> None:
    """Limits, constants and the maximum score are the same for all."""
    assert profile.anchor_limit == 4
    assert profile.base_candidate_limit == 100
    assert profile.maximum_score == 0.3333333333333333
    best = (profile.base_weight + profile.graph_weight) / (profile.rank_constant + 1)
    assert best == profile.maximum_score


def test_kinds_without_weight_are_not_walked() -> None:
    """Walked kinds are those of positive weight, in the documented order."""
    walked = {profile.version: profile.walked_kinds for profile in GRAPH_PROFILES}
    assert walked["typed_path_entity_v1"] == ("semantic_related", "same_entity")
    assert walked["typed_path_temporal_v1"] == ("semantic_related", "same_entity", "temporal_before")
    assert len(walked["typed_path_balanced_v1"]) == len(walked["typed_path_evidence_v1"]) == 6


def test_hybrid_profiles_are_the_documented_two() -> None:
    """Weights and constants of both, first version first."""
    found = [(p.version, p.lexical_weight, p.semantic_weight, p.rank_constant) for p in HYBRID_PROFILES]
    assert found == [("weighted_rrf_v1", 0.5, 0.5, 60), ("weighted_rrf_v2", 0.25, 0.75, 2)]

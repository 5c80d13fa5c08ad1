"""Weighted reciprocal rank fusion of the lexical and the semantic channel: `weighted_rrf_v1` and `weighted_rrf_v2`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from services.retrieval.profiles import HybridRankingProfile


class FusedRow(NamedTuple):
    """A row of the union with its one-based rank in each channel, None where the channel did not keep it."""

    row: int
    score: float
    lexical_rank: int | None
    semantic_rank: int | None


def rank_contribution(weight: float, rank_constant: int, rank: int) -> float:
    """One channel's part of a fused score: weight / (constant + rank), ranks from 1, float64."""
    return weight / (rank_constant + rank)


def fuse_rankings(
    lexical: Sequence[int],
    semantic: Sequence[int],
    profile: HybridRankingProfile,
    id_rank: Sequence[int] | npt.NDArray[np.int32],
) -> list[FusedRow]:
    """Combine two rankings into one.

    Args:
        lexical: Rows, best first, no repeats, already cut to the candidate limit.
        semantic: Likewise.
        profile: Weights and rank constant.
        id_rank: Position of each row in ascending record id order, for ties.

    Returns:
        Every row once, highest score first, equal scores in ascending record id order. An absent channel adds nothing;
        the lexical part is added before the semantic one.

    Units: scores are dimensionless float64 in [0, (lexical_weight + semantic_weight) / (rank_constant + 1)].
    Source: Cormack, Clarke, Buettcher, SIGIR 2009; weights and tie rule are the contract's.
    """
    lexical_rank = {row: rank for rank, row in enumerate(lexical, start=1)}
    semantic_rank = {row: rank for rank, row in enumerate(semantic, start=1)}
    constant = profile.rank_constant
    scores: dict[int, float] = {
        row: rank_contribution(profile.lexical_weight, constant, rank) for row, rank in lexical_rank.items()
    }
    for row, rank in semantic_rank.items():
        scores[row] = scores.get(row, 0.0) + rank_contribution(profile.semantic_weight, constant, rank)
    ordered = sorted(scores, key=lambda row: (-scores[row], id_rank[row]))
    return [FusedRow(row, scores[row], lexical_rank.get(row), semantic_rank.get(row)) for row in ordered]

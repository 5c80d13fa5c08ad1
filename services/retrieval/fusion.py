"""Weighted reciprocal rank fusion of the lexical and the semantic channel: `weighted_rrf_v1` and `weighted_rrf_v2`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from services.retrieval.profiles import HybridRankingProfile


@lru_cache(maxsize=64)
def rank_contributions(weight: float, rank_constant: int, count: int) -> tuple[float, ...]:
    """One channel's parts of fused scores: weight / (constant + rank) for ranks from 1 to `count`, float64."""
    return tuple(weight / (rank_constant + rank) for rank in range(1, count + 1))


def fuse_rankings(
    lexical: Sequence[int],
    semantic: Sequence[int],
    profile: HybridRankingProfile,
    id_rank: npt.NDArray[np.int32],
) -> tuple[list[int], list[float]]:
    """Combine two rankings into one.

    Args:
        lexical: Rows, best first, no repeats, already cut to the candidate limit.
        semantic: Likewise.
        profile: Weights and rank constant.
        id_rank: (rows,) position of each row in ascending record id order, for ties.

    Returns:
        Every row once, highest score first, equal scores in ascending record id order; and the score of each. An absent
        channel adds nothing; the lexical part is added before the semantic one.

    Units: scores are dimensionless float64 in [0, (lexical_weight + semantic_weight) / (rank_constant + 1)].
    Source: Cormack, Clarke, Buettcher, SIGIR 2009; weights and tie rule are the contract's.
    """
    constant = profile.rank_constant
    scores = dict(zip(lexical, rank_contributions(profile.lexical_weight, constant, len(lexical)), strict=True))
    semantic_parts = rank_contributions(profile.semantic_weight, constant, len(semantic))
    for row, part in zip(semantic, semantic_parts, strict=True):
        scores[row] = scores.get(row, 0.0) + part
    rows = np.fromiter(scores, np.int64, len(scores))
    values = np.fromiter(scores.values(), np.float64, len(scores))
    order = np.lexsort((id_rank[rows], -values))
    return rows[order].tolist(), values[order].tolist()

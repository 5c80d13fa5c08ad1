"""Weighted reciprocal rank fusion."""

from __future__ import annotations

import numpy as np
import pytest

from services.retrieval.fusion import fuse_rankings
from services.retrieval.profiles import HYBRID_PROFILES

V1, V2 = HYBRID_PROFILES
ID_RANK = np.arange(10, dtype=np.int32)


@pytest.mark.parametrize(
    ("profile", "lexical_rank", "semantic_rank", "expected"),
    [
        (V1, 1, 2, 0.01626123744050767),
        (V1, 2, 1, 0.01626123744050767),
        (V1, 1, 3, 0.016133229247983348),
        (V1, 2, 3, 0.016001024065540194),
        (V1, 1, 1, 0.01639344262295082),
        (V2, 2, 1, 0.3125),
        (V2, 1, 2, 0.2708333333333333),
        (V2, 1, 1, 0.3333333333333333),
    ],
)
def test_the_contracts_samples_come_out(profile, lexical_rank: int, semantic_rank: int, expected: float) -> None:  # type: ignore[no-untyped-def]
    """To the last digit, for a row with these two ranks."""
    lexical, semantic = [5, 6, 7], [1, 2, 3]
    lexical[lexical_rank - 1] = semantic[semantic_rank - 1] = 9
    rows, scores = fuse_rankings(lexical, semantic, profile, ID_RANK)
    assert expected == scores[rows.index(9)]


def test_an_absent_channel_adds_nothing_and_moves_no_weight() -> None:
    """A row of one channel scores that channel's part alone."""
    assert fuse_rankings([4], [], V1, ID_RANK) == ([4], [0.5 / 61])
    assert fuse_rankings([], [4], V2, ID_RANK) == ([4], [0.75 / 3])
    assert fuse_rankings([], [], V1, ID_RANK) == ([], [])


def test_equal_scores_stand_in_id_order() -> None:
    """Swapped ranks tie exactly under equal weights; the lower id comes first, whatever the row numbers are."""
    id_rank = np.array([1, 0], np.int32)
    assert fuse_rankings([0, 1], [1, 0], V1, id_rank)[0] == [1, 0]

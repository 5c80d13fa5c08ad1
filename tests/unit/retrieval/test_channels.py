"""Ranking by estimate and rescoring gives what plain float64 gives, to the last bit and the last tie."""

from __future__ import annotations

import numpy as np
import pytest

from services.domain.eligibility import DependencyCache
from services.domain.embeddings import Space
from services.retrieval.base_selection import select_base
from services.retrieval.cosine import cosine
from services.retrieval.partition import Partition
from services.retrieval.seed import LexicalSeed, SemanticSeed
from services.retrieval.view import Filter
from tests.unit.retrieval.partitions import NOW_MS, binding_row, load, record, record_row, uuid_text

SPACE = Space("local", "test", "1", 24)
PAIRS = Space("local", "pairs", "1", 2)


Found = tuple[list[tuple[str, float]], int]


def search(partition: Partition, seed: LexicalSeed | SemanticSeed, *, limit: int = 100) -> Found:
    """Ids with scores, and the number of matches."""
    selection = select_base(
        partition,
        seed,
        narrowing=Filter(),
        limit=limit,
        scan_limit=10_000,
        scan_bytes_limit=None,
        after=None,
        cache=DependencyCache(partition),
        now_ms=NOW_MS,
    )
    return [(partition.record_id(hit.row), hit.score) for hit in selection.hits], selection.matched


def plain_search(vectors: np.ndarray, query: np.ndarray, min_score: float, limit: int) -> Found:
    """The same by one exact cosine for each vector, sorted whole."""
    scores = [(uuid_text(number), cosine(vector, query)) for number, vector in enumerate(vectors)]
    matches = [(record_id, score) for record_id, score in scores if score >= min_score]
    return sorted(matches, key=lambda match: (-match[1], match[0]))[:limit], len(matches)


def partition_of(vectors: np.ndarray, space: Space) -> Partition:
    """One record for each vector."""
    rows = [record_row(record(number)) for number in range(len(vectors))]
    return load(rows + [binding_row(number, space, vector) for number, vector in enumerate(vectors)])


@pytest.mark.parametrize("seed", range(4))
def test_crowded_directions_rank_exactly(seed: int) -> None:
    """Cosines closer together than float32 can tell apart, with exact duplicates, still stand in exact order."""
    random = np.random.default_rng(seed)
    base = random.standard_normal(24)
    vectors = (base + 1e-6 * random.standard_normal((600, 24))).astype(np.float32)
    vectors[100:150] = vectors[:50]
    partition = partition_of(vectors, SPACE)
    query = (base + 1e-3 * random.standard_normal(24)).astype(np.float32)
    everything = plain_search(vectors, query, -1.0, 600)[0]
    for min_score in (-1.0, everything[50][1], everything[450][1], np.nextafter(everything[50][1], 2), 1.0):
        for limit in (1, 10, 100):
            expected = plain_search(vectors, query, float(min_score), limit)
            assert expected == search(partition, SemanticSeed(SPACE, query, float(min_score)), limit=limit)


@pytest.mark.parametrize("query", [(1.0, 0.0), (3e38, 3e38), (1e-45, 0.0), (1e-30, 1e-30), (0.0, 1.0), (-1.0, 1e-8)])
def test_odd_rows_among_a_thousand_ordinary_ones(query: tuple[float, float]) -> None:
    """Case C04: rows at the ends of float32, also both ends in one row, are neither lost nor shift others."""
    random = np.random.default_rng(7)
    vectors = random.standard_normal((1_000, 2)).astype(np.float32)
    odd = [(3e38, 3e38), (1e-45, 0.0), (1e-30, 1e-30), (3e38, 1e-45), (-3e38, 1e-45), (1e-45, 3e38), (0.0, -1e-45)]
    vectors[::143][: len(odd)] = odd
    partition = partition_of(vectors, PAIRS)
    wanted = np.array(query, np.float32)
    for min_score in (-1.0, 0.0, 0.5, 0.9999):
        expected = plain_search(vectors, wanted, min_score, 100)
        assert expected == search(partition, SemanticSeed(PAIRS, wanted, min_score))


def test_opposite_and_orthogonal_thresholds_are_inclusive() -> None:
    """A cosine equal to min_score is a match, at zero and at one."""
    vectors = np.array([(1, 0), (0, 1), (-1, 0), (0, -1)], np.float32)
    partition = partition_of(vectors, PAIRS)
    query = vectors[0]
    assert search(partition, SemanticSeed(PAIRS, query, 0.0))[0] == [
        (uuid_text(0), 1.0),
        (uuid_text(1), 0.0),
        (uuid_text(3), 0.0),
    ]
    assert search(partition, SemanticSeed(PAIRS, query, 1.0)) == ([(uuid_text(0), 1.0)], 1)
    assert search(partition, SemanticSeed(PAIRS, query, -1.0))[1] == 4


def test_equal_scores_stand_in_id_order_also_at_the_cut() -> None:
    """Of many equal texts the lowest ids are kept."""
    partition = load([record_row(record(number, "bee")) for number in range(150, 0, -1)])
    hits, matched = search(partition, LexicalSeed(("bee",)), limit=100)
    assert [record_id for record_id, _ in hits] == [uuid_text(number) for number in range(1, 101)]
    assert matched == 150
    assert len({score for _, score in hits}) == 1

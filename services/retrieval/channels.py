"""The two channels of base selection: `bm25_v1` and `cosine_exact_v1` over one corpus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from services.domain.embeddings import Float32Vector, Space
from services.retrieval.corpus import Corpus, sort_best
from services.retrieval.cosine import Float64Array, estimate_error, unit_query
from services.retrieval.record_columns import BoolArray
from services.retrieval.vector_space import VectorSpace

_NO_ROWS = np.empty(0, np.int32)
_NO_SCORES = np.empty(0, np.float64)


@dataclass(frozen=True, slots=True)
class ChannelRanking:
    """The best of one channel.

    Attributes:
        matched: Matches before the cut.
        rows: (n,) best first; score descending, then record id ascending.
        scores: (n,) float64.
    """

    matched: int
    rows: npt.NDArray[np.integer]
    scores: Float64Array


def rank_lexical(corpus: Corpus, terms: Sequence[str], limit: int) -> ChannelRanking:
    """Rank the records that hold any of the terms by BM25.

    Args:
        terms: Distinct, in order of first occurrence: the order in which their scores are added.
        limit: Most rows to keep.
    """
    texts = corpus.texts
    totals = np.zeros(len(texts), np.float64)
    for term in terms:
        part = corpus.term_scores(term)
        if part is None:
            continue
        if part.documents is None:
            totals += part.scores
        else:
            totals[part.documents] += part.scores
    documents = np.flatnonzero(totals)
    if not len(documents):
        return ChannelRanking(0, _NO_ROWS, _NO_SCORES)
    rows, scores = sort_best(texts.document_row.living[documents], totals[documents], corpus.records.id_rank, limit)
    return ChannelRanking(len(documents), rows, scores)


def rank_semantic(corpus: Corpus, space: Space, query: Float32Vector, min_score: float, limit: int) -> ChannelRanking:
    """Rank the records that have a current binding by exact cosine.

    Every cosine that decides whether a record matches, or which place it takes, is exact: estimates only rule out what
    lies further from the cut than their error bound.

    Args:
        query: (space.dimensions,) float32, finite and not zero.
        min_score: Least cosine of a match, inclusive.
        limit: Most rows to keep.
    """
    bound = corpus.bound(space)
    if not bound.embedded_records:
        return ChannelRanking(0, _NO_ROWS, _NO_SCORES)
    vectors = corpus.spaces[space]
    unit, wide, norm = unit_query(query)
    estimates = vectors.estimate(unit)
    if bound.current is not None:
        estimates[~bound.current] = -np.inf
    error = estimate_error(space.dimensions)
    cut = -np.inf
    if bound.embedded_records > limit:
        cut = float(np.partition(estimates, len(estimates) - limit)[len(estimates) - limit]) - 2 * error
    # No cosine lies below -1, so that floor asks nothing.
    floor = -np.inf if min_score <= -1.0 else min_score - error
    slots = np.flatnonzero(_above(estimates, max(cut, floor), bound.current))
    cosines = vectors.exact(slots, wide, norm)
    if floor == -np.inf:
        matched = bound.embedded_records
    else:
        matched = _count_matches(vectors, estimates, min_score, error, wide, norm)
        is_match = cosines >= min_score
        slots, cosines = slots[is_match], cosines[is_match]
    rows, scores = sort_best(vectors.slot_row.living[slots], cosines, corpus.records.id_rank, limit)
    return ChannelRanking(matched, rows, scores)


def _above(estimates: npt.NDArray[np.float32], least: float, current: BoolArray | None) -> BoolArray:
    if least == -np.inf:
        return np.ones(len(estimates), np.bool_) if current is None else current
    above: BoolArray = estimates >= np.float32(least)
    return above


def _count_matches(
    vectors: VectorSpace,
    estimates: npt.NDArray[np.float32],
    min_score: float,
    error: float,
    query: Float64Array,
    query_norm: float,
) -> int:
    """Number of current bindings with a cosine of at least `min_score`, those near it judged exactly."""
    certain = estimates >= np.float32(min_score + error)
    near = np.flatnonzero((estimates >= np.float32(min_score - error)) & ~certain)
    exact = vectors.exact(near, query, query_norm)
    return int(np.count_nonzero(certain)) + int(np.count_nonzero(exact >= min_score))

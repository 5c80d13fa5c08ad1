"""Base selection: examine candidates, rank them by the seed, keep the best."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from services.domain.eligibility import DependencyCache
from services.domain.embeddings import Float32Vector, Space
from services.retrieval.candidates import eligible_corpus, examine_candidates
from services.retrieval.channels import ChannelRanking, rank_lexical, rank_semantic
from services.retrieval.corpus import Corpus
from services.retrieval.cosine import unit_query
from services.retrieval.examination import Examination, Selection
from services.retrieval.fusion import fuse_rankings, rank_contributions
from services.retrieval.partition import Partition
from services.retrieval.profiles import HybridRankingProfile
from services.retrieval.seed import HybridSeed, LexicalSeed, Seed, SemanticSeed
from services.retrieval.selection import BaseHit, BaseSelection, RankContribution
from services.retrieval.view import Filter


def select_base(
    view: Partition,
    seed: Seed,
    *,
    narrowing: Filter,
    limit: int,
    scan_limit: int,
    scan_bytes_limit: int | None,
    after: str | None,
    cache: DependencyCache,
    now_ms: int,
) -> BaseSelection:
    """Select and rank candidates of one partition.

    Args:
        view: The partition at one sequence.
        seed: What to rank by.
        narrowing: Exact filters, applied before anything is examined.
        limit: Most hits, 1 to 100.
        scan_limit: Most candidates examined, 1 to 10,000.
        scan_bytes_limit: Most bytes examined; None for no limit (flat semantic search).
        after: Record id; only candidates with greater ids are examined.
        cache: The request's dependency lookups; its counters are the request's dependency work.
        now_ms: The request's clock.

    Raises:
        InvalidRequest: The first candidate alone is larger than scan_bytes_limit, or dependency work is spent.
    """
    space = None if isinstance(seed, LexicalSeed) else seed.space
    selection = Selection(narrowing, scan_limit, scan_bytes_limit, after, space)
    examination = examine_candidates(view, selection, now_ms)
    corpus = eligible_corpus(view, examination, cache, now_ms)
    if isinstance(seed, LexicalSeed):
        return _select_lexical(examination, corpus, seed, limit)
    if isinstance(seed, SemanticSeed):
        return _select_semantic(examination, corpus, seed, limit)
    return _select_hybrid(examination, corpus, seed, limit)


def _select_lexical(examination: Examination, corpus: Corpus, seed: LexicalSeed, limit: int) -> BaseSelection:
    ranking = rank_lexical(corpus, seed.terms, limit)
    hits = zip(ranking.rows.tolist(), ranking.scores.tolist(), strict=True)
    return BaseSelection(
        mode="lexical",
        hits=tuple(BaseHit(row, score) for row, score in hits),
        matched=ranking.matched,
        scanned_records=examination.scanned_records,
        scanned_bytes=examination.scanned_bytes,
        candidate_index_bytes=examination.candidate_index_bytes,
        next_after=examination.next_after,
        exhaustive=examination.exhaustive,
        corpus_records=corpus.corpus_records,
        lexical_matches=ranking.matched,
    )


def _select_semantic(examination: Examination, corpus: Corpus, seed: SemanticSeed, limit: int) -> BaseSelection:
    ranking = rank_semantic(corpus, seed.space, seed.vector, seed.min_score, limit)
    bound = corpus.bound(seed.space)
    hits = zip(ranking.rows.tolist(), ranking.scores.tolist(), strict=True)
    return BaseSelection(
        mode="semantic",
        hits=tuple(BaseHit(row, score, cosine=score) for row, score in hits),
        matched=ranking.matched,
        scanned_records=examination.scanned_records,
        scanned_bytes=examination.scanned_bytes,
        candidate_index_bytes=examination.candidate_index_bytes,
        next_after=examination.next_after,
        exhaustive=examination.exhaustive,
        corpus_records=corpus.corpus_records,
        scanned_embeddings=bound.scanned_embeddings,
        embedded_records=bound.embedded_records,
        semantic_matches=ranking.matched,
        embedding_coverage=corpus.embedding_coverage(seed.space),
    )


def _select_hybrid(examination: Examination, corpus: Corpus, seed: HybridSeed, limit: int) -> BaseSelection:
    profile = seed.profile
    lexical = rank_lexical(corpus, seed.terms, profile.candidate_limit)
    semantic = rank_semantic(corpus, seed.space, seed.vector, seed.min_score, profile.candidate_limit)
    bound = corpus.bound(seed.space)
    id_rank = corpus.records.id_rank
    lexical_rows, semantic_rows = lexical.rows.tolist(), semantic.rows.tolist()
    rows, scores = fuse_rankings(lexical_rows, semantic_rows, profile, id_rank)
    matched = len(rows)
    del rows[limit:], scores[limit:]
    lexical_part = dict(zip(lexical_rows, _parts(lexical, profile.lexical_weight, profile), strict=True))
    semantic_part = dict(zip(semantic_rows, _parts(semantic, profile.semantic_weight, profile), strict=True))
    cosine_of = dict(zip(semantic_rows, semantic.scores.tolist(), strict=True))
    others = [row for row in rows if row not in cosine_of]
    cosine_of.update(_other_cosines(corpus, seed.space, seed.vector, others))
    members = (map(found.get, rows) for found in (lexical_part, semantic_part, cosine_of))
    return BaseSelection(
        mode="hybrid",
        hits=tuple(map(BaseHit._make, zip(rows, scores, *members, strict=True))),
        matched=matched,
        scanned_records=examination.scanned_records,
        scanned_bytes=examination.scanned_bytes,
        candidate_index_bytes=examination.candidate_index_bytes,
        next_after=examination.next_after,
        exhaustive=examination.exhaustive,
        corpus_records=corpus.corpus_records,
        scanned_embeddings=bound.scanned_embeddings,
        embedded_records=bound.embedded_records,
        lexical_matches=lexical.matched,
        semantic_matches=semantic.matched,
        lexical_candidates=len(lexical.rows),
        semantic_candidates=len(semantic.rows),
        channel_candidates_truncated=max(lexical.matched, semantic.matched) > profile.candidate_limit,
        embedding_coverage=corpus.embedding_coverage(seed.space),
    )


def _parts(channel: ChannelRanking, weight: float, profile: HybridRankingProfile) -> list[RankContribution]:
    """Each kept row's part of the fused score, best first."""
    count = len(channel.rows)
    contributions = rank_contributions(weight, profile.rank_constant, count)
    members = zip(range(1, count + 1), channel.scores.tolist(), contributions, strict=True)
    return list(map(RankContribution._make, members))


def _other_cosines(corpus: Corpus, space: Space, query: Float32Vector, rows: list[int]) -> dict[int, float]:
    """Cosines of rows that the semantic channel did not keep, as far as they have a current binding."""
    vectors = corpus.spaces.get(space)
    if vectors is None or not rows:
        return {}
    row_array: npt.NDArray[np.int32] = np.array(rows, np.int32)
    slots = vectors.slots_of(row_array)
    revisions = corpus.records.revision.living
    is_current = (slots >= 0) & (vectors.bound_revision.living[slots] == revisions[row_array])
    current = row_array[is_current].tolist()
    _, wide, norm = unit_query(query)
    return dict(zip(current, vectors.exact(slots[is_current], wide, norm).tolist(), strict=True))

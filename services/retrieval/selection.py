"""The outcome of base selection: what flat searches answer and graph search starts from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

EmbeddingCoverage = Literal["complete", "partial", "missing", "empty_corpus"]


class RankContribution(NamedTuple):
    """One channel's part of a fused score."""

    rank: int
    score: float
    contribution: float


class BaseHit(NamedTuple):
    """A ranked candidate.

    Attributes:
        score: Raw BM25, raw cosine, or the fused score, by mode.
        cosine: The row's exact cosine when this selection computed it for a current binding (semantic and hybrid), also
            when it lies below min_score; None otherwise.
    """

    row: int
    score: float
    lexical: RankContribution | None = None
    semantic: RankContribution | None = None
    cosine: float | None = None


@dataclass(frozen=True, slots=True)
class BaseSelection:
    """Candidates examined, counted and ranked by one seed mode; the meaning of each counter is the contract's.

    Attributes:
        hits: Best first, at most the number asked for.
        matched: Matches before any cut (lexical, semantic) or size of the fused union (hybrid).
        next_after: Last examined candidate when more exist, else None.
        exhaustive: No cursor, and the end of the partition was reached.
    """

    mode: Literal["lexical", "semantic", "hybrid"]
    hits: tuple[BaseHit, ...]
    matched: int
    scanned_records: int
    scanned_bytes: int
    candidate_index_bytes: int
    next_after: str | None
    exhaustive: bool
    corpus_records: int | None = None
    scanned_embeddings: int | None = None
    embedded_records: int | None = None
    lexical_matches: int | None = None
    semantic_matches: int | None = None
    lexical_candidates: int | None = None
    semantic_candidates: int | None = None
    channel_candidates_truncated: bool = False
    embedding_coverage: EmbeddingCoverage | None = None

"""What a search asks for, before it is known where: the seed of a graph search and the query of the flat ones."""

from __future__ import annotations

from dataclasses import dataclass

from services.domain.embeddings import Float32Vector, Space
from services.retrieval.profiles import HybridRankingProfile


@dataclass(frozen=True, slots=True)
class LexicalSeed:
    """Rank by `bm25_v1`.

    Attributes:
        terms: Distinct query terms in order of first occurrence, 1 to 64, as `tokenizer.query_terms` makes them.
    """

    terms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SemanticSeed:
    """Rank by `cosine_exact_v1`.

    Attributes:
        vector: (space.dimensions,) float32, finite, not zero.
        min_score: Least cosine of a match, inclusive, -1 to 1.
    """

    space: Space
    vector: Float32Vector
    min_score: float = -1.0


@dataclass(frozen=True, slots=True)
class HybridSeed:
    """Rank by both and fuse; the parts mean what they mean in the other seeds."""

    terms: tuple[str, ...]
    space: Space
    vector: Float32Vector
    profile: HybridRankingProfile
    min_score: float = -1.0


Seed = LexicalSeed | SemanticSeed | HybridSeed

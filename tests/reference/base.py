"""The flat searches restated: examine candidates in id order, then score, sort and cut, all in plain Python.

Pages are dictionaries whose members have the names of `BaseSelection`; hits name records by id.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from typing import Any

from services.domain.canonical_json import canonical_bytes
from services.domain.embeddings import Space
from services.domain.records import Record
from services.retrieval.seed import HybridSeed, LexicalSeed, Seed, SemanticSeed
from services.retrieval.view import Filter
from tests.reference.servable import Lookups, Refused, is_servable
from tests.reference.world import World

CHANNEL_LIMIT = 100


def passes_filter(record: Record, narrowing: Filter) -> bool:
    """Exact tag and exact type; a tombstone has neither."""
    if narrowing.tag is None and narrowing.episode_type is None:
        return True
    if record.payload is None:
        return False
    if narrowing.tag is not None and narrowing.tag not in record.payload.tags:
        return False
    if narrowing.episode_type is None:
        return True
    return canonical_bytes(record.payload.episode_type).decode() == narrowing.episode_type


def select_base(
    world: World,
    seed: Seed,
    lookups: Lookups,
    *,
    narrowing: Filter,
    limit: int,
    scan_limit: int,
    scan_bytes_limit: int | None,
    after: str | None,
) -> dict[str, Any]:
    """One page of a flat search."""
    space = None if isinstance(seed, LexicalSeed) else seed.space
    candidates = [
        record
        for record_id, record in sorted(world.records.items())
        if (after is None or record_id > after)
        and record.payload is not None
        and not (record.review is not None and record.review.disposition == "rejected")
        and passes_filter(record, narrowing)
    ]
    examined: list[Record] = []
    corpus: list[Record] = []
    scanned_bytes = 0
    scanned_embeddings = 0
    for record in candidates[:scan_limit]:
        size = world.size(record.record_id)
        if space is not None and (record.record_id, space) in world.bindings:
            size += len(world.bindings[record.record_id, space].encode())
        if scan_bytes_limit is not None and scanned_bytes + size > scan_bytes_limit:
            if not examined:
                raise Refused
            break
        scanned_bytes += size
        examined.append(record)
        if is_servable(record, lookups):
            corpus.append(record)
            if space is not None and (record.record_id, space) in world.bindings:
                scanned_embeddings += 1
    more = len(examined) < len(candidates)
    page: dict[str, Any] = {
        "scanned_records": len(examined),
        "scanned_bytes": scanned_bytes,
        "candidate_index_bytes": candidate_index_bytes(len(examined)),
        "next_after": examined[-1].record_id if more and examined else None,
        "exhaustive": after is None and not more,
        "corpus_records": len(corpus),
    }
    cosines = {} if isinstance(seed, LexicalSeed) else cosines_of(world, corpus, seed.space, seed.vector.tolist())
    if isinstance(seed, LexicalSeed):
        page |= _lexical_page(corpus, seed)
    elif isinstance(seed, SemanticSeed):
        page |= _semantic_page(cosines, seed)
    else:
        page |= _hybrid_page(corpus, cosines, seed)
    if not isinstance(seed, LexicalSeed):
        if not corpus:
            coverage = "empty_corpus"
        elif not cosines:
            coverage = "missing"
        else:
            coverage = "complete" if len(cosines) == len(corpus) else "partial"
        page |= {
            "embedding_coverage": coverage,
            "scanned_embeddings": scanned_embeddings,
            "embedded_records": len(cosines),
        }
    page["hits"] = page["hits"][:limit]
    return page


def candidate_index_bytes(candidates: int) -> int:
    """Record id and revision of each candidate examined."""
    return 24 * candidates


def _lexical_page(corpus: Sequence[Record], seed: LexicalSeed) -> dict[str, Any]:
    scores = bm25_scores(corpus, seed.terms)
    hits = [{"record_id": record_id, "score": score} for record_id, score in best_first(scores)]
    return {"mode": "lexical", "hits": hits, "matched": len(scores), "lexical_matches": len(scores)}


def _semantic_page(cosines: dict[str, float], seed: SemanticSeed) -> dict[str, Any]:
    scores = {record_id: cosine for record_id, cosine in cosines.items() if cosine >= seed.min_score}
    hits = [{"record_id": record_id, "score": score} for record_id, score in best_first(scores)]
    return {"mode": "semantic", "hits": hits, "matched": len(scores), "semantic_matches": len(scores)}


def _hybrid_page(corpus: Sequence[Record], cosines: dict[str, float], seed: HybridSeed) -> dict[str, Any]:
    weights = {"weighted_rrf_v1": (0.5, 0.5, 60), "weighted_rrf_v2": (0.25, 0.75, 2)}[seed.profile.version]
    lexical_weight, semantic_weight, constant = weights
    lexical = best_first(bm25_scores(corpus, seed.terms))
    semantic = best_first({key: cosine for key, cosine in cosines.items() if cosine >= seed.min_score})
    parts: dict[str, dict[str, Any]] = {}
    for channel, weight, ranking in (("lexical", lexical_weight, lexical), ("semantic", semantic_weight, semantic)):
        for rank, (record_id, score) in enumerate(ranking[:CHANNEL_LIMIT], start=1):
            part = {"rank": rank, "score": score, "contribution": weight / (constant + rank)}
            parts.setdefault(record_id, {"lexical": None, "semantic": None})[channel] = part
    fused = {
        record_id: sum(part["contribution"] for part in channels.values() if part is not None)
        for record_id, channels in parts.items()
    }
    return {
        "mode": "hybrid",
        "hits": [{"record_id": key, "score": score, **parts[key]} for key, score in best_first(fused)],
        "matched": len(fused),
        "lexical_matches": len(lexical),
        "semantic_matches": len(semantic),
        "lexical_candidates": min(len(lexical), CHANNEL_LIMIT),
        "semantic_candidates": min(len(semantic), CHANNEL_LIMIT),
        "channel_candidates_truncated": max(len(lexical), len(semantic)) > CHANNEL_LIMIT,
    }


def best_first(scores: dict[str, float]) -> list[tuple[str, float]]:
    """Score descending, then record id ascending."""
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))


def terms_of(text: str) -> list[str]:
    """Runs of letters, marks that belong to words, and numbers; split first, lower-cased after."""
    terms: list[str] = []
    word = ""
    for character in text + " ":
        if character.isalpha() or unicodedata.category(character).startswith("N"):
            word += character
        elif word:
            terms.append(word.lower())
            word = ""
    return terms


def bm25_scores(corpus: Sequence[Record], query_terms: Sequence[str]) -> dict[str, float]:
    """`bm25_v1` of every document that holds a query term."""
    documents = {}
    for record in corpus:
        assert record.payload is not None
        content = record.payload.content
        fields = (content.primary, content.secondary or "", content.context or "")
        documents[record.record_id] = [term for text in fields for term in terms_of(text)]
    tokens = sum(map(len, documents.values()))
    if not tokens:
        return {}
    average = tokens / len(documents)
    scores: dict[str, float] = {}
    for term in query_terms:
        frequency = sum(term in terms for terms in documents.values())
        idf = math.log(1 + (len(documents) - frequency + 0.5) / (frequency + 0.5))
        for record_id, terms in documents.items():
            count = terms.count(term)
            if count:
                part = idf * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * len(terms) / average))
                scores[record_id] = scores.get(record_id, 0.0) + part
    return scores


def cosines_of(world: World, corpus: Sequence[Record], space: Space, query: Sequence[float]) -> dict[str, float]:
    """`cosine_exact_v1` of every record with a current binding in the space."""
    cosines = {}
    for record in corpus:
        binding = world.bindings.get((record.record_id, space))
        if binding is not None and binding.receipt.record_revision == record.revision:
            cosines[record.record_id] = cosine(binding.vector.tolist(), query)
    return cosines


def cosine(left: Sequence[float], right: Sequence[float]) -> float:
    """Of two float32 vectors, in float64; zero is never negative."""
    dot = sum(a * b for a, b in zip(left, right, strict=True)) + 0.0
    norms = math.sqrt(sum(a * a for a in left)) * math.sqrt(sum(b * b for b in right))
    return max(-1.0, min(1.0, dot / norms))

"""Pages of the four searches, and the profiles that rank them."""

from __future__ import annotations

from qilbeedb._checks import (
    NAME,
    Check,
    anything,
    array,
    boolean,
    choice,
    closed,
    integer,
    nullable,
    number,
    uuid,
)
from qilbeedb._identities import COUNT, DEPENDENCY_WORK
from qilbeedb._records import EMBEDDING_RECEIPT, served_record
from qilbeedb._relations import KIND

SCORE_MAX = 1 / 3
FUSED = number(0, SCORE_MAX)
COSINE = number(-1, 1)
BM25 = number(0)
COVERAGE = choice("complete", "partial", "missing", "empty_corpus")
_WORK = {"dependency_work": DEPENDENCY_WORK}
CHANNEL = closed({"rank": integer(1, 100), "score": number(-1), "contribution": number(0, 0.25)})
_TIMING = closed({"retrieval_micros": COUNT})

HYBRID_PROFILE = closed(
    {
        "version": NAME,
        "method": NAME,
        "lexical_version": NAME,
        "semantic_version": NAME,
        "candidate_limit": COUNT,
        "lexical_weight": number(0, 1),
        "semantic_weight": number(0, 1),
        "rank_constant": COUNT,
        "experimental": boolean,
    }
)
GRAPH_PROFILE = closed(
    {
        "version": NAME,
        "method": NAME,
        "experimental": boolean,
        "traversal_version": NAME,
        "base_candidate_limit": COUNT,
        "anchor_limit": COUNT,
        "rank_constant": COUNT,
        "base_weight": number(0, 1),
        "graph_weight": number(0, 1),
        "hop_decay": number(0, 1),
        "cosine_affinity_floor": number(0, 1),
        "cosine_affinity_weight": number(0, 1),
        "missing_embedding_affinity": number(0, 1),
        "maximum_score": number(0, 1),
        "relation_weights": array(closed({"kind": KIND, "weight": number(0, 1)}), 6, 6),
    }
)
_LIMITS = closed(
    {
        "scope": NAME,
        "max_embedding_dimensions": COUNT,
        "max_scan_bytes": COUNT,
        "default_scan_bytes": COUNT,
        "max_concurrent_retrievals": COUNT,
        "vector_request_body_bytes": COUNT,
    }
)
CATALOG = closed(
    {
        "contract_version": integer(1, 1),
        "component_versions": closed({"lexical": NAME, "semantic": NAME}),
        "hybrid_profiles": array(HYBRID_PROFILE, 1),
        "execution_limits": _LIMITS,
    }
)
GRAPH_CATALOG = closed(
    {
        "contract_version": integer(1, 1),
        "graph_profiles": array(GRAPH_PROFILE, 1),
        "execution_limits": _LIMITS,
    }
)

SEMANTIC_PAGE = closed(
    {
        "hits": array(closed({"record": served_record, "score": COSINE, "embedding": EMBEDDING_RECEIPT}), 0, 100),
        "next_after": nullable(uuid),
        "scanned_embeddings": COUNT,
        "matched_records": COUNT,
        "exhaustive": boolean,
    },
    _WORK,
)
_SCAN = {
    "scanned_records": COUNT,
    "scanned_bytes": COUNT,
    "corpus_records": COUNT,
    "next_after": nullable(uuid),
    "exhaustive": boolean,
}
LEXICAL_PAGE = closed(
    {**_SCAN, "hits": array(closed({"record": served_record, "score": BM25}), 0, 100), "matched_records": COUNT},
    _WORK,
)
_HYBRID_HIT = closed(
    {
        "record": served_record,
        "score": FUSED,
        "lexical": nullable(CHANNEL),
        "semantic": nullable(CHANNEL),
        "embedding": nullable(EMBEDDING_RECEIPT),
    }
)
HYBRID_PAGE = closed(
    {
        **_SCAN,
        "embedded_records": COUNT,
        "lexical_matches": COUNT,
        "semantic_matches": COUNT,
        "lexical_candidates": integer(0, 100),
        "semantic_candidates": integer(0, 100),
        "candidates_truncated": boolean,
        "rank_constant": COUNT,
        "ranking": HYBRID_PROFILE,
        "embedding_coverage": COVERAGE,
        "hits": array(_HYBRID_HIT, 0, 100),
    },
    _WORK,
)


def scored_answer(mode: str, page: Check) -> Check:
    """The whole answer of a lexical or hybrid search."""
    return closed(
        {
            "contract_version": integer(1, 1),
            "scope": anything,
            "mode": choice(mode),
            "ranking_version": NAME,
            "page": page,
            "timing": _TIMING,
        }
    )

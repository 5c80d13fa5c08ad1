"""Pages of graph search, typed traversal and evidence ancestry."""

from __future__ import annotations

from typing import Any

from qilbeedb._checks import (
    MILLIS,
    NAME,
    REVISION,
    anything,
    array,
    boolean,
    choice,
    closed,
    integer,
    nullable,
    number,
    tagged,
    uuid,
)
from qilbeedb._errors import refuse
from qilbeedb._identities import COUNT, DEPENDENCY_WORK, SOURCE_REF
from qilbeedb._records import EMBEDDING_RECEIPT, EMBEDDING_SPACE, served_record
from qilbeedb._relations import KIND, relation
from qilbeedb._search_pages import BM25, CHANNEL, COSINE, COVERAGE, FUSED, GRAPH_PROFILE, HYBRID_PROFILE
from qilbeedb._strict_json import JsonObject

STOP_REASONS = array(choice("depth_limit", "node_limit", "edge_limit", "scan_limit"), 0, 4)
ROOTS = array(closed({"record_id": uuid, "status": choice("included", "unavailable", "not_examined")}), 0, 16)
TRAVERSAL_COVERAGE = closed(
    {
        "complete": boolean,
        "stop_reasons": STOP_REASONS,
        "records_examined": integer(0, 256),
        "record_bytes": integer(0, 8_388_608),
        "adjacency_entries_examined": integer(0, 4096),
        "relations_examined": integer(0, 4096),
        "relation_bytes": integer(0, 4_194_304),
        "dependency_work": DEPENDENCY_WORK,
    }
)
_EXPANSION = closed(
    {
        "direction": choice("outgoing", "incoming", "both"),
        "max_depth": integer(0, 8),
        "node_limit": integer(1, 256),
        "edge_limit": integer(1, 1024),
        "scan_limit": integer(1, 4096),
        "embedding_bytes_limit": integer(1, 8_388_608),
    }
)
_SEED = closed(
    {
        "mode": choice("lexical", "semantic", "hybrid"),
        "ranking_version": NAME,
        "hybrid_profile": nullable(HYBRID_PROFILE),
        "embedding_space": nullable(EMBEDDING_SPACE),
        "embedding_coverage": nullable(COVERAGE),
        "selected_anchors": array(SOURCE_REF, 0, 4),
        "candidate_selection_version": NAME,
        "scanned_records": integer(0, 10_000),
        "scanned_bytes": integer(0, 268_435_456),
        "candidate_index_bytes": COUNT,
        "corpus_records": nullable(COUNT),
        "lexical_matches": nullable(COUNT),
        "semantic_matches": nullable(COUNT),
        "base_candidates": integer(0, 100),
        "base_candidates_truncated": boolean,
        "channel_candidates_truncated": boolean,
        "scan_complete": boolean,
        "dependency_work": DEPENDENCY_WORK,
    }
)
_RETRIEVAL = tagged(
    "mode",
    {
        "lexical": closed({"mode": anything, "score": BM25}),
        "semantic": closed({"mode": anything, "score": COSINE, "embedding": EMBEDDING_RECEIPT}),
        "hybrid": closed(
            {
                "mode": anything,
                "score": FUSED,
                "lexical": nullable(CHANNEL),
                "semantic": nullable(CHANNEL),
                "embedding": nullable(EMBEDDING_RECEIPT),
            }
        ),
    },
)
_STEP = closed(
    {
        "relation_id": uuid,
        "relation_revision": REVISION,
        "direction": choice("outgoing", "incoming"),
        "from": SOURCE_REF,
        "to": SOURCE_REF,
    }
)
_PATH = closed(
    {
        "rank": integer(1, 256),
        "strength": FUSED,
        "contribution": number(0, 0.25),
        "anchor": SOURCE_REF,
        "anchor_rank": integer(1, 4),
        "steps": array(_STEP, 0, 8),
        "missing_affinity": array(SOURCE_REF, 0, 8),
    }
)
_GRAPH_HIT = closed(
    {
        "record": served_record,
        "score": FUSED,
        "base": nullable(closed({"rank": integer(1, 100), "retrieval": _RETRIEVAL, "contribution": number(0, 0.25)})),
        "graph": nullable(_PATH),
        "affinity": nullable(closed({"cosine": COSINE, "embedding": EMBEDDING_RECEIPT})),
    }
)
_AFFINITY_WORK = closed(
    {
        "requested": boolean,
        "reused_scores": integer(0, 256),
        "lookups": integer(0, 256),
        "current_bindings": integer(0, 256),
        "missing_bindings": integer(0, 256),
        "stale_bindings": integer(0, 256),
        "bytes_read": integer(0, 8_388_608),
        "byte_limit": integer(1, 8_388_608),
    }
)
_GRAPH_PAGE = closed(
    {
        "ranking": GRAPH_PROFILE,
        "evaluated_at_millis": MILLIS,
        "seed": _SEED,
        "expansion": _EXPANSION,
        "graph_roots": ROOTS,
        "graph_coverage": TRAVERSAL_COVERAGE,
        "affinity_work": _AFFINITY_WORK,
        "graph_candidates": integer(0, 256),
        "candidates_ranked": integer(0, 356),
        "coverage": closed(
            {f"{name}complete": boolean for name in ("source_", "candidates_", "graph_", "embeddings_", "")}
        ),
        "hits": array(_GRAPH_HIT, 0, 100),
        "relations": array(relation, 0, 800),
    }
)


def graph_page(page: Any) -> None:
    """A page of graph search; every step of every path is one of the page's relations at its revision."""
    _GRAPH_PAGE(page)
    known = {(found["relation_id"], found["revision"]) for found in page["relations"]}
    for hit in page["hits"]:
        for step in _steps(hit):
            if (step["relation_id"], step["relation_revision"]) not in known:
                refuse()


def _steps(hit: JsonObject) -> Any:
    return hit["graph"]["steps"] if hit["graph"] is not None else ()


_NODES = array(closed({"record": served_record, "depth": integer(0, 8)}), 0, 256)
TYPED_GRAPH = closed(
    {
        "traversal_version": NAME,
        "evaluated_at_millis": MILLIS,
        "direction": choice("outgoing", "incoming", "both"),
        "relation_kinds": array(KIND, 1, 6),
        "max_depth": integer(0, 8),
        "node_limit": integer(1, 256),
        "edge_limit": integer(1, 1024),
        "scan_limit": integer(1, 4096),
        "roots": ROOTS,
        "nodes": _NODES,
        "edges": array(relation, 0, 1024),
        "coverage": TRAVERSAL_COVERAGE,
    }
)
ANCESTRY_GRAPH = closed(
    {
        "traversal_version": NAME,
        "evaluated_at_millis": MILLIS,
        "max_depth": integer(0, 8),
        "node_limit": integer(1, 256),
        "roots": ROOTS,
        "nodes": _NODES,
        "edges": array(
            closed({"source": SOURCE_REF, "target": SOURCE_REF, "relation": choice("derived_from")}), 0, 4096
        ),
        "coverage": closed(
            {
                "complete": boolean,
                "stop_reasons": array(choice("depth_limit", "node_limit"), 0, 2),
                "records_examined": integer(0, 256),
                "record_bytes": integer(0, 8_388_608),
                "dependency_work": DEPENDENCY_WORK,
            }
        ),
    }
)

"""Answers of production in the reference's words, so that the two compare with ==."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from services.retrieval.ancestry import AncestryGraph
from services.retrieval.graph_search import GraphPage
from services.retrieval.selection import BaseHit, BaseSelection
from services.retrieval.traversal import Root, TraversalCoverage
from services.retrieval.typed_graph import TypedGraph
from services.retrieval.view import PartitionView


def describe_base(view: PartitionView, selection: BaseSelection) -> dict[str, Any]:
    """A base selection in the reference's words; members that are not set are left out."""
    page = {key: value for key, value in asdict(selection).items() if value is not None and key != "hits"}
    if selection.mode != "hybrid":
        del page["channel_candidates_truncated"]
    return page | {
        "next_after": selection.next_after,
        "hits": [_describe_base_hit(view, selection, hit) for hit in selection.hits],
    }


def _describe_base_hit(view: PartitionView, selection: BaseSelection, hit: BaseHit) -> dict[str, Any]:
    described: dict[str, Any] = {"record_id": view.record_id(hit.row), "score": hit.score}
    if selection.mode == "hybrid":
        for channel in ("lexical", "semantic"):
            part = getattr(hit, channel)
            described[channel] = None if part is None else part._asdict()
    return described


def _describe_roots(roots: Sequence[Root]) -> list[tuple[str, str]]:
    return [(root.record_id, root.status) for root in roots]


def _describe_coverage(coverage: TraversalCoverage) -> dict[str, Any]:
    described = asdict(coverage) | {"stop_reasons": list(coverage.stop_reasons)}
    work = coverage.dependency_work
    return described | {"dependency_work": (work.records_examined, work.bytes_examined)}


def describe_page(view: PartitionView, page: GraphPage) -> dict[str, Any]:
    """A graph page in the reference's words."""
    seed = page.seed
    work = seed.dependency_work
    hits = []
    for hit in page.hits:
        described: dict[str, Any] = {
            "record_id": view.record_id(hit.row),
            "score": hit.score,
            "base": None,
            "graph": None,
            "affinity": hit.cosine,
        }
        if hit.base is not None:
            described["base"] = {
                "rank": hit.base.rank,
                "contribution": hit.base.contribution,
                "retrieval": _describe_base_hit(view, seed.selection, hit.base.hit),
            }
        if hit.graph is not None:
            described["graph"] = {
                "rank": hit.graph.rank,
                "strength": hit.graph.strength,
                "contribution": hit.graph.contribution,
                "anchor": view.record_id(hit.graph.anchor_row),
                "anchor_rank": hit.graph.anchor_rank,
                "steps": [
                    (
                        view.relation(step.relation_index).relation_id,
                        "outgoing" if step.outgoing else "incoming",
                        view.record_id(step.from_row),
                        view.record_id(step.to_row),
                    )
                    for step in hit.graph.steps
                ],
                "missing_affinity": [view.record_id(row) for row in hit.graph.missing_affinity],
            }
        hits.append(described)
    return {
        "seed": describe_base(view, seed.selection)
        | {
            "anchors": [view.record_id(row) for row in seed.anchors],
            "truncated": seed.truncated,
            "dependency_work": (work.records_examined, work.bytes_examined),
        },
        "graph_roots": _describe_roots(page.graph_roots),
        "graph_coverage": _describe_coverage(page.graph_coverage),
        "affinity_work": asdict(page.affinity_work),
        "graph_candidates": page.graph_candidates,
        "candidates_ranked": page.candidates_ranked,
        "coverage": asdict(page.coverage) | {"complete": page.coverage.complete},
        "hits": hits,
        "relations": [view.relation(index).relation_id for index in page.relations],
    }


def describe_typed_graph(view: PartitionView, graph: TypedGraph) -> dict[str, Any]:
    """A typed graph in the reference's words."""
    return {
        "roots": _describe_roots(graph.roots),
        "nodes": [(view.record_id(node.row), node.depth) for node in graph.nodes],
        "edges": [view.relation(index).relation_id for index in graph.edges],
        "coverage": _describe_coverage(graph.coverage),
    }


def describe_ancestry(view: PartitionView, graph: AncestryGraph) -> dict[str, Any]:
    """An ancestry graph in the reference's words."""
    coverage = graph.coverage
    return {
        "roots": _describe_roots(graph.roots),
        "nodes": [(view.record_id(node.row), node.depth) for node in graph.nodes],
        "edges": [
            ((edge.source.record_id, edge.source.revision), (edge.target.record_id, edge.target.revision))
            for edge in graph.edges
        ],
        "coverage": {
            "stop_reasons": list(coverage.stop_reasons),
            "records_examined": coverage.records_examined,
            "record_bytes": coverage.record_bytes,
            "dependency_work": (coverage.dependency_work.records_examined, coverage.dependency_work.bytes_examined),
        },
    }

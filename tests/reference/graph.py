"""Typed traversal, graph search and evidence ancestry restated over plain dictionaries.

Answers are dictionaries in the words of the wire contract; records and relations are named by id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from services.domain.relations import RELATION_KINDS, Relation
from services.retrieval.graph_search import GraphQuery
from services.retrieval.seed import LexicalSeed
from services.retrieval.traversal import Expansion
from services.retrieval.view import Filter
from tests.reference.base import cosine, passes_filter, select_base
from tests.reference.servable import Lookups, Refused, is_evidence_servable, is_servable
from tests.reference.world import World

WEIGHTS = {
    "typed_path_balanced_v1": (1, 1, 1, 1, 1, 1),
    "typed_path_entity_v1": (0.5, 1, 0, 0, 0, 0),
    "typed_path_temporal_v1": (0.25, 0.5, 1, 0, 0, 0),
    "typed_path_evidence_v1": (0.25, 0.5, 0.25, 0.75, 1, 1),
}

# (relation id, "outgoing" or "incoming", from record, to record)
Step = tuple[str, str, str, str]


class Examined:
    """Canonical record lookups of one graph."""

    def __init__(self, world: World, lookups: Lookups, node_limit: int, narrowing: Filter) -> None:
        self.world = world
        self.lookups = lookups
        self.node_limit = node_limit
        self.narrowing = narrowing
        self.found: dict[str, bool] = {}

    def is_full(self) -> bool:
        return len(self.found) >= self.node_limit

    def look_up(self, record_id: str) -> bool:
        """Look a record up once: may it be a node."""
        if record_id not in self.found:
            record = self.world.records.get(record_id)
            self.found[record_id] = False
            if self.record_bytes() > 8 * 2**20:
                raise Refused
            if record is not None and passes_filter(record, self.narrowing):
                self.found[record_id] = is_servable(record, self.lookups)
        return self.found[record_id]

    def record_bytes(self) -> int:
        return sum(self.world.size(record_id) for record_id in self.found if record_id in self.world.records)

    def look_up_roots(self, root_ids: Sequence[str]) -> dict[str, str]:
        """Status of each root."""
        statuses = {}
        for record_id in root_ids:
            if self.is_full():
                statuses[record_id] = "not_examined"
            else:
                statuses[record_id] = "included" if self.look_up(record_id) else "unavailable"
        return statuses


def is_served(relation: Relation) -> bool:
    """It has adjacency entries."""
    rejected = relation.review is not None and relation.review.disposition == "rejected"
    return relation.state == "active" and not rejected


def adjacency(world: World, record_id: str, direction: str) -> list[tuple[str, str]]:
    """Entries of a record at its current revision, (relation id, direction): outgoing before incoming, ascending id."""
    entries = []
    revision = world.records[record_id].revision
    for way in ("outgoing", "incoming"):
        if direction in (way, "both"):
            for relation_id, relation in sorted(world.relations.items()):
                near = relation.input.source if way == "outgoing" else relation.input.target
                if is_served(relation) and (near.record_id, near.revision) == (record_id, revision):
                    entries.append((relation_id, way))
    return entries


def traverse(
    world: World,
    root_ids: Sequence[str],
    expansion: Expansion,
    kinds: Sequence[str],
    lookups: Lookups,
    narrowing: Filter,
) -> dict[str, Any]:
    """`typed_relations_v1`."""
    examined = Examined(world, lookups, expansion.node_limit, narrowing)
    statuses = examined.look_up_roots(root_ids)
    cuts = {"node_limit"} if "not_examined" in statuses.values() else set()
    depths = {record_id: 0 for record_id, status in statuses.items() if status == "included"}
    edges: list[str] = []
    deferred: list[tuple[str, str]] = []
    loaded: list[str] = []
    entries_examined = 0

    def fits(far: str, relation: Relation) -> bool:
        """The far record is at the revision that the relation names."""
        end = relation.input.target if relation.input.target.record_id == far else relation.input.source
        return world.records[far].revision == end.revision

    queue = list(depths)
    while queue and "edge_limit" not in cuts and "scan_limit" not in cuts:
        near = queue.pop(0)
        for relation_id, way in adjacency(world, near, expansion.direction):
            if entries_examined == expansion.scan_limit:
                cuts.add("scan_limit")
                break
            entries_examined += 1
            relation = world.relations[relation_id]
            if relation_id in loaded or relation.input.kind not in kinds:
                continue
            loaded.append(relation_id)
            if _relation_bytes(world, loaded) > 4 * 2**20:
                raise Refused
            if not _is_in_interval(relation, world.now_ms):
                continue
            if not is_evidence_servable(relation.input.evidence_sources, lookups):
                continue
            far = (relation.input.target if way == "outgoing" else relation.input.source).record_id
            if far not in examined.found and depths[near] == expansion.max_depth:
                deferred.append((relation_id, far))
                continue
            if far not in examined.found and examined.is_full():
                cuts.add("node_limit")
                continue
            if not examined.look_up(far) or not fits(far, relation):
                continue
            if far not in depths and depths[near] == expansion.max_depth:
                deferred.append((relation_id, far))
                continue
            if len(edges) == expansion.edge_limit:
                cuts.add("edge_limit")
                break
            edges.append(relation_id)
            if far not in depths:
                depths[far] = depths[near] + 1
                queue.append(far)
    for relation_id, far in deferred:
        if far in examined.found and not (examined.found[far] and fits(far, world.relations[relation_id])):
            continue
        if far not in depths:
            cuts.add("depth_limit")
        elif len(edges) == expansion.edge_limit:
            cuts.add("edge_limit")
        else:
            edges.append(relation_id)
    return {
        "roots": list(statuses.items()),
        "nodes": list(depths.items()),
        "edges": edges,
        "coverage": {
            "stop_reasons": [cut for cut in ("depth_limit", "node_limit", "edge_limit", "scan_limit") if cut in cuts],
            "records_examined": len(examined.found),
            "record_bytes": examined.record_bytes(),
            "adjacency_entries_examined": entries_examined,
            "relations_examined": len(loaded),
            "relation_bytes": _relation_bytes(world, loaded),
            "dependency_work": lookups.as_pair(),
        },
    }


def _relation_bytes(world: World, relation_ids: Sequence[str]) -> int:
    return sum(world.relation_size(relation_id) for relation_id in relation_ids)


def _is_in_interval(relation: Relation, now_ms: int) -> bool:
    starts, ends = relation.input.valid_from_millis, relation.input.valid_until_millis
    return (starts is None or starts <= now_ms) and (ends is None or now_ms < ends)


def search_graph(world: World, query: GraphQuery) -> dict[str, Any]:
    """A whole graph search."""
    lookups = Lookups(world)
    base = select_base(
        world,
        query.seed,
        lookups,
        narrowing=query.narrowing,
        limit=100,
        scan_limit=query.scan_limit,
        scan_bytes_limit=query.scan_bytes_limit,
        after=None,
    )
    seed_work = lookups.as_pair()
    pool = [hit["record_id"] for hit in base["hits"]]
    anchors = pool[:4]
    weights = dict(zip(RELATION_KINDS, WEIGHTS[query.profile.version], strict=True))
    kinds = [kind for kind in RELATION_KINDS if weights[kind] > 0]
    graph = traverse(world, anchors, query.expansion, kinds, lookups, query.narrowing)
    nodes = [record_id for record_id, _ in graph["nodes"]]
    cosines, affinity_work = _affinity(world, query, nodes, pool)
    affinities = dict.fromkeys(nodes, 1.0)
    if affinity_work["requested"]:
        affinities = {node: 0.5 + 0.5 * max(cosines[node], 0) if node in cosines else 0.5 for node in nodes}
    included = [anchor for anchor in anchors if anchor in nodes]
    paths = strongest_paths(world, graph["edges"], included, weights, affinities, query.expansion)
    graph_ranking = sorted(paths, key=lambda node: (-paths[node][0], len(paths[node][2]), paths[node][1], node))
    scores = {}
    for record_id in {*pool, *graph_ranking}:
        base_part = 0.25 / (3 + pool.index(record_id)) if record_id in pool else 0.0
        graph_part = 0.75 / (3 + graph_ranking.index(record_id)) if record_id in graph_ranking else 0.0
        scores[record_id] = base_part + graph_part
    hits = []
    for record_id, score in sorted(scores.items(), key=lambda item: (-item[1], item[0]))[: query.limit]:
        hit: dict[str, Any] = {"record_id": record_id, "score": score, "base": None, "graph": None}
        hit["affinity"] = cosines.get(record_id)
        if record_id in pool:
            rank = pool.index(record_id) + 1
            hit["base"] = {"rank": rank, "contribution": 0.25 / (2 + rank), "retrieval": base["hits"][rank - 1]}
        if record_id in graph_ranking:
            strength, anchor_rank, steps = paths[record_id]
            rank = graph_ranking.index(record_id) + 1
            hit["graph"] = {
                "rank": rank,
                "strength": strength,
                "contribution": 0.75 / (2 + rank),
                "anchor": anchors[anchor_rank - 1],
                "anchor_rank": anchor_rank,
                "steps": list(steps),
                "missing_affinity": [
                    step[3] for step in steps if affinity_work["requested"] and step[3] not in cosines
                ],
            }
        hits.append(hit)
    lacking = affinity_work["missing_bindings"] + affinity_work["stale_bindings"]
    base_truncated = base["matched"] > 100
    coverage = {
        "source_complete": base["exhaustive"],
        "candidates_complete": not base_truncated and not base.get("channel_candidates_truncated", False),
        "graph_complete": graph["coverage"]["stop_reasons"] == [],
        "embeddings_complete": isinstance(query.seed, LexicalSeed)
        or (base["embedding_coverage"] in ("complete", "empty_corpus") and lacking == 0),
    }
    return {
        "seed": base | {"anchors": anchors, "truncated": base_truncated, "dependency_work": seed_work},
        "graph_roots": graph["roots"],
        "graph_coverage": graph["coverage"],
        "affinity_work": affinity_work,
        "graph_candidates": len(paths),
        "candidates_ranked": len(scores),
        "coverage": coverage | {"complete": all(coverage.values())},
        "hits": hits,
        "relations": sorted({step[0] for hit in hits if hit["graph"] for step in hit["graph"]["steps"]}),
    }


def _affinity(
    world: World, query: GraphQuery, nodes: Sequence[str], pool: Sequence[str]
) -> tuple[dict[str, float], dict[str, Any]]:
    """Cosines of nodes and pool with a current binding, and the binding work."""
    counted = ("reused_scores", "lookups", "current_bindings", "missing_bindings", "stale_bindings", "bytes_read")
    work: dict[str, Any] = {"requested": False, "byte_limit": query.embedding_bytes_limit, **dict.fromkeys(counted, 0)}
    if isinstance(query.seed, LexicalSeed):
        return {}, work
    work["requested"] = True
    cosines = {}
    for record_id in [*nodes, *(row for row in pool if row not in nodes)]:
        binding = world.bindings.get((record_id, query.seed.space))
        is_current = binding is not None and binding.receipt.record_revision == world.records[record_id].revision
        if binding is not None and is_current:
            cosines[record_id] = cosine(binding.vector.tolist(), query.seed.vector.tolist())
        if record_id not in nodes:
            continue
        work["current_bindings"] += is_current
        if record_id in pool and is_current:
            work["reused_scores"] += 1
            continue
        work["lookups"] += 1
        if binding is None:
            work["missing_bindings"] += 1
            continue
        work["stale_bindings"] += not is_current
        work["bytes_read"] += len(binding.encode())
        if work["bytes_read"] > query.embedding_bytes_limit:
            raise Refused
    return cosines, work


def strongest_paths(
    world: World,
    edges: Sequence[str],
    anchors: Sequence[str],
    weights: dict[Any, float],
    affinities: dict[str, float],
    expansion: Expansion,
) -> dict[str, tuple[float, int, tuple[Step, ...]]]:
    """Strength, anchor rank and steps of the best path to each record that has one.

    For each number of hops the best path of exactly so many to each record, nothing left out; then the best of all.
    """

    def order(path: tuple[float, int, tuple[Step, ...]]) -> tuple[Any, ...]:
        strength, anchor_rank, steps = path
        return -strength, len(steps), anchor_rank, [(step[0], step[1] == "incoming") for step in steps]

    layer = {anchor: (1 / (2 + rank), rank, ()) for rank, anchor in enumerate(anchors, start=1)}
    best: dict[str, tuple[float, int, tuple[Step, ...]]] = dict(layer)
    for _ in range(expansion.max_depth):
        longer: dict[str, tuple[float, int, tuple[Step, ...]]] = {}
        for relation_id in edges:
            stated = world.relations[relation_id].input
            ends = [
                ("outgoing", stated.source.record_id, stated.target.record_id),
                ("incoming", stated.target.record_id, stated.source.record_id),
            ]
            for way, near, far in ends:
                if expansion.direction not in (way, "both") or near not in layer:
                    continue
                strength, anchor_rank, steps = layer[near]
                reached = strength * 0.5 * weights[stated.kind] * affinities[far]
                path = (reached, anchor_rank, (*steps, (relation_id, way, near, far)))
                if far not in longer or order(path) < order(longer[far]):
                    longer[far] = path
        for record_id, path in longer.items():
            if record_id not in best or order(path) < order(best[record_id]):
                best[record_id] = path
        layer = longer
    return best


def walk_ancestry(world: World, root_ids: Sequence[str], *, max_depth: int, node_limit: int) -> dict[str, Any]:
    """`derived_ancestry_v1`."""
    lookups = Lookups(world)
    examined = Examined(world, lookups, node_limit, Filter())
    statuses = examined.look_up_roots(root_ids)
    cuts = {"node_limit"} if "not_examined" in statuses.values() else set()
    depths = {record_id: 0 for record_id, status in statuses.items() if status == "included"}
    queue = list(depths)
    while queue:
        derived = queue.pop(0)
        for source in _sources(world, derived):
            if source in depths:
                continue
            if depths[derived] == max_depth:
                cuts.add("depth_limit")
            elif source not in examined.found and examined.is_full():
                cuts.add("node_limit")
            elif examined.look_up(source):
                depths[source] = depths[derived] + 1
                queue.append(source)
    return {
        "roots": list(statuses.items()),
        "nodes": list(depths.items()),
        "edges": [
            ((derived, world.records[derived].revision), (source, world.records[source].revision))
            for derived in depths
            for source in _sources(world, derived)
            if source in depths
        ],
        "coverage": {
            "stop_reasons": [cut for cut in ("depth_limit", "node_limit") if cut in cuts],
            "records_examined": len(examined.found),
            "record_bytes": examined.record_bytes(),
            "dependency_work": lookups.as_pair(),
        },
    }


def _sources(world: World, record_id: str) -> list[str]:
    derivation = world.records[record_id].derivation
    return [] if derivation is None else sorted(source.record_id for source in derivation.sources)

"""What must hold in every world, said without the reference's searches: who may be seen, and what changes nothing."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from services.domain.eligibility import DependencyCache
from services.domain.errors import InvalidRequest
from services.domain.records import SourceRef
from services.domain.relations import RELATION_KINDS, Provenance, Relation, RelationInput
from services.retrieval.graph_search import GraphPage, GraphQuery, search_graph
from services.retrieval.seed import LexicalSeed
from services.retrieval.traversal import Direction, Expansion
from tests.property.world_strategies import AUTHOR, NOW_MS, graph_queries, relation_id, worlds
from tests.reference.base import passes_filter
from tests.reference.graph import WEIGHTS, is_served
from tests.reference.loading import partition_of
from tests.reference.servable import Lookups, is_evidence_servable, is_servable
from tests.reference.world import World

many = settings(max_examples=max(60, settings().max_examples))


def search(world: World, query: GraphQuery) -> tuple[GraphPage, dict[str, object]] | None:
    """The page, and its hits in words that do not depend on rows or relation ids; None when refused."""
    view = partition_of(world)
    try:
        page = search_graph(view, query, cache=DependencyCache(view), now_ms=world.now_ms)
    except InvalidRequest:
        return None
    hits = {}
    for hit in page.hits:
        graph = None
        if hit.graph is not None:
            walked = [view.record_id(step.to_row) for step in hit.graph.steps]
            graph = (hit.graph.rank, hit.graph.strength, hit.graph.anchor_rank, len(walked))
        hits[view.record_id(hit.row)] = (hit.score, hit.base and hit.base.rank, graph, hit.cosine)
    return page, hits


def unbounded(query: GraphQuery, *, direction: Direction | None = None) -> GraphQuery:
    """The same query with bounds that no generated world reaches."""
    expansion = query.expansion
    return replace(
        query,
        limit=100,
        expansion=Expansion(direction or expansion.direction, expansion.max_depth, 256, 1024, 4096),
    )


def asserted(number: int, source: SourceRef, target: SourceRef, kind: str) -> Relation:
    """A further relation; ids from `number` on are free."""
    stated = RelationInput(source, target, kind, Provenance("human_statement", "rule", "1", "why"))  # type: ignore[arg-type]
    return Relation(relation_id(number), 1, stated, AUTHOR, NOW_MS - 1, NOW_MS - 1, "active")


@many
@given(world=worlds(), query=graph_queries())
def test_only_what_may_be_served_is_seen(world: World, query: GraphQuery) -> None:
    """Every hit, anchor and bridge is servable now and passes the filter; no record comes twice on a path.

    Every step is a servable relation of a walked kind between exactly these revisions, walked in an asked direction.
    """
    answer = search(world, query)
    if answer is None:
        return
    page, _ = answer
    view = partition_of(world)
    lookups = Lookups(world)
    seen = {*page.seed.anchors}
    for hit in page.hits:
        seen.add(hit.row)
        if hit.graph is None:
            continue
        steps = hit.graph.steps
        assert len(steps) <= query.expansion.max_depth
        path = [hit.graph.anchor_row, *(step.to_row for step in steps)]
        assert [step.from_row for step in steps] == path[:-1]
        assert path[-1] == hit.row
        assert len(set(path)) == len(path)
        assert page.seed.anchors[hit.graph.anchor_rank - 1] == path[0]
        seen.update(path)
        for step in steps:
            relation = world.relations[view.relation(step.relation_index).relation_id]
            stated = relation.input
            walked = (stated.source, stated.target) if step.outgoing else (stated.target, stated.source)
            assert is_served(relation)
            assert stated.valid_from_millis is None or stated.valid_from_millis <= NOW_MS
            assert stated.valid_until_millis is None or stated.valid_until_millis > NOW_MS
            assert is_evidence_servable(stated.evidence_sources, lookups)
            assert WEIGHTS[query.profile.version][RELATION_KINDS.index(stated.kind)] > 0
            assert query.expansion.direction in ("both", "outgoing" if step.outgoing else "incoming")
            for row, end in zip((step.from_row, step.to_row), walked, strict=True):
                assert (view.record_id(row), view.revision(row)) == (end.record_id, end.revision)
    for row in seen:
        record = world.records[view.record_id(row)]
        assert is_servable(record, lookups)
        assert passes_filter(record, query.narrowing)


@many
@given(world=worlds(), query=graph_queries())
def test_anchors_keep_their_rank(world: World, query: GraphQuery) -> None:
    """An examined anchor's graph rank is its base rank, and every other record comes after all of them.

    What only the graph found therefore scores at most what the rank after the anchors gives.
    """
    answer = search(world, query)
    if answer is None:
        return
    page, _ = answer
    examined = [root for root in page.graph_roots if root.status == "included"]
    assert len(examined) + sum(root.status == "not_examined" for root in page.graph_roots) == len(page.graph_roots)
    for hit in page.hits:
        if hit.graph is None:
            continue
        if hit.row in page.seed.anchors:
            assert hit.base is not None
            assert (hit.graph.rank, hit.graph.steps) == (hit.base.rank, ())
            assert hit.graph.strength == 1 / (2 + hit.base.rank)
        else:
            assert hit.graph.rank > len(examined)
            assert hit.graph.strength <= 1 / 6
        if hit.base is None:
            assert hit.score <= 0.75 / (3 + len(examined))


@many
@given(world=worlds(), query=graph_queries())
def test_scores_and_flags_agree_with_their_parts(world: World, query: GraphQuery) -> None:
    """A score is the sum of its parts, hits are in order, and counts bound each other."""
    answer = search(world, query)
    if answer is None:
        return
    page, _ = answer
    view = partition_of(world)
    keys = [(-hit.score, view.record_id(hit.row)) for hit in page.hits]
    assert keys == sorted(keys)
    for hit in page.hits:
        parts = [part.contribution for part in (hit.base, hit.graph) if part is not None]
        assert sum(parts) == hit.score
        assert 0 < hit.score <= query.profile.maximum_score
    coverage, work = page.graph_coverage, page.affinity_work
    assert page.coverage.graph_complete == (not coverage.stop_reasons)
    assert coverage.records_examined <= query.expansion.node_limit
    assert coverage.adjacency_entries_examined <= query.expansion.scan_limit
    assert coverage.relations_examined <= coverage.adjacency_entries_examined
    assert page.graph_candidates <= coverage.records_examined
    assert page.candidates_ranked <= len(page.seed.selection.hits) + page.graph_candidates
    assert len(page.hits) == min(query.limit, page.candidates_ranked)
    measured = work.current_bindings + work.missing_bindings + work.stale_bindings
    assert measured == work.reused_scores + work.lookups
    assert measured == (page.graph_candidates if work.requested else 0)
    assert work.bytes_read <= work.byte_limit
    used = {step.relation_index for hit in page.hits if hit.graph is not None for step in hit.graph.steps}
    assert set(page.relations) == used


@many
@given(world=worlds(), query=graph_queries())
def test_depth_zero_keeps_the_base_order(world: World, query: GraphQuery) -> None:
    """Without a hop the hits are the base pool in its own order."""
    query = replace(query, limit=100, expansion=replace(query.expansion, max_depth=0))
    answer = search(world, query)
    if answer is None:
        return
    page, _ = answer
    assert [hit.row for hit in page.hits] == [hit.row for hit in page.seed.selection.hits]
    assert page.relations == ()


@many
@given(world=worlds(), query=graph_queries())
def test_parallel_assertions_change_no_rank(world: World, query: GraphQuery) -> None:
    """Every relation asserted a second time under another id changes no score, rank, strength or path length."""
    query = unbounded(query)
    before = search(world, query)
    doubled = replace(world, relations=dict(world.relations), _sizes={})
    for number, relation in enumerate(world.relations.values(), start=500):
        doubled.relations[relation_id(number)] = replace(relation, relation_id=relation_id(number))
    after = search(doubled, query)
    assert (before and before[1]) == (after and after[1])


@many
@given(data=st.data(), world=worlds(), query=graph_queries())
def test_cycles_raise_no_strength(data: st.DataObject, world: World, query: GraphQuery) -> None:
    """Relations that lead from anywhere back to an anchor change no score, rank or strength."""
    query = unbounded(query, direction="outgoing")
    before = search(world, query)
    if before is None:
        return
    page, hits = before
    view = partition_of(world)
    anchors = [view.record_id(row) for row in page.seed.anchors]
    circled = replace(world, relations=dict(world.relations), _sizes={})
    number = 500
    for anchor in anchors:
        for record in world.records.values():
            if record.record_id != anchor:
                kind = data.draw(st.sampled_from(RELATION_KINDS))
                ends = [SourceRef(end.record_id, end.revision) for end in (record, world.records[anchor])]
                circled.relations[relation_id(number)] = asserted(number, ends[0], ends[1], kind)
                number += 1
    after = search(circled, query)
    assert after is not None
    assert after[1] == hits


@many
@given(world=worlds(), query=graph_queries())
def test_kinds_without_weight_are_never_walked(world: World, query: GraphQuery) -> None:
    """Taking the relations of such kinds away changes nothing but the number of index entries met."""
    query = unbounded(query)
    before = search(world, query)
    walked = query.profile.walked_kinds
    thinned = replace(
        world,
        relations={key: relation for key, relation in world.relations.items() if relation.input.kind in walked},
        _sizes={},
    )
    after = search(thinned, query)
    assert (before and before[1]) == (after and after[1])
    if before is not None and after is not None:
        left, right = before[0].graph_coverage, after[0].graph_coverage
        assert replace(left, adjacency_entries_examined=0) == replace(right, adjacency_entries_examined=0)
        assert before[0].coverage == after[0].coverage


@many
@given(world=worlds(), query=graph_queries())
def test_the_same_question_gets_the_same_answer(world: World, query: GraphQuery) -> None:
    """Asked twice of one partition, with whatever it remembers, a question has one answer."""
    view = partition_of(world)
    answers = []
    for _ in range(2):
        try:
            answers.append(search_graph(view, query, cache=DependencyCache(view), now_ms=world.now_ms))
        except InvalidRequest as error:
            answers.append(str(error))
    assert answers[0] == answers[1]


@many
@given(world=worlds(), query=graph_queries())
def test_lexical_paths_are_the_best_of_all_simple_paths(world: World, query: GraphQuery) -> None:
    """Strength, length, anchor and steps are those of the best path when every path without repeats is tried."""
    if not isinstance(query.seed, LexicalSeed):
        return
    query = unbounded(query)
    # Deeper, there are too many paths to try.
    query = replace(query, expansion=replace(query.expansion, max_depth=min(query.expansion.max_depth, 3)))
    answer = search(world, query)
    if answer is None:
        return
    page, _ = answer
    view = partition_of(world)
    best = _best_simple_paths(world, query, [view.record_id(row) for row in page.seed.anchors])
    for hit in page.hits:
        key = None
        if hit.graph is not None:
            steps = [view.relation(step.relation_index).relation_id for step in hit.graph.steps]
            key = (-hit.graph.strength, len(steps), hit.graph.anchor_rank, steps)
        assert key == best.get(view.record_id(hit.row))


def _best_simple_paths(
    world: World, query: GraphQuery, anchors: list[str]
) -> dict[str, tuple[float, int, int, list[str]]]:
    lookups = Lookups(world)
    weights = dict(zip(RELATION_KINDS, WEIGHTS[query.profile.version], strict=True))
    hops: dict[str, list[tuple[str, str, float]]] = {record_id: [] for record_id in world.records}
    for relation in world.relations.values():
        stated = relation.input
        starts, ends = stated.valid_from_millis, stated.valid_until_millis
        may_be_walked = (
            is_served(relation)
            and weights[stated.kind] > 0
            and (starts is None or starts <= NOW_MS)
            and (ends is None or NOW_MS < ends)
            and is_evidence_servable(stated.evidence_sources, lookups)
            and all(
                world.records[end.record_id].revision == end.revision
                and is_servable(world.records[end.record_id], lookups)
                and passes_filter(world.records[end.record_id], query.narrowing)
                for end in (stated.source, stated.target)
            )
        )
        if not may_be_walked:
            continue
        source, target = stated.source.record_id, stated.target.record_id
        if query.expansion.direction != "incoming":
            hops[source].append((target, relation.relation_id, weights[stated.kind]))
        if query.expansion.direction != "outgoing":
            hops[target].append((source, relation.relation_id, weights[stated.kind]))
    best: dict[str, tuple[float, int, int, list[str]]] = {}
    # Each entry: negative strength, anchor rank, records and relations of a path.
    open_paths: list[tuple[float, int, list[str], list[str]]] = [
        (-1 / (2 + rank), rank, [anchor], []) for rank, anchor in enumerate(anchors, start=1)
    ]
    while open_paths:
        negative, rank, records, steps = open_paths.pop()
        key = (negative, len(steps), rank, steps)
        if records[-1] not in best or key < best[records[-1]]:
            best[records[-1]] = key
        if len(steps) == query.expansion.max_depth:
            continue
        for far, relation, weight in hops[records[-1]]:
            if far not in records:
                open_paths.append((negative * 0.5 * weight, rank, [*records, far], [*steps, relation]))
    return best

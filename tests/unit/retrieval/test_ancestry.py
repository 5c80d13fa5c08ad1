"""`derived_ancestry_v1` by hand."""

from __future__ import annotations

import pytest

from services.domain.eligibility import DependencyCache
from services.domain.errors import InvalidRequest
from services.retrieval.ancestry import AncestryGraph, walk_ancestry
from tests.reference.building import NOW_MS, WorldBuilder, letter_id, letter_of
from tests.reference.plain_view import PlainView


def walk(builder: WorldBuilder, roots: str, *, max_depth: int = 4, node_limit: int = 128) -> AncestryGraph:
    view = PlainView(builder.world)
    ids = [letter_id(letter) for letter in roots]
    cache = DependencyCache(view)
    return walk_ancestry(view, ids, max_depth=max_depth, node_limit=node_limit, cache=cache, now_ms=NOW_MS)


def nodes(builder: WorldBuilder, graph: AncestryGraph) -> dict[str, int]:
    view = PlainView(builder.world)
    return {letter_of(view.record_id(node.row)): node.depth for node in graph.nodes}


def edges(graph: AncestryGraph) -> list[str]:
    return [letter_of(edge.source.record_id) + letter_of(edge.target.record_id) for edge in graph.edges]


def diamond() -> WorldBuilder:
    """Record d comes from c and b, both come from a."""
    builder = WorldBuilder().record("a").record("b", sources=[("a", 1)]).record("c", sources=[("a", 1)])
    return builder.record("d", sources=[("c", 1), ("b", 1)])


def test_sources_follow_in_ascending_id_order_each_once() -> None:
    """Breadth first; a shared source is one node at its minimum depth with an edge from each that names it."""
    builder = diamond()
    graph = walk(builder, "d")
    assert list(nodes(builder, graph).items()) == [("d", 0), ("b", 1), ("c", 1), ("a", 2)]
    assert edges(graph) == ["db", "dc", "ba", "ca"]
    assert graph.coverage.complete
    assert graph.coverage.records_examined == 4
    assert graph.coverage.record_bytes == sum(builder.world.size(letter_id(letter)) for letter in "abcd")
    assert graph.coverage.dependency_work.records_examined == 3


def test_a_depth_cut_keeps_edges_among_included_records() -> None:
    """A root that is another's source is linked even without a hop; what lies beyond is a cut."""
    builder = diamond()
    graph = walk(builder, "db", max_depth=0)
    assert (edges(graph), graph.coverage.stop_reasons) == (["db"], ("depth_limit",))
    assert walk(builder, "a", max_depth=0).coverage.complete


def test_roots_are_looked_up_before_any_source() -> None:
    """A spent budget leaves later roots unexamined and sources out."""
    builder = diamond()
    graph = walk(builder, "da", node_limit=2)
    assert [root.status for root in graph.roots] == ["included", "included"]
    assert (edges(graph), graph.coverage.stop_reasons) == ([], ("node_limit",))
    graph = walk(builder, "dab", node_limit=2)
    assert [root.status for root in graph.roots] == ["included", "included", "not_examined"]
    assert graph.coverage.records_examined == 2


def test_roots_that_may_not_be_served_are_unavailable() -> None:
    """Missing, rejected, and derived from a revision that is gone; each is a lookup, none a node."""
    builder = diamond().record("r", rejected=True).record("s", sources=[("a", 2)])
    graph = walk(builder, "Zrs")
    assert [root.status for root in graph.roots] == ["unavailable"] * 3
    assert (graph.nodes, graph.coverage.records_examined, graph.coverage.complete) == ((), 3, True)


def test_edges_name_exact_revisions() -> None:
    """Of the derived record its current one, of the source the recorded one."""
    builder = WorldBuilder().record("a", revision=7).record("b", revision=3, sources=[("a", 7)])
    (edge,) = walk(builder, "b").edges
    assert (edge.source.revision, edge.target.revision) == (3, 7)


def test_more_than_8_mib_of_records_are_refused() -> None:
    """No partial graph."""
    builder = diamond()
    for letter in "ad":
        builder.world._sizes[letter_id(letter)] = 4 * 2**20 + 1
    assert nodes(builder, walk(builder, "c")) == {"c": 0, "a": 1}
    with pytest.raises(InvalidRequest):
        walk(builder, "d")

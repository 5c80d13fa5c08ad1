"""The answer of a typed graph request."""

from __future__ import annotations

from services.domain.eligibility import DependencyCache
from services.retrieval.traversal import Expansion
from services.retrieval.typed_graph import GraphNode, walk_typed_graph
from tests.reference.building import NOW_MS, WorldBuilder, letter_id
from tests.reference.plain_view import PlainView


def test_kinds_are_echoed_in_the_documented_order() -> None:
    """Whatever the order they were asked in."""
    view = PlainView(WorldBuilder().record("a").world)
    graph = walk_typed_graph(
        view,
        [letter_id("a")],
        Expansion(),
        relation_kinds=["contradicts", "same_entity"],
        cache=DependencyCache(view),
        now_ms=NOW_MS,
    )
    assert graph.relation_kinds == ("same_entity", "contradicts")


def test_nodes_carry_their_depth() -> None:
    """In order of discovery, with the relations that were kept."""
    builder = WorldBuilder().records("abc").relate(1, "ab").relate(2, "bc")
    view = PlainView(builder.world)
    graph = walk_typed_graph(view, [letter_id("a")], Expansion(), cache=DependencyCache(view), now_ms=NOW_MS)
    assert graph.nodes == (GraphNode(0, 0), GraphNode(1, 1), GraphNode(2, 2))
    assert graph.edges == (0, 1)
    assert graph.coverage.complete


def test_all_roots_unavailable_is_complete_and_empty() -> None:
    """Nothing was cut."""
    view = PlainView(WorldBuilder().record("a", deleted=True).world)
    roots = [letter_id("a"), letter_id("Z")]
    graph = walk_typed_graph(view, roots, Expansion(), cache=DependencyCache(view), now_ms=NOW_MS)
    assert (graph.nodes, graph.edges, graph.coverage.complete) == ((), (), True)
    assert graph.coverage.records_examined == 2

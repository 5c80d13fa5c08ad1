"""Production against the plain reference on generated worlds, and what must hold in every world.

`WAGGLE_TEST_PROFILE=deep` looks at thousands of worlds.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.domain.eligibility import DependencyCache
from services.domain.errors import InvalidRequest
from services.domain.relations import RELATION_KINDS
from services.retrieval.ancestry import walk_ancestry
from services.retrieval.base_selection import select_base
from services.retrieval.graph_search import GraphPage, GraphQuery, expand_base, search_graph
from services.retrieval.partition import Partition
from services.retrieval.seed import LexicalSeed
from services.retrieval.traversal import Expansion
from services.retrieval.typed_graph import walk_typed_graph
from services.retrieval.view import Filter
from services.storage.core import LocalStore
from tests.property.large_worlds import large_query, large_world
from tests.property.world_strategies import DERIVED_STYLES, expansions, filters, graph_queries, record_id, seeds, worlds
from tests.reference import base as reference_base
from tests.reference import graph as reference_graph
from tests.reference.answers import describe_ancestry, describe_base, describe_page, describe_typed_graph
from tests.reference.loading import load_partition
from tests.reference.plain_view import PlainView
from tests.reference.servable import Lookups, Refused
from tests.reference.world import World

REFUSED = "refused"
many = settings(max_examples=max(120, settings().max_examples))

_partition_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def store() -> Iterator[LocalStore]:
    """One throw-away store; each world has a partition of its own."""
    with LocalStore.in_memory() as opened:
        yield opened


def load(store: LocalStore, world: World) -> Partition:
    return load_partition(store, next(_partition_numbers).to_bytes(32, "big"), world)


def searched(view: Partition, query: GraphQuery, world: World) -> GraphPage | None:
    try:
        return search_graph(view, query, cache=DependencyCache(view), now_ms=world.now_ms)
    except InvalidRequest:
        return None


def reference_search(world: World, query: GraphQuery) -> Any:
    try:
        return reference_graph.search_graph(world, query)
    except Refused:
        return REFUSED


@many
@given(data=st.data(), world=worlds())
def test_graph_search_equals_the_reference(store: LocalStore, data: st.DataObject, world: World) -> None:
    """Scores, ranks, paths, counters, flags and refusals of every graph search are those of the plain reference."""
    view = load(store, world)
    for query in data.draw(st.lists(graph_queries(), min_size=1, max_size=4), label="queries"):
        page = searched(view, query, world)
        answer = REFUSED if page is None else describe_page(view, page)
        assert answer == reference_search(world, query)


@settings(max_examples=min(250, settings().max_examples))
@given(seed=st.integers(0, 2**32 - 1))
def test_graph_search_of_large_worlds_equals_the_reference(store: LocalStore, seed: int) -> None:
    """Also with more matches than the pool holds, four anchors, deep paths and hundreds of relations."""
    world = large_world(seed)
    view = load(store, world)
    generator = random.Random(seed)
    for _ in range(3):
        query = large_query(generator)
        page = searched(view, query, world)
        assert page is not None
        assert describe_page(view, page) == reference_search(world, query)


@many
@given(data=st.data(), world=worlds())
def test_flat_searches_equal_the_reference(store: LocalStore, data: st.DataObject, world: World) -> None:
    """Hits, scores, counters, cursors and coverage of lexical, semantic and hybrid pages are those of the reference."""
    view = load(store, world)
    for seed in data.draw(st.lists(seeds(), min_size=1, max_size=4), label="seeds"):
        bounds: dict[str, Any] = {
            "narrowing": data.draw(filters(), label="filter"),
            "limit": data.draw(st.sampled_from((1, 3, 100)), label="limit"),
            "scan_limit": data.draw(st.sampled_from((10_000, 10_000, 1, 4)), label="scan_limit"),
            "scan_bytes_limit": data.draw(st.sampled_from((None, 2**23, 300, 1200, 4000)), label="scan_bytes_limit"),
            "after": data.draw(st.none() | st.integers(0, 14).map(record_id), label="after"),
        }
        lookups = Lookups(world)
        cache = DependencyCache(view)
        expected: Any
        try:
            expected = reference_base.select_base(world, seed, lookups, **bounds)
        except Refused:
            with pytest.raises(InvalidRequest):
                select_base(view, seed, cache=cache, now_ms=world.now_ms, **bounds)
            continue
        answer = describe_base(view, select_base(view, seed, cache=cache, now_ms=world.now_ms, **bounds))
        assert answer == expected
        assert (cache.work.records_examined, cache.work.bytes_examined) == lookups.as_pair()


@many
@given(data=st.data(), world=worlds())
def test_typed_graph_equals_the_reference(store: LocalStore, data: st.DataObject, world: World) -> None:
    """Roots, nodes, edges, counters and stop reasons are those of the reference, on the replica and on a plain view."""
    roots = data.draw(st.lists(st.integers(0, 14).map(record_id), min_size=1, max_size=5, unique=True), label="roots")
    kinds = data.draw(st.lists(st.sampled_from(RELATION_KINDS), min_size=1, max_size=6, unique=True), label="kinds")
    expansion: Expansion = data.draw(expansions(), label="expansion")
    lookups = Lookups(world)
    expected = reference_graph.traverse(world, roots, expansion, kinds, lookups, Filter())
    for view in (load(store, world), PlainView(world)):
        graph = walk_typed_graph(
            view, roots, expansion, relation_kinds=kinds, cache=DependencyCache(view), now_ms=world.now_ms
        )
        assert describe_typed_graph(view, graph) == expected


@many
@given(data=st.data(), world=worlds(DERIVED_STYLES))
def test_ancestry_equals_the_reference(store: LocalStore, data: st.DataObject, world: World) -> None:
    """Roots, nodes, edges, counters and stop reasons are those of the reference, on the replica and on a plain view."""
    roots = data.draw(st.lists(st.integers(0, 14).map(record_id), min_size=1, max_size=5, unique=True), label="roots")
    max_depth = data.draw(st.sampled_from((1, 2, 3, 8, 0, 4)), label="max_depth")
    node_limit = data.draw(st.sampled_from((256, 256, 256, 5, 2, 1)), label="node_limit")
    expected = reference_graph.walk_ancestry(world, roots, max_depth=max_depth, node_limit=node_limit)
    for view in (load(store, world), PlainView(world)):
        graph = walk_ancestry(
            view,
            roots,
            max_depth=max_depth,
            node_limit=node_limit,
            cache=DependencyCache(view),
            now_ms=world.now_ms,
        )
        assert describe_ancestry(view, graph) == expected


@many
@given(world=worlds(), query=graph_queries())
def test_expansion_of_a_plain_view_equals_the_reference(world: World, query: GraphQuery) -> None:
    """The stages after base selection need nothing of the replica but the view."""
    expected = reference_search(world, query)
    if expected == REFUSED:
        return
    view = PlainView(world)
    lookups = Lookups(world)
    base = reference_base.select_base(
        world,
        query.seed,
        lookups,
        narrowing=query.narrowing,
        limit=100,
        scan_limit=query.scan_limit,
        scan_bytes_limit=query.scan_bytes_limit,
        after=None,
    )
    cache = DependencyCache(view)
    for source in lookups.bytes_of:
        cache.look_up(source)
    space, vector = (None, None) if isinstance(query.seed, LexicalSeed) else (query.seed.space, query.seed.vector)
    page = expand_base(view, view.base_selection(base, space, vector), query, cache=cache, now_ms=world.now_ms)
    assert describe_page(view, page) == expected

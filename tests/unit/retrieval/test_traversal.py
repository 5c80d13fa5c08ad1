"""`typed_relations_v1`, rule by rule, on worlds made by hand."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from services.domain.eligibility import DependencyCache
from services.domain.errors import InvalidRequest
from services.domain.relations import RELATION_KINDS, RelationKind
from services.retrieval.traversal import OPEN_FILTER, Direction, Expansion, TraversalCoverage, traverse
from services.retrieval.view import Filter
from tests.reference.building import NOW_MS, WorldBuilder, letter_id, letter_of, number_of
from tests.reference.plain_view import PlainView


@dataclass
class Walked:
    """A traversal in letters and numbers."""

    roots: dict[str, str]
    nodes: dict[str, int]
    edges: list[int]
    coverage: TraversalCoverage

    @property
    def cuts(self) -> tuple[str, ...]:
        return self.coverage.stop_reasons


def walk(
    builder: WorldBuilder,
    roots: str,
    *,
    direction: Direction = "both",
    max_depth: int = 2,
    node_limit: int = 128,
    edge_limit: int = 256,
    scan_limit: int = 1024,
    kinds: Sequence[RelationKind] = RELATION_KINDS,
    narrowing: Filter = OPEN_FILTER,
) -> Walked:
    view = PlainView(builder.world)
    expansion = Expansion(direction, max_depth, node_limit, edge_limit, scan_limit)
    found = traverse(
        view, list(map(letter_id, roots)), expansion, kinds, DependencyCache(view), NOW_MS, narrowing=narrowing
    )
    return Walked(
        {letter_of(root.record_id): root.status for root in found.roots},
        {letter_of(view.record_id(row)): depth for row, depth in found.depth_of.items()},
        [number_of(view.relation(index).relation_id) for index in found.edges],
        found.coverage,
    )


def chain(letters: str) -> WorldBuilder:
    """Records in a row, each relation from one to the next."""
    builder = WorldBuilder().records(letters)
    for number, (source, target) in enumerate(itertools.pairwise(letters), start=1):
        builder.relate(number, source + target)
    return builder


def test_directions_follow_or_oppose_the_relation() -> None:
    """Outgoing follows source to target, incoming the reverse, both does both."""
    builder = chain("abc")
    assert walk(builder, "b", direction="outgoing").nodes == {"b": 0, "c": 1}
    assert walk(builder, "b", direction="incoming").nodes == {"b": 0, "a": 1}
    assert walk(builder, "b").nodes == {"b": 0, "c": 1, "a": 1}


def test_outgoing_entries_come_first_each_by_ascending_relation_id() -> None:
    """Discovery goes breadth first, outgoing before incoming, ascending relation id within each."""
    builder = WorldBuilder().records("abcdefg")
    builder.relate(5, "ab").relate(2, "ac").relate(1, "da").relate(4, "ea").relate(3, "cf").relate(6, "gb")
    found = walk(builder, "a")
    assert list(found.nodes.items()) == [("a", 0), ("c", 1), ("b", 1), ("d", 1), ("e", 1), ("f", 2), ("g", 2)]
    assert found.edges == [2, 5, 1, 4, 3, 6]
    assert found.cuts == ()


def test_unavailable_roots_are_told_apart_from_unexamined_ones() -> None:
    """Missing, deleted, expired and rejected ones are unavailable and counted, those past the budget not examined."""
    builder = WorldBuilder().records("ag")
    builder.record("b", deleted=True).record("c", valid_until_millis=NOW_MS).record("d", rejected=True)
    found = walk(builder, "bZcadg", node_limit=5)
    assert found.roots == {
        "b": "unavailable",
        "Z": "unavailable",
        "c": "unavailable",
        "a": "included",
        "d": "unavailable",
        "g": "not_examined",
    }
    assert found.nodes == {"a": 0}
    assert found.cuts == ("node_limit",)
    assert found.coverage.records_examined == 5
    assert found.coverage.record_bytes == sum(builder.world.size(letter_id(letter)) for letter in "bcad")


def test_relations_between_roots_are_kept_at_depth_zero() -> None:
    """Without a hop, relations among roots are returned and those that lead on are a depth cut."""
    builder = WorldBuilder().records("abc").relate(1, "ab").relate(2, "bc")
    found = walk(builder, "ab", max_depth=0)
    assert (found.edges, found.cuts) == ([1], ("depth_limit",))
    assert walk(builder, "abc", max_depth=0).cuts == ()


def test_a_record_is_met_at_its_minimum_depth() -> None:
    """A record reached by two ways is one node at the smaller depth, and both relations are kept."""
    builder = chain("abcd").relate(9, "ac")
    found = walk(builder, "a", max_depth=3)
    assert found.nodes == {"a": 0, "b": 1, "c": 1, "d": 2}
    assert sorted(found.edges) == [1, 2, 3, 9]


def test_relations_among_records_of_the_last_depth_are_kept() -> None:
    """They come in the order they are met; those that lead further are a depth cut."""
    builder = WorldBuilder().records("abcdr")
    builder.relate(1, "ra").relate(2, "rb").relate(3, "ab").relate(4, "ac").relate(5, "bd")
    found = walk(builder, "r", max_depth=1, direction="outgoing")
    assert (found.nodes, found.edges, found.cuts) == ({"r": 0, "a": 1, "b": 1}, [1, 2, 3], ("depth_limit",))


def test_a_relation_beyond_the_depth_that_could_not_be_served_is_no_cut() -> None:
    """When its far end was looked up for another reason and cannot be served as named, nothing was cut."""
    builder = WorldBuilder().records("ab").record("x", rejected=True).record("y", revision=2)
    # From a, x and y lie beyond the depth; as roots they are looked up.
    builder.relate(1, "ax").relate(2, "ay", revisions=(1, 1))
    found = walk(builder, "axy", max_depth=0)
    assert (found.edges, found.cuts) == ([], ())


def test_parallel_relations_are_all_kept_and_each_once() -> None:
    """Relations with other ids are kept beside each other; one met through both indexes is counted and kept once."""
    builder = WorldBuilder().records("ab").relate(1, "ab").relate(2, "ab").relate(3, "ba")
    found = walk(builder, "ab")
    assert found.edges == [1, 2, 3]
    assert found.coverage.relations_examined == 3
    assert found.coverage.adjacency_entries_examined == 6


def test_node_limit_counts_lookups_of_any_outcome() -> None:
    """Unavailable and filtered neighbours use the budget; scanning goes on for relations among included records."""
    builder = WorldBuilder().records("abc").record("x", rejected=True).record("y", tags=("red",))
    builder.relate(1, "ax").relate(2, "ab").relate(3, "ac").relate(4, "ba")
    found = walk(builder, "a", node_limit=3)
    assert (found.nodes, found.edges, found.cuts) == ({"a": 0, "b": 1}, [2, 4], ("node_limit",))
    assert found.coverage.records_examined == 3
    narrowed = walk(builder.record("a", tags=("red",)).relate(5, "ay"), "a", narrowing=Filter(tag="red"))
    assert narrowed.nodes == {"a": 0, "y": 1}
    assert narrowed.coverage.records_examined == 5


def test_scan_limit_is_reported_only_when_an_entry_is_left() -> None:
    """A budget that is spent exactly is no cut."""
    builder = WorldBuilder().records("abc").relate(1, "ab").relate(2, "ac")
    whole = walk(builder, "a", direction="outgoing", scan_limit=2)
    assert (whole.edges, whole.cuts, whole.coverage.adjacency_entries_examined) == ([1, 2], (), 2)
    cut = walk(builder, "a", direction="outgoing", scan_limit=1)
    assert (cut.edges, cut.cuts, cut.coverage.adjacency_entries_examined) == ([1], ("scan_limit",), 1)


def test_edge_limit_is_reported_only_when_an_eligible_relation_is_left() -> None:
    """Stale, expired and ineligible relations never use or cut the edge budget."""
    builder = WorldBuilder().records("abc").record("x", rejected=True).record("y", revision=2)
    builder.relate(1, "ab").relate(2, "ax").relate(3, "ay").relate(4, "ab", valid_until_millis=NOW_MS)
    found = walk(builder, "a", edge_limit=1, direction="outgoing")
    assert (found.edges, found.cuts, found.coverage.adjacency_entries_examined) == ([1], (), 4)
    found = walk(builder.relate(5, "ac").relate(6, "ac"), "a", edge_limit=1, direction="outgoing")
    assert (found.nodes, found.edges, found.cuts) == ({"a": 0, "b": 1}, [1], ("edge_limit",))
    assert found.coverage.adjacency_entries_examined == 5
    assert found.coverage.records_examined == 5


def test_a_relation_at_the_last_depth_can_break_the_edge_limit() -> None:
    """It is eligible and did not fit."""
    builder = WorldBuilder().records("rab").relate(1, "ra").relate(2, "rb").relate(3, "ab")
    found = walk(builder, "r", max_depth=1, edge_limit=2, direction="outgoing")
    assert (found.edges, found.cuts) == ([1, 2], ("edge_limit",))


def test_stop_reasons_come_in_the_documented_order() -> None:
    """Whatever was met first."""
    builder = WorldBuilder().records("abcde").relate(1, "ab").relate(2, "ac").relate(3, "bd").relate(4, "be")
    found = walk(builder, "a", node_limit=2, max_depth=1, scan_limit=3, direction="outgoing")
    assert found.cuts == ("depth_limit", "node_limit", "scan_limit")


def test_an_entry_of_another_kind_loads_nothing() -> None:
    """It uses scan budget only."""
    builder = WorldBuilder().records("abc").relate(1, "ab", "supports").relate(2, "ac", "contradicts")
    found = walk(builder, "a", kinds=["contradicts"], direction="outgoing")
    assert (found.nodes, found.edges) == ({"a": 0, "c": 1}, [2])
    assert found.coverage.adjacency_entries_examined == 2
    assert found.coverage.relations_examined == 1
    assert found.coverage.records_examined == 2


@pytest.mark.parametrize(
    ("starts", "ends", "kept"),
    [
        (NOW_MS, None, True),
        (NOW_MS + 1, None, False),
        (None, NOW_MS + 1, True),
        (None, NOW_MS, False),
        (NOW_MS, NOW_MS + 1, True),
    ],
)
def test_intervals_are_half_open(starts: int | None, ends: int | None, kept: bool) -> None:
    """A relation holds from its first instant on and no longer at its last."""
    builder = WorldBuilder().records("ab").relate(1, "ab", valid_from_millis=starts, valid_until_millis=ends)
    found = walk(builder, "a")
    assert found.edges == ([1] if kept else [])
    assert found.cuts == ()
    assert found.coverage.relations_examined == 1


def test_bad_evidence_costs_no_lookup_and_makes_no_cut() -> None:
    """A relation whose evidence does not hold is passed over before its far end matters, also at the last depth."""
    builder = WorldBuilder().records("abc").record("e", revision=2)
    builder.relate(1, "ab", evidence=[("e", 1)]).relate(2, "ac", evidence=[("e", 2)])
    found = walk(builder, "a", direction="outgoing")
    assert (found.nodes, found.edges) == ({"a": 0, "c": 1}, [2])
    assert found.coverage.records_examined == 2
    assert found.coverage.dependency_work.records_examined == 1
    assert found.coverage.dependency_work.bytes_examined == builder.world.size(letter_id("e"))
    only_bad = WorldBuilder().records("ab").relate(1, "ab", evidence=[("Z", 1)])
    assert walk(only_bad, "a", max_depth=0).cuts == ()


def test_relations_of_an_earlier_revision_are_no_longer_met() -> None:
    """A record's adjacency is that of its current revision; a relation that pins an old one costs a lookup only."""
    builder = WorldBuilder().record("a", revision=2).record("b").relate(1, "ab", revisions=(1, 1))
    from_a = walk(builder, "a")
    assert (from_a.nodes, from_a.coverage.adjacency_entries_examined) == ({"a": 0}, 0)
    from_b = walk(builder, "b")
    assert (from_b.nodes, from_b.coverage.adjacency_entries_examined) == ({"b": 0}, 1)
    assert from_b.coverage.records_examined == 2


def test_a_stale_relation_does_not_hide_a_current_one() -> None:
    """A record that was looked up through a stale relation is included through a current one, at no further lookup."""
    builder = WorldBuilder().record("a").record("b", revision=2)
    builder.relate(1, "ab", revisions=(1, 1)).relate(2, "ab", revisions=(1, 2))
    found = walk(builder, "a")
    assert (found.nodes, found.edges) == ({"a": 0, "b": 1}, [2])
    assert found.coverage.records_examined == 2


def test_a_derived_record_needs_its_whole_chain() -> None:
    """A neighbour whose source is gone is neither included nor a bridge; looking that up is dependency work."""
    builder = WorldBuilder().records("acs", tags=()).record("b", sources=[("s", 2)])
    builder.relate(1, "ab").relate(2, "bc")
    found = walk(builder, "a")
    assert found.nodes == {"a": 0}
    assert found.coverage.dependency_work.records_examined == 1


def test_retired_and_rejected_relations_have_no_entries() -> None:
    """They use no budget at all."""
    builder = WorldBuilder().records("ab").relate(1, "ab", state="retired").relate(2, "ab", rejected=True)
    assert walk(builder, "a").coverage.adjacency_entries_examined == 0


def test_more_than_8_mib_of_records_are_refused() -> None:
    """Exactly the limit passes, one byte more is no partial graph but a refusal."""
    builder = WorldBuilder().records("ab").relate(1, "ab")
    room = 8 * 2**20 - builder.world.size(letter_id("a"))
    builder.world._sizes[letter_id("b")] = room
    assert walk(builder, "a").coverage.record_bytes == 8 * 2**20
    builder.world._sizes[letter_id("b")] = room + 1
    with pytest.raises(InvalidRequest):
        walk(builder, "a")


def test_more_than_4_mib_of_relations_are_refused() -> None:
    """Exactly the limit passes, one byte more is a refusal."""
    builder = WorldBuilder().records("ab").relate(1, "ab", evidence_ref="x" * 4 * 2**20)
    relation_id = next(iter(builder.world.relations))
    builder.world._sizes[relation_id] = 4 * 2**20
    assert walk(builder, "a").coverage.relation_bytes == 4 * 2**20
    builder.world._sizes[relation_id] += 1
    with pytest.raises(InvalidRequest):
        walk(builder, "a")

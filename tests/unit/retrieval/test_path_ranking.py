"""Strongest paths and graph ranks, by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pytest

from services.domain.eligibility import DependencyCache
from services.retrieval.path_ranking import path_steps, rank_paths
from services.retrieval.profiles import GRAPH_PROFILE_OF, GraphRankingVersion
from services.retrieval.traversal import Direction, Expansion, traverse
from tests.reference.building import NOW_MS, WorldBuilder, letter_id, letter_of, number_of
from tests.reference.plain_view import PlainView


class Path(NamedTuple):
    """A ranked path in letters and numbers."""

    letter: str
    strength: float
    anchor: str
    steps: list[int]


def rank(
    builder: WorldBuilder,
    anchors: str,
    *,
    version: GraphRankingVersion = "typed_path_balanced_v1",
    affinities: Mapping[str, float] | None = None,
    direction: Direction = "both",
    max_depth: int = 2,
) -> list[Path]:
    view = PlainView(builder.world)
    profile = GRAPH_PROFILE_OF[version]
    expansion = Expansion(direction, max_depth, 256, 1024, 4096)
    roots = [letter_id(letter) for letter in anchors]
    traversal = traverse(view, roots, expansion, profile.walked_kinds, DependencyCache(view), NOW_MS)
    affinity_of = None
    if affinities is not None:
        affinity_of = {row: affinities.get(letter_of(view.record_id(row)), 1.0) for row in traversal.depth_of}
    labels = rank_paths(
        view, traversal, list(traversal.depth_of)[: len(anchors)], profile, affinity_of,
        direction=direction, max_depth=max_depth,
    )  # fmt: skip
    return [
        Path(
            letter_of(view.record_id(label.row)),
            label.strength,
            letter_of(view.record_id(label.anchor_row)),
            [number_of(view.relation(step.relation_index).relation_id) for step in path_steps(view, label)],
        )
        for label in labels
    ]


def test_strength_is_the_documented_product() -> None:
    """Start 1 / (2 + rank), then decay, weight and affinity of the destination for each hop, none for the anchor."""
    builder = WorldBuilder().records("abc").relate(1, "ab", "causal_claim").relate(2, "bc", "semantic_related")
    paths = rank(builder, "a", version="typed_path_evidence_v1", affinities={"a": 0.1, "b": 0.8, "c": 0.6})
    assert paths == [
        Path("a", 1 / 3, "a", []),
        Path("b", 1 / 3 * 0.5 * 0.75 * 0.8, "a", [1]),
        Path("c", 1 / 3 * 0.5 * 0.75 * 0.8 * 0.5 * 0.25 * 0.6, "a", [1, 2]),
    ]


def test_the_strongest_path_counts_even_when_it_is_longer() -> None:
    """Two strong hops beat a weak one."""
    builder = WorldBuilder().records("abc").relate(1, "ab").relate(2, "bc").relate(3, "ac", "semantic_related")
    paths = rank(builder, "a", version="typed_path_evidence_v1", affinities={"c": 0.9})
    assert paths[2] == Path("c", 1 / 3 * 0.5 * 0.5 * 0.9, "a", [1, 2])
    assert rank(builder, "a", version="typed_path_evidence_v1", max_depth=1)[2].steps == [3]


def test_equal_strength_takes_fewer_hops() -> None:
    """A direct relation of half the weight is as strong as two hops, and wins."""
    builder = WorldBuilder().records("abc").relate(1, "ab").relate(2, "bc").relate(3, "ac", "same_entity")
    paths = rank(builder, "a", version="typed_path_evidence_v1")
    assert paths[2] == Path("c", 1 / 12, "a", [3])


def test_equal_strength_and_hops_take_the_better_anchor() -> None:
    """The lower relation id of the other anchor does not matter."""
    builder = WorldBuilder().records("abc").relate(1, "bc").relate(2, "ac")
    # The first anchor starts stronger, so its hop must be weaker by exactly as much: 1/3 * 3/4 = 1/4.
    builder.relate(3, "ad", "causal_claim").relate(4, "bd").record("d")
    paths = {path.letter: path for path in rank(builder, "ab", version="typed_path_evidence_v1")}
    assert paths["d"] == Path("d", 1 / 8, "a", [3])


def test_remaining_ties_take_the_lower_steps() -> None:
    """Step by step by relation id; of parallel assertions the lowest id is the path."""
    builder = WorldBuilder().records("abcd").relate(4, "ab").relate(3, "bd").relate(2, "ac").relate(9, "cd")
    assert rank(builder, "a")[3] == Path("d", 1 / 12, "a", [2, 9])
    builder.relate(1, "ab").relate(5, "ba")
    assert rank(builder, "a")[3] == Path("d", 1 / 12, "a", [1, 3])


def test_a_stronger_path_of_the_same_length_takes_its_own_place_in_the_order() -> None:
    """It does not inherit the steps of the weaker one that it replaces when later ties are settled."""
    builder = WorldBuilder().records("abcdex")
    # b is first met by relation 1, weakly, then by relation 5, strongly; c by relation 3.
    builder.relate(1, "ab", "semantic_related").relate(3, "ac").relate(5, "ab")
    # x is tied between b and c: the path through c has the lower steps, [3, 8] before [5, 2].
    builder.relate(2, "bx").relate(8, "cx")
    paths = {path.letter: path for path in rank(builder, "a", version="typed_path_evidence_v1")}
    assert paths["x"] == Path("x", 1 / 12, "a", [3, 8])


def test_graph_ranks_do_not_look_at_relation_ids() -> None:
    """Strength, hops, anchor rank, then record id."""
    builder = WorldBuilder().records("abzy").relate(1, "az").relate(2, "ay")
    assert [path.letter for path in rank(builder, "ab")] == ["a", "b", "y", "z"]


def test_the_fourth_anchor_wins_its_tie_with_a_neighbour() -> None:
    """Both have 1/6; no hop beats one hop."""
    builder = WorldBuilder().records("zyxwa").relate(1, "za")
    paths = rank(builder, "zyxw")
    assert [path.letter for path in paths] == ["z", "y", "x", "w", "a"]
    assert paths[3].strength == paths[4].strength == 1 / 6


@pytest.mark.parametrize(("direction", "letters"), [("outgoing", "ab"), ("incoming", "ac"), ("both", "abc")])
def test_paths_walk_only_the_asked_direction(direction: Direction, letters: str) -> None:
    """A path never uses a relation against the direction."""
    builder = WorldBuilder().records("abc").relate(1, "ab").relate(2, "ca")
    assert "".join(path.letter for path in rank(builder, "a", direction=direction)) == letters


def test_cycles_end() -> None:
    """Going round never makes anything stronger, and no record comes twice on a path."""
    builder = WorldBuilder().records("abc")
    builder.relate(1, "ab").relate(2, "bc").relate(3, "ca").relate(4, "ba").relate(5, "ab").relate(6, "cb")
    assert rank(builder, "a", max_depth=8) == [
        Path("a", 1 / 3, "a", []),
        Path("b", 1 / 6, "a", [1]),
        Path("c", 1 / 6, "a", [3]),
    ]


@pytest.mark.parametrize("max_depth", range(9))
def test_no_path_is_longer_than_asked(max_depth: int) -> None:
    """On a chain of ten, the last record reached is as far as the depth allows, at most eight hops."""
    builder = WorldBuilder().records("abcdefghij")
    for number in range(9):
        builder.relate(number, "abcdefghij"[number : number + 2])
    paths = rank(builder, "a", max_depth=max_depth)
    assert [len(path.steps) for path in paths] == list(range(max_depth + 1))

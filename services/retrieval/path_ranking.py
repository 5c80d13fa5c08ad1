"""The strongest path from an anchor to each record of a walked graph, and the ranks that follow from it.

A path starts with 1 / (rank_constant + base rank of its anchor); each hop multiplies by hop_decay, the relation's
weight and the destination's affinity, in this order, in float64. The strongest path counts, never a sum. Equal
strengths: fewer hops, then the better anchor, then the lower steps, compared by relation id one after another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from services.retrieval.profiles import GraphRankingProfile
from services.retrieval.traversal import Direction, Traversal
from services.retrieval.view import PartitionView


class PathLabel(NamedTuple):
    """The end of a path; `previous` leads back to the anchor.

    Attributes:
        anchor_rank: Base rank of the anchor, from 1.
        relation_index: Of the last hop; -1 for the anchor itself.
    """

    row: int
    strength: float
    hops: int
    anchor_row: int
    anchor_rank: int
    relation_index: int
    previous: PathLabel | None


@dataclass(frozen=True, slots=True)
class PathStep:
    """One hop, in walking order; outgoing when walked from the relation's source to its target."""

    relation_index: int
    outgoing: bool
    from_row: int
    to_row: int


# Row that is reached, hop_decay times the weight of the relation, relation index.
_Hop = tuple[int, float, int]


def rank_paths(
    view: PartitionView,
    traversal: Traversal,
    anchors: Sequence[int],
    profile: GraphRankingProfile,
    affinity_of: Mapping[int, float] | None,
    *,
    direction: Direction,
    max_depth: int,
) -> list[PathLabel]:
    """Rank every included record by its strongest path of at most `max_depth` hops.

    Args:
        anchors: Rows of the included roots in base-rank order: the first has rank 1.
        affinity_of: Affinity of each included record as a destination; None when every affinity is 1.

    Returns:
        One label a record: strength descending, hops ascending, anchor rank ascending, record id ascending.
    """
    best = {
        row: PathLabel(row, 1 / (profile.rank_constant + rank), 0, row, rank, -1, None)
        for rank, row in enumerate(anchors, start=1)
    }
    hops_from = _hops(view, traversal, profile, direction, max_depth)
    # Labels of the last layer that beat everything with fewer hops, ordered by anchor rank and steps. Extending them in
    # this order, each by ascending relation id, meets equal paths in the order of the tie rule: the first one stays.
    # A label that does not beat a shorter one cannot lead anywhere that the shorter one does not reach as strongly.
    frontier = best.copy()
    for hop_count in range(1, max_depth + 1):
        improved: dict[int, PathLabel] = {}
        for label in frontier.values():
            strength = label.strength
            for row, decayed_weight, relation_index in hops_from.get(label.row, ()):
                reached = strength * decayed_weight
                if affinity_of is not None:
                    reached *= affinity_of[row]
                known = best.get(row)
                if known is not None:
                    if reached <= known.strength:
                        continue
                    # Replaced: the new label takes its own place in the order.
                    improved.pop(row, None)
                best[row] = improved[row] = PathLabel(
                    row, reached, hop_count, label.anchor_row, label.anchor_rank, relation_index, label
                )
        if not improved:
            break
        frontier = improved
    record_id = view.record_id
    return sorted(
        best.values(), key=lambda label: (-label.strength, label.hops, label.anchor_rank, record_id(label.row))
    )


def _hops(
    view: PartitionView, traversal: Traversal, profile: GraphRankingProfile, direction: Direction, max_depth: int
) -> dict[int, list[_Hop]]:
    """The hops from each record that a path may go on from, by ascending relation id."""
    weights = [profile.hop_decay * weight for weight in profile.weights]
    relation_at = view.relation
    by_id = sorted([(relation_at(index).relation_id, index) for index in traversal.edges])
    hops_from: dict[int, list[_Hop]] = {row: [] for row, depth in traversal.depth_of.items() if depth < max_depth}
    for _, index in by_id:
        relation = relation_at(index)
        source, target = relation.source_row, relation.target_row
        weight = weights[relation.kind_code]
        if direction != "incoming" and source in hops_from:
            hops_from[source].append((target, weight, index))
        if direction != "outgoing" and target in hops_from:
            hops_from[target].append((source, weight, index))
    return hops_from


def path_steps(view: PartitionView, label: PathLabel) -> tuple[PathStep, ...]:
    """The hops of a path from its anchor on; none for an anchor."""
    steps = []
    while label.previous is not None:
        outgoing = view.relation(label.relation_index).target_row == label.row
        steps.append(PathStep(label.relation_index, outgoing, label.previous.row, label.row))
        label = label.previous
    steps.reverse()
    return tuple(steps)

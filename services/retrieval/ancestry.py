"""`derived_ancestry_v1`: the sources that derived records name, breadth first within bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from services.domain.eligibility import DependencyCache, DependencyWork
from services.domain.records import SourceRef
from services.retrieval.traversal import OPEN_FILTER, RecordBudget, Root
from services.retrieval.typed_graph import GraphNode
from services.retrieval.view import PartitionView

AncestryStopReason = Literal["depth_limit", "node_limit"]

# In the documented order.
_STOP_REASONS: tuple[AncestryStopReason, ...] = ("depth_limit", "node_limit")


@dataclass(frozen=True, slots=True)
class DerivedFrom:
    """`source` is the derived record, `target` what it was derived from, both at their exact revisions."""

    source: SourceRef
    target: SourceRef


@dataclass(frozen=True, slots=True)
class AncestryCoverage:
    """What was looked at and what was cut; members mean what they mean in `TraversalCoverage`."""

    stop_reasons: tuple[AncestryStopReason, ...]
    records_examined: int
    record_bytes: int
    dependency_work: DependencyWork

    @property
    def complete(self) -> bool:
        """Nothing was cut."""
        return not self.stop_reasons


@dataclass(frozen=True, slots=True)
class AncestryGraph:
    """The answer to an ancestry request; rows stand for records of the view.

    Attributes:
        roots: In request order.
        nodes: In order of discovery, each once at its minimum depth.
        edges: By node order, then ascending target id; both ends of each are nodes.
    """

    max_depth: int
    node_limit: int
    roots: tuple[Root, ...]
    nodes: tuple[GraphNode, ...]
    edges: tuple[DerivedFrom, ...]
    coverage: AncestryCoverage


def walk_ancestry(
    view: PartitionView,
    root_ids: Sequence[str],
    *,
    max_depth: int = 4,
    node_limit: int = 128,
    cache: DependencyCache,
    now_ms: int,
) -> AncestryGraph:
    """Follow derivations from the roots to their sources.

    A source of a record that may be served may be served itself, at the revision that the derivation names; so every
    source within bounds becomes a node.

    Args:
        root_ids: 1 to 16 distinct ids.
        max_depth: 0 to 8.
        node_limit: Record lookups, roots and unavailable ones included, 1 to 256.

    Raises:
        InvalidRequest: More than 8 MiB of records, or the dependency work of a request.
    """
    records = RecordBudget(view, node_limit, OPEN_FILTER, cache, now_ms)
    cuts: set[AncestryStopReason] = set()
    depth_of: dict[int, int] = {}
    roots = []
    for record_id in root_ids:
        row, root = records.look_up_root(record_id)
        roots.append(root)
        if row is not None:
            depth_of[row] = 0
        elif root.status == "not_examined":
            cuts.add("node_limit")
    sources_of = {}
    # Grows while it is read.
    queue = list(depth_of)
    for row in queue:
        sources_of[row] = _sources(view, row)
        for source in sources_of[row]:
            far = view.row_of(source.record_id)
            if far is None or far in depth_of:
                continue
            if depth_of[row] >= max_depth:
                cuts.add("depth_limit")
            elif records.is_spent:
                cuts.add("node_limit")
            elif far not in records.revision_of and records.look_up(far) == source.revision:
                depth_of[far] = depth_of[row] + 1
                queue.append(far)
    edges = tuple(
        DerivedFrom(SourceRef(view.record_id(row), view.revision(row)), source)
        for row in queue
        for source in sources_of[row]
        if view.row_of(source.record_id) in depth_of
    )
    return AncestryGraph(
        max_depth,
        node_limit,
        tuple(roots),
        tuple(GraphNode(row, depth) for row, depth in depth_of.items()),
        edges,
        AncestryCoverage(
            tuple(reason for reason in _STOP_REASONS if reason in cuts), records.examined, records.bytes, cache.work
        ),
    )


def _sources(view: PartitionView, row: int) -> list[SourceRef]:
    """The sources that a record names, ascending id."""
    state = view.record_state(view.record_id(row))
    return [] if state is None else sorted(state.sources, key=lambda source: source.record_id)

"""`typed_relations_v1`: the bounded breadth-first walk over typed relations, for typed graphs and graph search alike.

All roots are looked up before any neighbour. Each node's outgoing entries come before its incoming ones, each in
ascending relation id; a record and a relation count once. A relation is checked in this order: kind (known from the
index entry), interval, evidence sources, far endpoint. Which cut ends what is docs/decisions/0045.

The contract puts a relation off that leads beyond the last depth, in case its far end is included later. That cannot
happen here: records of the last depth are scanned last, when every lookup has been made. So the cut is told at once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from services.domain import limits
from services.domain.eligibility import DependencyCache, DependencyWork, judge_evidence
from services.domain.errors import InvalidRequest
from services.domain.relations import RELATION_KINDS, RelationKind
from services.retrieval.view import Filter, PartitionView

Direction = Literal["outgoing", "incoming", "both"]
StopReason = Literal["depth_limit", "node_limit", "edge_limit", "scan_limit"]
RootStatus = Literal["included", "unavailable", "not_examined"]

# In the documented order, which is also the order in answers.
STOP_REASONS: tuple[StopReason, ...] = ("depth_limit", "node_limit", "edge_limit", "scan_limit")

OPEN_FILTER = Filter()


@dataclass(frozen=True, slots=True)
class Expansion:
    """Bounds of a walk.

    Attributes:
        max_depth: Hops from a root, 0 to 8.
        node_limit: Canonical record lookups, roots and unavailable records included, 1 to 256.
        edge_limit: Relations kept, 1 to 1,024.
        scan_limit: Adjacency entries examined, 1 to 4,096.
    """

    direction: Direction = "both"
    max_depth: int = 2
    node_limit: int = 128
    edge_limit: int = 256
    scan_limit: int = 1024


@dataclass(frozen=True, slots=True)
class Root:
    """A requested root. Why one is unavailable is not told."""

    record_id: str
    status: RootStatus


@dataclass(frozen=True, slots=True)
class TraversalCoverage:
    """What was looked at and what was cut.

    Attributes:
        records_examined: Distinct record lookups that were finished.
        record_bytes: Stored bytes of the records found by them.
        adjacency_entries_examined: Index entries, duplicates and filtered ones included.
        relations_examined: Distinct relations loaded; an entry of a kind that is not walked loads nothing.
        dependency_work: Of the whole request so far, ancestry and evidence.
    """

    stop_reasons: tuple[StopReason, ...]
    records_examined: int
    record_bytes: int
    adjacency_entries_examined: int
    relations_examined: int
    relation_bytes: int
    dependency_work: DependencyWork

    @property
    def complete(self) -> bool:
        """Nothing was cut."""
        return not self.stop_reasons


@dataclass(frozen=True, slots=True)
class Traversal:
    """The graph that was walked.

    Attributes:
        roots: In request order.
        depth_of: Row to minimum depth of each included record, in order of discovery.
        edges: Relation indexes in order of discovery; both ends of each are included.
    """

    roots: tuple[Root, ...]
    depth_of: dict[int, int]
    edges: list[int]
    coverage: TraversalCoverage


class RecordBudget:
    """The canonical record lookups of one graph: each record once, at most `node_limit`, at most 8 MiB.

    Attributes:
        revision_of: Row to current revision of each record looked up, 0 when it cannot be served.
    """

    def __init__(
        self, view: PartitionView, node_limit: int, narrowing: Filter, cache: DependencyCache, now_ms: int
    ) -> None:
        self._view = view
        self._node_limit = node_limit
        self._narrowing = narrowing
        self._cache = cache
        self._now_ms = now_ms
        self.revision_of: dict[int, int] = {}
        self.examined = 0
        self.bytes = 0

    @property
    def is_spent(self) -> bool:
        """No further lookup fits."""
        return self.examined >= self._node_limit

    def look_up(self, row: int) -> int:
        """Look a record up for the first time: its current revision, or 0 when it cannot be served.

        Raises:
            InvalidRequest: The graph needs more than 8 MiB of records, or the request's dependency work is spent.
        """
        view = self._view
        self.examined += 1
        self.bytes += view.size_bytes(row)
        if self.bytes > limits.RECORD_BYTES_MAX:
            raise InvalidRequest(f"needs more than {limits.RECORD_BYTES_MAX} bytes of records")
        revision = 0
        if view.matches(row, self._narrowing) and view.is_eligible(row, self._cache, self._now_ms):
            revision = view.revision(row)
        self.revision_of[row] = revision
        return revision

    def look_up_root(self, record_id: str) -> tuple[int | None, Root]:
        """Row of a root that is included, else None; and its status.

        Raises:
            InvalidRequest: As `look_up`.
        """
        if self.is_spent:
            return None, Root(record_id, "not_examined")
        row = self._view.row_of(record_id)
        if row is None:
            self.examined += 1
            return None, Root(record_id, "unavailable")
        if not self.look_up(row):
            return None, Root(record_id, "unavailable")
        return row, Root(record_id, "included")


def traverse(
    view: PartitionView,
    root_ids: Sequence[str],
    expansion: Expansion,
    kinds: Collection[RelationKind],
    cache: DependencyCache,
    now_ms: int,
    *,
    narrowing: Filter = OPEN_FILTER,
) -> Traversal:
    """Walk from the roots within bounds.

    Args:
        root_ids: Distinct.
        kinds: Kinds that are walked.
        narrowing: Records that do not pass are neither included nor walked through, though looked up.

    Raises:
        InvalidRequest: More than 8 MiB of records, 4 MiB of relations, or the dependency work of a request.
        StorageInconsistency: An adjacency list does not agree with its completeness data.
    """
    records = RecordBudget(view, expansion.node_limit, narrowing, cache, now_ms)
    walk = _Walk(view, expansion, kinds, records, cache, now_ms)
    roots = []
    for record_id in root_ids:
        row, root = records.look_up_root(record_id)
        roots.append(root)
        if row is not None:
            walk.depth_of[row] = 0
        elif root.status == "not_examined":
            walk.cuts.add("node_limit")
    walk.run()
    return Traversal(
        tuple(roots),
        walk.depth_of,
        walk.edges,
        TraversalCoverage(
            tuple(reason for reason in STOP_REASONS if reason in walk.cuts),
            records.examined,
            records.bytes,
            walk.entries_examined,
            len(walk.relations_seen),
            walk.relation_bytes,
            cache.work,
        ),
    )


class _Walk:
    """State of one walk."""

    def __init__(
        self,
        view: PartitionView,
        expansion: Expansion,
        kinds: Collection[RelationKind],
        records: RecordBudget,
        cache: DependencyCache,
        now_ms: int,
    ) -> None:
        self._view = view
        self._expansion = expansion
        self._is_walked = [kind in kinds for kind in RELATION_KINDS]
        self._records = records
        self._cache = cache
        self._now_ms = now_ms
        self.depth_of: dict[int, int] = {}
        self.edges: list[int] = []
        self.cuts: set[StopReason] = set()
        self.relations_seen: set[int] = set()
        self.relation_bytes = 0
        self.entries_examined = 0

    def run(self) -> None:
        """Scan nodes in order of discovery until none is left or a cut ends the walk."""
        view = self._view
        direction = self._expansion.direction
        # Grows while it is read.
        queue = list(self.depth_of)
        for row in queue:
            if direction != "incoming" and not self._scan(queue, row, view.outgoing(row), outgoing=True):
                return
            if direction != "outgoing" and not self._scan(queue, row, view.incoming(row), outgoing=False):
                return

    def _scan(self, queue: list[int], row: int, entries: Sequence[int], *, outgoing: bool) -> bool:
        """Scan one index of one node; False when the walk is over."""
        if not entries:
            return True
        relation_at = self._view.relation
        now_ms = self._now_ms
        records = self._records
        revision_of = records.revision_of
        depth_of = self.depth_of
        edges = self.edges
        seen = self.relations_seen
        is_walked = self._is_walked
        edge_limit = self._expansion.edge_limit
        far_depth = depth_of[row] + 1
        is_boundary = far_depth > self._expansion.max_depth
        room = self._expansion.scan_limit - self.entries_examined
        is_cut = len(entries) > room
        if is_cut:
            entries = entries[:room]
        for index in entries:
            if index in seen:
                continue
            relation = relation_at(index)
            if not is_walked[relation.kind_code]:
                continue
            seen.add(index)
            self.relation_bytes += relation.size_bytes
            if relation.valid_from_millis is not None and now_ms < relation.valid_from_millis:
                continue
            if relation.valid_until_millis is not None and now_ms >= relation.valid_until_millis:
                continue
            # Before the far end is touched, so that bad evidence neither costs a lookup nor makes a depth cut.
            if relation.evidence_sources and judge_evidence(relation.evidence_sources, self._cache, now_ms) is not None:
                continue
            if outgoing:
                far, far_revision = relation.target_row, relation.target_revision
            else:
                far, far_revision = relation.source_row, relation.source_revision
            revision = revision_of.get(far)
            if revision is None:
                if is_boundary:
                    self.cuts.add("depth_limit")
                    continue
                if records.is_spent:
                    # Scanning goes on: later relations may join records that are already included.
                    self.cuts.add("node_limit")
                    continue
                revision = records.look_up(far)
            if revision != far_revision:
                continue
            if far not in depth_of:
                if is_boundary:
                    self.cuts.add("depth_limit")
                    continue
                if len(edges) < edge_limit:
                    depth_of[far] = far_depth
                    queue.append(far)
            if len(edges) >= edge_limit:
                # No relation after this one could be kept.
                self.cuts.add("edge_limit")
                is_cut = False
                entries = entries[: entries.index(index) + 1]
                break
            edges.append(index)
        self.entries_examined += len(entries)
        if self.relation_bytes > limits.RELATION_BYTES_MAX:
            raise InvalidRequest(f"needs more than {limits.RELATION_BYTES_MAX} bytes of relations")
        if is_cut:
            self.cuts.add("scan_limit")
        return not is_cut and "edge_limit" not in self.cuts

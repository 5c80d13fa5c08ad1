"""Typed graph: the records and relations around given roots, without any ranking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from services.domain.eligibility import DependencyCache
from services.domain.relations import RELATION_KINDS, RelationKind
from services.retrieval.traversal import Expansion, Root, TraversalCoverage, traverse
from services.retrieval.view import PartitionView


@dataclass(frozen=True, slots=True)
class GraphNode:
    """An included record at its minimum depth."""

    row: int
    depth: int


@dataclass(frozen=True, slots=True)
class TypedGraph:
    """The answer to a typed graph request; rows and relation indexes stand for records and relations of the view.

    Attributes:
        relation_kinds: The kinds that were walked, in the documented order.
        nodes: In order of discovery.
        edges: Relation indexes, in order of discovery.
    """

    expansion: Expansion
    relation_kinds: tuple[RelationKind, ...]
    roots: tuple[Root, ...]
    nodes: tuple[GraphNode, ...]
    edges: tuple[int, ...]
    coverage: TraversalCoverage


def walk_typed_graph(
    view: PartitionView,
    root_ids: Sequence[str],
    expansion: Expansion,
    *,
    relation_kinds: Sequence[RelationKind] = RELATION_KINDS,
    cache: DependencyCache,
    now_ms: int,
) -> TypedGraph:
    """Walk from the roots.

    Args:
        root_ids: 1 to 16 distinct ids.
        relation_kinds: 1 to 6 distinct kinds, in any order.

    Raises:
        InvalidRequest: A byte bound or the dependency work of a request is exceeded; nothing is answered then.
        StorageInconsistency: An adjacency list does not agree with its completeness data.
    """
    traversal = traverse(view, root_ids, expansion, relation_kinds, cache, now_ms)
    return TypedGraph(
        expansion,
        tuple(kind for kind in RELATION_KINDS if kind in relation_kinds),
        traversal.roots,
        tuple(GraphNode(row, depth) for row, depth in traversal.depth_of.items()),
        tuple(traversal.edges),
        traversal.coverage,
    )

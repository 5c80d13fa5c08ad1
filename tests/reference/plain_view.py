"""`PartitionView` over a world, for tests that need no replica."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from services.domain.eligibility import DependencyCache, is_eligible
from services.domain.embeddings import Float32Vector, Space
from services.domain.records import RecordState, state_of_record
from services.domain.relations import RELATION_KINDS
from services.retrieval.selection import BaseHit, BaseSelection, RankContribution
from services.retrieval.view import BoundVector, Filter, ServedRelation
from tests.reference.base import cosine, passes_filter
from tests.reference.graph import adjacency, is_served
from tests.reference.world import World


class PlainView:
    """Rows and relation indexes are positions in the world's dictionaries."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._ids = list(world.records)
        self._relations = list(world.relations)

    def row_of(self, record_id: str) -> int | None:
        return self._ids.index(record_id) if record_id in self.world.records else None

    def record_id(self, row: int) -> str:
        return self._ids[row]

    def revision(self, row: int) -> int:
        return self.world.records[self._ids[row]].revision

    def size_bytes(self, row: int) -> int:
        return self.world.size(self._ids[row])

    def record_state(self, record_id: str) -> RecordState | None:
        record = self.world.records.get(record_id)
        return None if record is None else state_of_record(record, size_bytes=self.world.size(record_id))

    def matches(self, row: int, narrowing: Filter) -> bool:
        return passes_filter(self.world.records[self._ids[row]], narrowing)

    def is_eligible(self, row: int, cache: DependencyCache, now_ms: int) -> bool:
        state = self.record_state(self._ids[row])
        assert state is not None
        return is_eligible(state, cache, now_ms)

    def outgoing(self, row: int) -> Sequence[int]:
        return self._indexes(row, "outgoing")

    def incoming(self, row: int) -> Sequence[int]:
        return self._indexes(row, "incoming")

    def _indexes(self, row: int, way: str) -> Sequence[int]:
        return [self._relations.index(relation_id) for relation_id, _ in adjacency(self.world, self._ids[row], way)]

    def relation(self, index: int) -> ServedRelation:
        relation = self.world.relations[self._relations[index]]
        assert is_served(relation)
        stated = relation.input
        return ServedRelation(
            relation.relation_id,
            relation.revision,
            RELATION_KINDS.index(stated.kind),
            self._ids.index(stated.source.record_id),
            stated.source.revision,
            self._ids.index(stated.target.record_id),
            stated.target.revision,
            self.world.relation_size(relation.relation_id),
            stated.valid_from_millis,
            stated.valid_until_millis,
            stated.evidence_sources,
        )

    def bindings(self, space: Space, rows: Sequence[int]) -> Sequence[BoundVector | None]:
        found = [self.world.bindings.get((self._ids[row], space)) for row in rows]
        return [
            None if binding is None else BoundVector(binding.receipt.record_revision, len(binding.encode()))
            for binding in found
        ]

    def cosines(self, space: Space, query: Float32Vector, rows: Sequence[int]) -> npt.NDArray[np.float64]:
        vectors = [self.world.bindings[self._ids[row], space].vector.tolist() for row in rows]
        return np.array([cosine(vector, query.tolist()) for vector in vectors])

    def base_selection(self, page: dict[str, Any], space: Space | None, query: Float32Vector | None) -> BaseSelection:
        """A page of the reference as production's value, for `expand_base`."""
        members = {key: value for key, value in page.items() if key != "hits"}
        return BaseSelection(hits=tuple(self._base_hit(hit, space, query) for hit in page["hits"]), **members)

    def _base_hit(self, hit: dict[str, Any], space: Space | None, query: Float32Vector | None) -> BaseHit:
        row = self._ids.index(hit["record_id"])
        parts = {
            channel: None if hit.get(channel) is None else RankContribution(**hit[channel])
            for channel in ("lexical", "semantic")
        }
        measured = None
        if space is not None and query is not None:
            (binding,) = self.bindings(space, [row])
            if binding is not None and binding.record_revision == self.revision(row):
                measured = float(self.cosines(space, query, [row])[0])
        return BaseHit(row, hit["score"], **parts, cosine=measured)

"""A partition as plain dictionaries: what the reference searches, and what the replica is filled with."""

from __future__ import annotations

from dataclasses import dataclass, field

from services.domain.embeddings import Binding, Space
from services.domain.records import Record
from services.domain.relations import Relation


@dataclass
class World:
    """Records, bindings and relations by id, each at its current revision, in order of arrival.

    Stored sizes are remembered, so a world must not change once it has been asked for one.
    """

    now_ms: int = 1_000_000
    records: dict[str, Record] = field(default_factory=dict)
    bindings: dict[tuple[str, Space], Binding] = field(default_factory=dict)
    relations: dict[str, Relation] = field(default_factory=dict)
    _sizes: dict[str, int] = field(default_factory=dict, repr=False)

    def size(self, record_id: str) -> int:
        """Stored bytes of a record."""
        if record_id not in self._sizes:
            self._sizes[record_id] = len(self.records[record_id].encode())
        return self._sizes[record_id]

    def relation_size(self, relation_id: str) -> int:
        """Stored bytes of a relation."""
        if relation_id not in self._sizes:
            self._sizes[relation_id] = len(self.relations[relation_id].encode())
        return self._sizes[relation_id]

"""The served relations of one partition and their adjacency, per endpoint revision, in ascending relation id."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from typing import Literal

from services.domain.errors import StorageInconsistency
from services.retrieval.view import ServedRelation

Direction = Literal["outgoing", "incoming"]
EndpointKey = tuple[int, int]
"""Row and revision of an endpoint."""

# The object, its id, numbers beyond the small ones, entries of lists and maps.
_RELATION_OVERHEAD_BYTES = 900


class RelationGraph:
    """Relations by index, and the lists of indexes of each endpoint revision.

    A relation keeps its index; one that is served no more leaves the lists, and takes the index up again if it is
    restored. Each list is compared with its stored completeness count when it is first read after a change.

    Attributes:
        relations: The relation behind each index that stands in a list; others are out of date.
    """

    def __init__(self) -> None:
        self.relations: list[ServedRelation] = []
        self._served: set[int] = set()
        self._answers: list[bytes] = []
        self._index_by_id: dict[str, int] = {}
        self._lists: dict[Direction, dict[EndpointKey, list[int]]] = {"outgoing": {}, "incoming": {}}
        self._counts: dict[Direction, dict[EndpointKey, int]] = {"outgoing": {}, "incoming": {}}
        self._checked: dict[Direction, dict[EndpointKey, Sequence[int]]] = {"outgoing": {}, "incoming": {}}
        self._answer_bytes = 0

    def __len__(self) -> int:
        """Number of relations that were ever served."""
        return len(self.relations)

    @property
    def memory_bytes(self) -> int:
        """Estimate of the memory held."""
        return self._answer_bytes + len(self.relations) * _RELATION_OVERHEAD_BYTES

    def put(self, relation: ServedRelation, answer: bytes) -> None:
        """Serve a relation at its current revision.

        Args:
            relation: Active and not rejected.
            answer: The relation as answers carry it.
        """
        index = self._index_by_id.get(relation.relation_id)
        if index is None:
            index = len(self.relations)
            self._index_by_id[relation.relation_id] = index
            self.relations.append(relation)
            self._answers.append(b"")
        self.relations[index] = relation
        self._answer_bytes += len(answer) - len(self._answers[index])
        self._answers[index] = answer
        if index not in self._served:
            self._served.add(index)
            # What is asserted never changes, so neither do the endpoints.
            self._insert("outgoing", (relation.source_row, relation.source_revision), index)
            self._insert("incoming", (relation.target_row, relation.target_revision), index)

    def remove(self, relation_id: str) -> None:
        """Serve a relation no more; one that never was is fine."""
        index = self._index_by_id.get(relation_id)
        if index is None or index not in self._served:
            return
        relation = self.relations[index]
        self._served.remove(index)
        self._delete("outgoing", (relation.source_row, relation.source_revision), index)
        self._delete("incoming", (relation.target_row, relation.target_revision), index)
        self._answer_bytes -= len(self._answers[index])
        self._answers[index] = b""

    def put_count(self, direction: Direction, endpoint: EndpointKey, count: int) -> None:
        """Take over the completeness count of an endpoint revision."""
        self._counts[direction][endpoint] = count
        self._checked[direction].pop(endpoint, None)

    def indexes(self, direction: Direction, endpoint: EndpointKey) -> Sequence[int]:
        """Relations of an endpoint revision in ascending relation id.

        Raises:
            StorageInconsistency: Their number is not what the stored completeness data says.
        """
        checked = self._checked[direction].get(endpoint)
        if checked is None:
            checked = tuple(self._lists[direction].get(endpoint, ()))
            if len(checked) != self._counts[direction].get(endpoint, 0):
                raise StorageInconsistency("an adjacency list does not agree with its completeness data")
            self._checked[direction][endpoint] = checked
        return checked

    def answer(self, index: int) -> bytes:
        """The relation as answers carry it."""
        return self._answers[index]

    def endpoints(self, direction: Direction) -> frozenset[EndpointKey]:
        """Endpoint revisions that have entries or a count that is not zero."""
        counted = (endpoint for endpoint, count in self._counts[direction].items() if count)
        return frozenset(self._lists[direction]).union(counted)

    def _insert(self, direction: Direction, endpoint: EndpointKey, index: int) -> None:
        indexes = self._lists[direction].setdefault(endpoint, [])
        insort(indexes, index, key=self._id_of)
        self._checked[direction].pop(endpoint, None)

    def _delete(self, direction: Direction, endpoint: EndpointKey, index: int) -> None:
        indexes = self._lists[direction][endpoint]
        indexes.remove(index)
        if not indexes:
            del self._lists[direction][endpoint]
        self._checked[direction].pop(endpoint, None)

    def _id_of(self, index: int) -> str:
        return self.relations[index].relation_id

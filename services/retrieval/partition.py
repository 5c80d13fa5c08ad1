"""One partition in memory: everything that ranking and traversal look at, at one sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from services.domain.eligibility import DependencyCache, judge_record
from services.domain.embeddings import Float32Vector, Space
from services.domain.records import RecordState
from services.retrieval.cosine import unit_query
from services.retrieval.examination import ExaminationCache
from services.retrieval.record_columns import RecordColumns
from services.retrieval.relation_graph import RelationGraph
from services.retrieval.text_index import TextIndex
from services.retrieval.vector_space import VectorSpace
from services.retrieval.view import BoundVector, Filter, ServedRelation

# Containers, array objects and kept examinations, however little they hold: what counts when small partitions are many.
_OVERHEAD_BYTES = 24 * 1024
_SPACE_OVERHEAD_BYTES = 8 * 1024


class Partition:
    """Implements `view.PartitionView` over columns. Only `partition_loading` changes it, never while a request looks.

    Attributes:
        records: Columns over rows.
        texts: Inverted index over the rows that are candidates.
        spaces: Bindings by embedding space.
        graph: Served relations and adjacency.
        examinations: Outcomes of candidate selection that still hold.
        head: Sequence of the last commit of the partition that is in it.
        incarnation: The opening of storage that it follows.
        row_of, record_id, relation: See `PartitionView`.
    """

    def __init__(self) -> None:
        self.records = RecordColumns()
        self.texts = TextIndex()
        self.spaces: dict[Space, VectorSpace] = {}
        self.graph = RelationGraph()
        self.examinations = ExaminationCache()
        self.head = 0
        self.incarnation = ""
        # Asked hundreds of times in a walk, so these are the containers' own methods; containers are never replaced.
        self.row_of: Callable[[str], int | None] = self.records.row_by_id.get
        self.record_id: Callable[[int], str] = self.records.ids.__getitem__
        self.relation: Callable[[int], ServedRelation] = self.graph.relations.__getitem__

    @property
    def memory_bytes(self) -> int:
        """Estimate of the memory held."""
        spaces = sum(space.memory_bytes for space in self.spaces.values())
        own = _OVERHEAD_BYTES + len(self.spaces) * _SPACE_OVERHEAD_BYTES
        return own + self.records.memory_bytes + self.texts.memory_bytes + self.graph.memory_bytes + spaces

    def revision(self, row: int) -> int:
        """See `PartitionView`."""
        revision: int = self.records.revision.item(row)
        return revision

    def size_bytes(self, row: int) -> int:
        """See `PartitionView`."""
        size_bytes: int = self.records.size_bytes.item(row)
        return size_bytes

    def record_state(self, record_id: str) -> RecordState | None:
        """See `domain.eligibility.RecordReader`."""
        row = self.row_of(record_id)
        return None if row is None else self.records.state(row)

    def matches(self, row: int, narrowing: Filter) -> bool:
        """See `PartitionView`."""
        return narrowing.is_open or self.records.matches(row, narrowing)

    def is_eligible(self, row: int, cache: DependencyCache, now_ms: int) -> bool:
        """See `PartitionView`."""
        records = self.records
        if not records.is_servable_alone(row, now_ms):
            return False
        return not records.sources(row) or judge_record(records.state(row), cache, now_ms).eligible

    def outgoing(self, row: int) -> Sequence[int]:
        """See `PartitionView`."""
        return self.graph.indexes("outgoing", (row, self.revision(row)))

    def incoming(self, row: int) -> Sequence[int]:
        """See `PartitionView`."""
        return self.graph.indexes("incoming", (row, self.revision(row)))

    def bindings(self, space: Space, rows: Sequence[int]) -> Sequence[BoundVector | None]:
        """See `PartitionView`."""
        vectors = self.spaces.get(space)
        return [None] * len(rows) if vectors is None else vectors.bindings_of(np.array(rows, np.int32))

    def cosines(self, space: Space, query: Float32Vector, rows: Sequence[int]) -> npt.NDArray[np.float64]:
        """See `PartitionView`."""
        if not rows:
            return np.empty(0, np.float64)
        vectors = self.spaces[space]
        _, wide, norm = unit_query(query)
        return vectors.exact(vectors.slots_of(np.array(rows, np.int32)), wide, norm)

    def receipt_answer(self, space: Space, row: int) -> bytes:
        """Receipt of a record's binding in a space, as answers carry it; the record must have one."""
        vectors = self.spaces[space]
        return vectors.answers[vectors.slot_of(row)]

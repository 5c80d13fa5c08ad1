"""What ranking and traversal see of a partition: rows, relations and bindings as small integers over columns.

A row stands for a record, tombstones included, and never changes its number while the partition is loaded; a relation
index stands for a relation that has adjacency entries (active and not rejected). The replica implements this; the tests
implement it plainly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from services.domain.eligibility import DependencyCache, RecordReader
from services.domain.embeddings import Float32Vector, Space
from services.domain.records import SourceRef
from services.domain.relations import RELATION_KINDS, RelationKind


@dataclass(frozen=True, slots=True)
class Filter:
    """Exact filters of a search; None matches all.

    Attributes:
        episode_type: Canonical JSON text of the documented value, for example '"Decision"' or '{"Custom":"note"}'.
        tag: Exact tag.
    """

    episode_type: str | None = None
    tag: str | None = None

    @property
    def is_open(self) -> bool:
        """Everything matches."""
        return self.episode_type is None and self.tag is None


@dataclass(frozen=True, slots=True)
class ServedRelation:
    """A relation with adjacency entries, as traversal needs it.

    Attributes:
        source_row, target_row: Rows of the endpoints (they exist: nothing is ever removed, only tombstoned).
        kind_code: Index in `RELATION_KINDS`.
        size_bytes: Length of the stored form.
        valid_from_millis, valid_until_millis: Half-open interval; None is open.
    """

    relation_id: str
    revision: int
    kind_code: int
    source_row: int
    source_revision: int
    target_row: int
    target_revision: int
    size_bytes: int
    valid_from_millis: int | None
    valid_until_millis: int | None
    evidence_sources: tuple[SourceRef, ...]

    @property
    def kind(self) -> RelationKind:
        """The documented word."""
        return RELATION_KINDS[self.kind_code]


class BoundVector(NamedTuple):
    """A record's binding in one space.

    Attributes:
        record_revision: The revision that the vector was bound to; stale when the record has moved on.
        size_bytes: Length of the stored form.
    """

    record_revision: int
    size_bytes: int


class PartitionView(RecordReader, Protocol):
    """One partition at one sequence. Not changed while a request evaluates."""

    def row_of(self, record_id: str) -> int | None:
        """Row of a record, tombstones included; None when no such record ever was."""

    def record_id(self, row: int) -> str:
        """Canonical UUID text; text order is id order."""

    def revision(self, row: int) -> int:
        """Current revision."""

    def size_bytes(self, row: int) -> int:
        """Length of the stored record."""

    def matches(self, row: int, narrowing: Filter) -> bool:
        """The record passes the filter. Tombstones pass only an open filter."""

    def is_eligible(self, row: int, cache: DependencyCache, now_ms: int) -> bool:
        """The record may be served now (domain.eligibility over the columns).

        Raises:
            InvalidRequest: The request's dependency work is spent.
        """

    def outgoing(self, row: int) -> Sequence[int]:
        """Relation indexes whose source is this record at its current revision, ascending relation id.

        Raises:
            StorageInconsistency: The list does not agree with its stored completeness data.
        """

    def incoming(self, row: int) -> Sequence[int]:
        """Like `outgoing`, for targets."""

    def relation(self, index: int) -> ServedRelation:
        """The relation behind an index."""

    def bindings(self, space: Space, rows: Sequence[int]) -> Sequence[BoundVector | None]:
        """The rows' bindings in the space, in the order of `rows`; None where one is missing."""

    def cosines(self, space: Space, query: Float32Vector, rows: Sequence[int]) -> npt.NDArray[np.float64]:
        """Exact cosines of the rows' bound vectors: (len(rows),) float64 in [-1, 1], accumulated in float64.

        Every row must have a binding in the space.
        """

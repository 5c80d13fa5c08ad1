"""What a search asks of candidate selection, what it found, and the latest findings that still hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from services.domain.eligibility import DependencyLookups
from services.domain.embeddings import Space
from services.retrieval.record_columns import BoolArray
from services.retrieval.view import Filter

if TYPE_CHECKING:
    from services.retrieval.corpus import Corpus

CANDIDATE_ENTRY_BYTES = 24
"""Logical size of a candidate entry: the record id (16 bytes) as key and the revision (8 bytes) as value."""

_EXAMINATIONS_MAX = 4


@dataclass(frozen=True, slots=True)
class Selection:
    """What a search asks of candidate selection.

    Attributes:
        scan_limit: Most candidates examined.
        scan_bytes_limit: Most bytes examined; None for no limit.
        after: Only record ids greater than this.
        space: Bindings in this space count as bytes beside the records; None for records alone.
    """

    narrowing: Filter
    scan_limit: int
    scan_bytes_limit: int | None
    after: str | None
    space: Space | None


@dataclass(slots=True)
class Examination:
    """The candidates that a search examined, before their sources are judged.

    Attributes:
        scanned_records: Number examined.
        scanned_bytes: Bytes of the records examined and of their bindings in the space, stale ones included.
        next_after: The last one examined when more exist, else None.
        exhaustive: No cursor, and the end was reached.
        servable: (rows,) bool, examined and not expired.
        derived_rows: Those of them that name sources, in ascending record id.
        since_ms, until_ms: Clock values for which this holds: since <= clock < until.
        corpus: Population when every source holds; made on first use.
        judged: What judging all derived rows gave, when nothing had been looked up before.
    """

    scanned_records: int
    scanned_bytes: int
    next_after: str | None
    exhaustive: bool
    servable: BoolArray
    derived_rows: npt.NDArray[np.int32]
    since_ms: int
    until_ms: int
    corpus: Corpus | None = None
    judged: tuple[Corpus, DependencyLookups] | None = field(default=None, repr=False)

    @property
    def candidate_index_bytes(self) -> int:
        """Logical bytes of the candidate entries examined."""
        return self.scanned_records * CANDIDATE_ENTRY_BYTES


class ExaminationCache:
    """The latest examinations of one partition; emptied whenever the partition changes."""

    def __init__(self) -> None:
        self._kept: dict[Selection, Examination] = {}

    def find(self, selection: Selection, now_ms: int) -> Examination | None:
        """The same selection's outcome if it still holds at this clock value."""
        examination = self._kept.get(selection)
        if examination is None or not examination.since_ms <= now_ms < examination.until_ms:
            return None
        return examination

    def keep(self, selection: Selection, examination: Examination) -> None:
        """Remember an outcome; the oldest gives way."""
        self._kept.pop(selection, None)
        while len(self._kept) >= _EXAMINATIONS_MAX:
            del self._kept[next(iter(self._kept))]
        self._kept[selection] = examination

    def clear(self) -> None:
        """The partition has changed."""
        self._kept.clear()

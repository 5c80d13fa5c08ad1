"""Records as a company's administrators see them: whatever is retained, each with whether it is served."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from services.domain.eligibility import DependencyCache, DependencyWork
from services.memory.diagnose_eligibility import Diagnosis, diagnose_state
from services.memory.record_filter import RecordFilter
from services.workspace.partition import MemoryPartition, StoredRecord

RecordView = Literal["retained", "current"]

VIEW_DEFAULT: Final[RecordView] = "retained"


@dataclass(frozen=True, slots=True)
class RetainedRecord:
    """A record, tombstones included, and the verdict on it."""

    stored: StoredRecord
    eligibility: Diagnosis


class Inventory:
    """Selects and judges records for one request, in any number of workspaces, within one budget of dependency work."""

    def __init__(self, narrowing: RecordFilter, view: RecordView) -> None:
        """Select by content, and in the view "current" only what is served."""
        self._narrowing = narrowing
        self._view = view
        self._caches: dict[bytes, DependencyCache] = {}
        self.work = DependencyWork()
        """What the request has needed so far."""

    def is_judged(self, stored: StoredRecord) -> bool:
        """The content of a record passes; a tombstone passes when no content is asked for."""
        return self._narrowing.matches_retained(stored.json["payload"])

    def select(self, partition: MemoryPartition, stored: StoredRecord) -> RetainedRecord | None:
        """The record with its verdict, or None when it is not asked for.

        Raises:
            InvalidRequest: The request's dependency work is spent.
        """
        if not self.is_judged(stored):
            return None
        cache = self._caches.get(partition.id)
        if cache is None:
            cache = self._caches[partition.id] = partition.dependency_cache()
        # Lookups are of one workspace each, but all of them spend the same budget.
        cache.records_examined, cache.bytes_examined = self.work.records_examined, self.work.bytes_examined
        diagnosis = diagnose_state(stored.state, cache, partition.now_ms)
        self.work = cache.work
        if self._view == "current" and not diagnosis.verdict.eligible:
            return None
        return RetainedRecord(stored, diagnosis)

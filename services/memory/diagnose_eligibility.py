"""Say whether a record is served, and which check fails first."""

from __future__ import annotations

from dataclasses import dataclass

from services.domain.eligibility import DependencyWork, Verdict, judge_record
from services.domain.errors import RecordNotFound
from services.workspace.partition import MemoryPartition


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A verdict on the current revision of a record, with the work that it took."""

    record_id: str
    revision: int
    verdict: Verdict
    evaluated_at_millis: int
    dependency_work: DependencyWork


def diagnose_eligibility(partition: MemoryPartition, record_id: str) -> Diagnosis:
    """Judge a record, tombstones included.

    Raises:
        RecordNotFound: No such record ever was.
        InvalidRequest: It needs too much dependency work.
    """
    partition.load_ancestry([record_id])
    state = partition.record_state(record_id)
    if state is None:
        raise RecordNotFound("no such record", member="record_id")
    cache = partition.dependency_cache()
    verdict = judge_record(state, cache, partition.now_ms)
    return Diagnosis(record_id, state.revision, verdict, partition.now_ms, cache.work)

"""Say whether a record is served, and which check fails first."""

from __future__ import annotations

from dataclasses import dataclass

from services.domain.eligibility import DependencyCache, DependencyWork, Verdict, judge_record
from services.domain.errors import RecordNotFound
from services.domain.records import RecordState
from services.workspace.partition import MemoryPartition


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A verdict on the current revision of a record, with the work that it added to that of the request."""

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
    return diagnose_state(state, partition.dependency_cache(), partition.now_ms)


def diagnose_state(state: RecordState, cache: DependencyCache, now_ms: int) -> Diagnosis:
    """Judge a record that was already read.

    Raises:
        InvalidRequest: The request's dependency work is spent.
    """
    before = cache.work
    verdict = judge_record(state, cache, now_ms)
    added = DependencyWork(
        cache.records_examined - before.records_examined, cache.bytes_examined - before.bytes_examined
    )
    return Diagnosis(state.record_id, state.revision, verdict, now_ms, added)

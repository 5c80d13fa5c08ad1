"""Read a job together with how it stands."""

from __future__ import annotations

from dataclasses import dataclass

from services.consolidation.job_partition import JobPartition
from services.consolidation.manifest import examine_manifest
from services.domain.eligibility import DependencyWork, Failure
from services.domain.jobs import Job


@dataclass(frozen=True, slots=True)
class JobInspection:
    """A job, its lease and its sources, judged by one clock in one snapshot."""

    job: Job
    evaluated_at_millis: int
    lease_active: bool
    recoverable: bool
    source_failure: Failure | None
    dependency_work: DependencyWork


def inspect_job(jobs: JobPartition, job_id: str) -> JobInspection:
    """Judge a job of any status; sources that no longer hold are told, not refused.

    Raises:
        RecordNotFound: No such job.
        InvalidRequest: Judging the sources needs too much dependency work.
    """
    job = jobs.job(job_id)
    examination = examine_manifest(jobs.memory, job.spec.sources)
    moment = jobs.moment
    return JobInspection(
        job,
        moment.now_ms,
        job.is_lease_active(moment),
        job.is_recoverable(moment),
        examination.failure,
        examination.work,
    )

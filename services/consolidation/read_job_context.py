"""Read the sources of a running job for the worker that holds its lease."""

from __future__ import annotations

from dataclasses import dataclass

from services.consolidation.job_partition import JobPartition
from services.consolidation.manifest import Manifest, current_manifest
from services.domain import job_transitions
from services.domain.jobs import Job
from services.domain.lease import LeaseClaim


@dataclass(frozen=True, slots=True)
class JobContext:
    """What an extractor works on, all of one snapshot."""

    job: Job
    manifest: Manifest
    evaluated_at_millis: int


def read_job_context(jobs: JobPartition, job_id: str, expected_revision: int, claim: LeaseClaim) -> JobContext:
    """Return the sources in manifest order, each at the revision that the job names.

    Raises:
        RecordNotFound: No such job.
        RevisionConflict: It has another revision, the lease is not the caller's to use, or a source is not current and
            eligible.
        InvalidRequest: The sources or their ancestry pass a bound.
    """
    job = jobs.job(job_id)
    job_transitions.readable_attempt(job, expected_revision, claim, jobs.moment)
    manifest = current_manifest(jobs.memory, job.spec.sources, member="job_id")
    return JobContext(job, manifest, jobs.moment.now_ms)

"""Create a job."""

from __future__ import annotations

from services.consolidation.commands import CreateJob
from services.consolidation.job_partition import JobPartition
from services.consolidation.manifest import current_manifest
from services.domain import job_transitions
from services.domain.jobs import Job
from services.domain.records import Author


def create_job(jobs: JobPartition, author: Author, command: CreateJob, *, job_id: str) -> Job:
    """Return a new job that waits for a worker.

    Args:
        job_id: A new id.

    Raises:
        RevisionConflict: A source is not current and eligible.
        InvalidRequest: The sources or their ancestry pass a bound.
    """
    current_manifest(jobs.memory, command.spec.sources, member="spec.sources")
    return job_transitions.create_job(job_id, command.spec, author, jobs.moment.now_ms)

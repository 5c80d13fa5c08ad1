"""Call a job off."""

from __future__ import annotations

from services.consolidation.commands import CancelJob
from services.consolidation.job_partition import JobPartition
from services.domain import job_transitions
from services.domain.jobs import Job


def cancel_job(jobs: JobPartition, command: CancelJob) -> Job:
    """Return the job as cancelled; a running attempt can no longer publish.

    Raises:
        RecordNotFound: No such job.
        RevisionConflict: It has another revision.
        InvalidRequest: It is neither ready nor running.
    """
    job = jobs.job(command.job_id)
    return job_transitions.cancel_job(job, command.expected_revision, command.evidence_ref, jobs.moment.now_ms)

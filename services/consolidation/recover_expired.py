"""Close an attempt whose lease has ended."""

from __future__ import annotations

from services.consolidation.commands import RecoverExpired
from services.consolidation.job_partition import JobPartition
from services.domain import job_transitions
from services.domain.jobs import Job


def recover_expired(jobs: JobPartition, command: RecoverExpired) -> Job:
    """Return the job ready for the next attempt, or exhausted. A lease that is over stays so, whenever this commits.

    Raises:
        RecordNotFound: No such job.
        RevisionConflict: It has another revision, or the lease can still be used.
        InvalidRequest: The job is not running.
    """
    job = jobs.job(command.job_id)
    return job_transitions.recover_expired(job, command.expected_revision, command.evidence_ref, jobs.moment)

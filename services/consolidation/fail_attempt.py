"""Close an attempt as failed."""

from __future__ import annotations

from services.consolidation.commands import FailAttempt
from services.consolidation.held_lease import hold_until_commit
from services.consolidation.job_partition import JobPartition
from services.domain import job_transitions
from services.domain.job_transitions import Closing
from services.domain.jobs import Job
from services.domain.lease import LeaseClaim
from services.domain.records import Author


def fail_attempt(jobs: JobPartition, author: Author, command: FailAttempt) -> Job:
    """Return the job ready for the next attempt, or exhausted. The lease must still be usable when this is committed.

    Raises:
        RecordNotFound: No such job.
        RevisionConflict: It has another revision, or the lease is not the caller's to use.
        InvalidRequest: The job is not running.
    """
    job = jobs.job(command.job_id)
    claim, expected = LeaseClaim(author.credential_id, command.fence), command.expected_revision
    held = job_transitions.leased_attempt(job, expected, claim, jobs.moment)
    hold_until_commit(jobs.memory.transaction, held.lease)
    closing = Closing(command.usage, command.evidence_ref)
    return job_transitions.fail_attempt(job, expected, claim, closing, jobs.moment)

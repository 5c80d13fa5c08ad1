"""Extend a lease."""

from __future__ import annotations

from services.consolidation.commands import RenewLease
from services.consolidation.held_lease import hold_until_commit
from services.consolidation.job_partition import JobPartition
from services.domain import job_transitions
from services.domain.jobs import Job
from services.domain.lease import LeaseClaim
from services.domain.records import Author


def renew_lease(jobs: JobPartition, author: Author, command: RenewLease) -> Job:
    """Return the job with a later end of its lease. The lease must still be usable when this is committed.

    Raises:
        RecordNotFound: No such job.
        RevisionConflict: It has another revision, the lease is not the caller's to use, or would not end later.
        InvalidRequest: The job is not running.
    """
    job = jobs.job(command.job_id)
    claim, expected = LeaseClaim(author.credential_id, command.fence), command.expected_revision
    held = job_transitions.leased_attempt(job, expected, claim, jobs.moment)
    hold_until_commit(jobs.memory.transaction, held.lease)
    return job_transitions.renew_lease(job, expected, claim, jobs.moment)

"""Claim a job for one attempt."""

from __future__ import annotations

from services.consolidation.commands import ClaimJob
from services.consolidation.job_partition import JobPartition
from services.consolidation.manifest import current_manifest
from services.domain import job_transitions
from services.domain.job_transitions import Claimant
from services.domain.jobs import Job
from services.domain.records import Author


def claim_job(jobs: JobPartition, author: Author, command: ClaimJob, *, fence: str) -> Job:
    """Return the job with a new running attempt, bound to the calling credential and the present incarnation.

    Sources that no longer hold are refused here already: no extractor should work on what cannot be published.

    Args:
        fence: A new, unpredictable id.

    Raises:
        RecordNotFound: No such job.
        RevisionConflict: It has another revision, or a source is not current and eligible.
        InvalidRequest: It is not ready, or the sources or their ancestry pass a bound.
    """
    job = jobs.job(command.job_id)
    job_transitions.check_claimable(job, command.expected_revision)
    current_manifest(jobs.memory, job.spec.sources, member="job_id")
    # A lease of an opening that is over would be dead on arrival.
    jobs.memory.transaction.require_incarnation(jobs.moment.incarnation)
    return job_transitions.claim_job(job, Claimant(command.worker_id, author.credential_id, fence), jobs.moment)

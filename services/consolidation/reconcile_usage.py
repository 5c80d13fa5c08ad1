"""Replace the usage of a closed attempt."""

from __future__ import annotations

from services.consolidation.commands import ReconcileUsage
from services.consolidation.job_partition import JobPartition
from services.domain import job_transitions
from services.domain.jobs import Job


def reconcile_usage(jobs: JobPartition, command: ReconcileUsage) -> Job:
    """Return the job with the figures for one attempt; earlier ones stay in the history.

    Raises:
        RecordNotFound: No such job.
        RevisionConflict: It has another revision.
        InvalidRequest: There is no attempt of this number, or it is running.
    """
    return job_transitions.reconcile_usage(
        jobs.job(command.job_id),
        command.expected_revision,
        command.attempt_number,
        command.usage,
        command.evidence_ref,
        jobs.moment.now_ms,
    )

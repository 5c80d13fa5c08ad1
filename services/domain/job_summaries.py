"""Summaries of jobs: what a list needs of each, kept beside the job so that a page need not read whole jobs."""

from __future__ import annotations

from dataclasses import dataclass

from services.domain.canonical_json import canonical_bytes, parse_canonical
from services.domain.jobs import Job, JobStatus
from services.domain.lease import Lease, Moment, is_lease_active


@dataclass(frozen=True, slots=True)
class JobSummary:
    """A job in a list.

    Attributes:
        attempt_count: Number of attempts, 0 to 32.
        lease: Lease of the running attempt; None unless the job is running.
        job_bytes: Length of the job's stored form.
    """

    job_id: str
    revision: int
    status: JobStatus
    created_at_millis: int
    modified_at_millis: int
    attempt_count: int
    lease: Lease | None
    job_bytes: int

    def is_lease_active(self, moment: Moment) -> bool:
        """The job is running and its lease can be used, by whoever holds it."""
        return self.lease is not None and is_lease_active(self.lease, moment)

    def is_recoverable(self, moment: Moment) -> bool:
        """The job is running and its lease cannot be used any more."""
        return self.lease is not None and not is_lease_active(self.lease, moment)

    def encode(self) -> bytes:
        """Stored form: a JSON array of the members in order, the lease as one of its own."""
        lease = self.lease
        return canonical_bytes(
            [
                self.job_id,
                self.revision,
                self.status,
                self.created_at_millis,
                self.modified_at_millis,
                self.attempt_count,
                None
                if lease is None
                else [
                    lease.credential_id,
                    lease.fence,
                    lease.incarnation,
                    lease.claimed_at_millis,
                    lease.expires_at_millis,
                ],
                self.job_bytes,
            ]
        )


def summary_of_job(job: Job, *, job_bytes: int) -> JobSummary:
    """The summary of a job whose stored form has this length."""
    attempt = job.running_attempt
    return JobSummary(
        job.job_id,
        job.revision,
        job.status,
        job.created_at_millis,
        job.modified_at_millis,
        len(job.attempts),
        None if attempt is None else attempt.lease,
        job_bytes,
    )


def decode_summary(value: bytes) -> JobSummary:
    """Read the stored form."""
    job_id, revision, status, created_at, modified_at, attempt_count, lease, job_bytes = parse_canonical(value)
    return JobSummary(
        job_id,
        revision,
        status,
        created_at,
        modified_at,
        attempt_count,
        None if lease is None else Lease(*lease),
        job_bytes,
    )

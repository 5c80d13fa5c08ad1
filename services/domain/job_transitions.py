"""How a job moves from one revision to the next. Pure: clock, incarnation and identifiers come from outside.

    create            -> ready
    claim             ready -> running
    renew             running -> running
    publish           running -> published
    fail              running -> ready, or exhausted after the last attempt
    recover_expired   running, lease over -> ready, or exhausted after the last attempt
    cancel            ready, running -> cancelled
    reconcile_usage   any -> the same

Checks come in the documented order: expected revision (RevisionConflict), status (InvalidRequest), lease
(RevisionConflict), then the rules of the operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from services.domain import limits
from services.domain.errors import InvalidRequest, RevisionConflict, WaggleError
from services.domain.jobs import Assertion, Attempt, AttemptOutcome, Job, JobSpec, JobStatus, ReportedUsage, Usage
from services.domain.lease import Lease, LeaseClaim, Moment, check_lease, first_expiry, renewed_expiry
from services.domain.receipts import Receipt
from services.domain.records import Author
from services.domain.relations import RelationInput, check_relation_input


def check_revision(job: Job, expected_revision: int) -> None:
    """Check the revision that a caller expects.

    Raises:
        RevisionConflict: The job has another one.
    """
    if job.revision != expected_revision:
        raise RevisionConflict("the job has another revision", member="expected_revision")


def create_job(job_id: str, spec: JobSpec, author: Author, now_ms: int) -> Job:
    """A new job at revision 1."""
    return Job(job_id, 1, author, now_ms, now_ms, spec, "ready")


@dataclass(frozen=True, slots=True)
class Claimant:
    """Who claims: the worker's own label, its authenticated credential, and a new fence."""

    worker_id: str
    credential_id: str
    fence: str


def check_claimable(job: Job, expected_revision: int) -> None:
    """Check that a job can be claimed; its sources are another matter.

    Raises:
        RevisionConflict: The job has another revision.
        InvalidRequest: It is not ready.
    """
    check_revision(job, expected_revision)
    _check_status(job, "ready")


def claim_job(job: Job, claimant: Claimant, moment: Moment) -> Job:
    """Start the next attempt of a claimable job."""
    now_ms = moment.now_ms
    lease = Lease(
        claimant.credential_id,
        claimant.fence,
        moment.incarnation,
        now_ms,
        first_expiry(now_ms, lease_millis=job.spec.lease_millis),
    )
    attempt = Attempt(len(job.attempts) + 1, claimant.worker_id, lease)
    return _next(job, now_ms, "running", attempts=(*job.attempts, attempt))


def leased_attempt(job: Job, expected_revision: int, claim: LeaseClaim, moment: Moment) -> Attempt:
    """The running attempt, once the caller is known to hold its lease.

    Raises:
        RevisionConflict: The job has another revision, or the lease is not the caller's to use.
        InvalidRequest: The job is not running.
    """
    check_revision(job, expected_revision)
    attempt = _running(job)
    check_lease(attempt.lease, claim, moment)
    return attempt


def readable_attempt(job: Job, expected_revision: int, claim: LeaseClaim, moment: Moment) -> Attempt:
    """`leased_attempt` for a read, which has no status to fit: a job that is not running has no lease to use.

    Raises:
        RevisionConflict: The job has another revision, or the lease is not the caller's to use.
    """
    check_revision(job, expected_revision)
    attempt = job.running_attempt
    if attempt is None:
        raise RevisionConflict("no attempt is running", member="fence")
    check_lease(attempt.lease, claim, moment)
    return attempt


def renew_lease(job: Job, expected_revision: int, claim: LeaseClaim, moment: Moment) -> Job:
    """Extend the lease of the running attempt from now.

    Raises:
        RevisionConflict: See `leased_attempt`; or the lease would not end later than it does.
        InvalidRequest: The job is not running.
    """
    attempt = leased_attempt(job, expected_revision, claim, moment)
    expiry = renewed_expiry(
        attempt.lease,
        moment.now_ms,
        lease_millis=job.spec.lease_millis,
        max_attempt_millis=job.spec.max_attempt_millis,
    )
    renewed = replace(attempt, lease=replace(attempt.lease, expires_at_millis=expiry))
    return _next(job, moment.now_ms, "running", attempts=(*job.attempts[:-1], renewed))


def relations_to_publish(job: Job, assertions: Sequence[Assertion]) -> tuple[RelationInput, ...]:
    """The relations that assertions ask for. Equal assertions make different relations.

    Raises:
        InvalidRequest: There are more than the job allows, an endpoint is not a source of the job exactly as it names
            it, both endpoints are one record, or an interval is empty.
    """
    if len(assertions) > job.spec.max_relations:
        raise InvalidRequest(f"must have at most {job.spec.max_relations} elements", member="assertions")
    manifest = set(job.spec.sources)
    relations: list[RelationInput] = []
    for index, assertion in enumerate(assertions):
        member = f"assertions[{index}]"
        for name, endpoint in (("source", assertion.source), ("target", assertion.target)):
            if endpoint not in manifest:
                raise InvalidRequest("is not a source of the job", member=f"{member}.{name}")
        relation = assertion.relation_input(job.spec)
        check_relation_input(relation, member=member)
        relations.append(relation)
    return tuple(relations)


@dataclass(frozen=True, slots=True)
class Closing:
    """How an attempt is closed. Unknown usage is None."""

    usage: Usage
    evidence_ref: str


def publish_job(job: Job, closing: Closing, receipts: Sequence[Receipt], now_ms: int) -> Job:
    """Close the running attempt of a job as published, with the receipts of its relations. Checks came before."""
    attempts = _closed(job, "published", closing, now_ms)
    return replace(_next(job, now_ms, "published", attempts=attempts), output_receipts=tuple(receipts))


def fail_attempt(job: Job, expected_revision: int, claim: LeaseClaim, closing: Closing, moment: Moment) -> Job:
    """Close the running attempt as failed.

    Raises:
        RevisionConflict: See `leased_attempt`.
        InvalidRequest: The job is not running.
    """
    leased_attempt(job, expected_revision, claim, moment)
    return _next(job, moment.now_ms, _status_after(job), attempts=_closed(job, "failed", closing, moment.now_ms))


def recover_expired(job: Job, expected_revision: int, evidence_ref: str, moment: Moment) -> Job:
    """Close an attempt whose lease has ended; any credential of the owner may.

    Raises:
        RevisionConflict: The job has another revision, or the lease can still be used.
        InvalidRequest: The job is not running.
    """
    check_revision(job, expected_revision)
    _running(job)
    if job.is_lease_active(moment):
        raise RevisionConflict("the lease of the running attempt can still be used")
    attempts = _closed(job, "unknown", Closing(None, evidence_ref), moment.now_ms)
    return _next(job, moment.now_ms, _status_after(job), attempts=attempts)


def cancel_job(job: Job, expected_revision: int, evidence_ref: str, now_ms: int) -> Job:
    """Call a job off, whoever holds its lease.

    Raises:
        RevisionConflict: The job has another revision.
        InvalidRequest: It is neither ready nor running.
    """
    check_revision(job, expected_revision)
    _check_status(job, "ready", "running")
    attempts = job.attempts
    if job.status == "running":
        attempts = _closed(job, "unknown", Closing(None, evidence_ref), now_ms)
    return _next(job, now_ms, "cancelled", attempts=attempts)


def reconcile_usage(
    job: Job, expected_revision: int, attempt_number: int, usage: ReportedUsage, evidence_ref: str, now_ms: int
) -> Job:
    """Replace the usage of a closed attempt, also while a later one runs; nothing else changes.

    Raises:
        RevisionConflict: The job has another revision.
        InvalidRequest: There is no attempt of this number, or it is running.
    """
    check_revision(job, expected_revision)
    if not 1 <= attempt_number <= len(job.attempts):
        raise InvalidRequest("there is no attempt of this number", member="attempt_number")
    attempt = job.attempts[attempt_number - 1]
    if attempt.outcome == "running":
        raise InvalidRequest("the attempt is still running", member="attempt_number")
    reconciled = replace(attempt, usage=usage, usage_evidence_ref=evidence_ref)
    attempts = (*job.attempts[: attempt_number - 1], reconciled, *job.attempts[attempt_number:])
    return _next(job, now_ms, job.status, attempts=attempts)


def _check_status(job: Job, *allowed: JobStatus) -> None:
    if job.status not in allowed:
        raise _wrong_status(job)


def _running(job: Job) -> Attempt:
    attempt = job.running_attempt
    if attempt is None:
        raise _wrong_status(job)
    return attempt


def _wrong_status(job: Job) -> WaggleError:
    return InvalidRequest(f"a job that is {job.status} does not allow this operation", member="type")


def _status_after(job: Job) -> JobStatus:
    return "ready" if len(job.attempts) < job.spec.max_attempts else "exhausted"


def _closed(job: Job, outcome: AttemptOutcome, closing: Closing, now_ms: int) -> tuple[Attempt, ...]:
    ended = replace(
        job.attempts[-1],
        outcome=outcome,
        ended_at_millis=now_ms,
        usage=closing.usage,
        evidence_ref=closing.evidence_ref,
    )
    return (*job.attempts[:-1], ended)


def _next(job: Job, now_ms: int, status: JobStatus, *, attempts: tuple[Attempt, ...]) -> Job:
    if job.revision == limits.REVISION_MAX:
        raise InvalidRequest("the job has used up its revisions", member="expected_revision")
    return replace(job, revision=job.revision + 1, modified_at_millis=now_ms, status=status, attempts=attempts)

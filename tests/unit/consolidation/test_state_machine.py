"""Every row of the state machine: from where, to where, what becomes of the attempt; and what is not allowed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from services.consolidation.commands import (
    CancelJob,
    ClaimJob,
    Command,
    FailAttempt,
    PublishJob,
    ReconcileUsage,
    RecoverExpired,
    RenewLease,
)
from services.domain.jobs import Attempt, Job, JobStatus, ReportedUsage
from tests.harness.job_world import ABSENT, LEASE_MS, USAGE, JobWorld, assertion, reason_of, spec_of
from tests.harness.memory_world import START_MS


def attempt_of(world: JobWorld, job_id: str, number: int = 1) -> Attempt:
    return world.job(job_id).attempts[number - 1]


def test_create(world: JobWorld) -> None:
    """A new job is ready at revision 1, without attempts and outputs, and belongs to its creator."""
    job_id = world.new_job()
    job = world.job(job_id)
    author = job.created_by
    assert author.credential_id == world.token.credential_id
    assert job == Job(job_id, 1, author, START_MS, START_MS, spec_of(world.sources), "ready")


def test_claim(world: JobWorld) -> None:
    """A claim appends a running attempt bound to credential, incarnation and clock, with usage unknown."""
    job_id = world.new_job()
    world.clock.ms += 10
    receipt = world.run(ClaimJob(job_id, 1, "worker 1"))
    job = world.job(job_id)
    attempt = job.attempts[0]
    now_ms = START_MS + 10
    assert (receipt["action"], receipt["revision"], job.status, job.revision) == ("claimed", 2, "running", 2)
    assert attempt.as_json() == {
        "number": 1,
        "worker_id": "worker 1",
        "credential_id": world.token.credential_id,
        "fence": attempt.lease.fence,
        "storage_incarnation": world.traffic.status().incarnation,
        "claimed_at_millis": now_ms,
        "expires_at_millis": now_ms + LEASE_MS,
        "ended_at_millis": None,
        "outcome": "running",
        "usage": {"status": "unknown"},
        "evidence_ref": None,
        "usage_evidence_ref": None,
    }


def test_renew(world: JobWorld) -> None:
    """A renewal moves the end of the lease and nothing else of the attempt."""
    job_id, fence = world.running_job()
    before = attempt_of(world, job_id).as_json()
    world.clock.ms += 1_000
    receipt = world.renew(job_id, fence)
    expected = {**before, "expires_at_millis": START_MS + 1_000 + LEASE_MS}
    assert (receipt["action"], attempt_of(world, job_id).as_json()) == ("renewed", expected)
    assert world.job(job_id).status == "running"


def test_publish(world: JobWorld) -> None:
    """A publication closes the attempt with usage and evidence, and is final."""
    job_id, fence = world.running_job()
    before = attempt_of(world, job_id).as_json()
    world.clock.ms += 1_000
    receipt = world.publish(job_id, fence, assertion(*world.sources))
    job = world.job(job_id)
    assert (receipt["action"], job.status, len(job.output_receipts)) == ("published", "published", 1)
    assert job.attempts[0].as_json() == {
        **before,
        "ended_at_millis": START_MS + 1_000,
        "outcome": "published",
        "usage": {
            "status": "reported",
            "model_calls": 1,
            "input_tokens": 2,
            "output_tokens": 3,
            "cost_microusd": None,
        },
        "evidence_ref": "published:1",
    }


def test_publish_nothing(world: JobWorld) -> None:
    """No assertion at all is a legitimate outcome."""
    job_id, fence = world.running_job()
    world.publish(job_id, fence)
    job = world.job(job_id)
    assert (job.status, job.output_receipts) == ("published", ())


def test_fail_leads_back_until_attempts_are_used_up(world: JobWorld) -> None:
    """A failed attempt makes the job ready; the last one exhausts it."""
    job_id, fence = world.running_job()
    receipt = world.fail(job_id, fence)
    assert (receipt["action"], world.job(job_id).status) == ("failed", "ready")
    closed = attempt_of(world, job_id)
    assert (closed.outcome, closed.usage, closed.evidence_ref, closed.ended_at_millis) == (
        "failed",
        None,
        "failed:1",
        START_MS,
    )
    world.fail(job_id, world.claim(job_id))
    assert world.job(job_id).status == "exhausted"
    assert [attempt.number for attempt in world.job(job_id).attempts] == [1, 2]


def test_recover_leads_back_until_attempts_are_used_up(world: JobWorld) -> None:
    """A job whose workers all die without a word ends exhausted through recovery alone."""
    job_id, _ = world.running_job()
    statuses: list[JobStatus] = []
    for _ in range(2):
        world.clock.ms += LEASE_MS
        receipt = world.run(RecoverExpired(job_id, world.job(job_id).revision, "gone"))
        assert receipt["action"] == "recovered"
        job = world.job(job_id)
        statuses.append(job.status)
        if job.status == "ready":
            world.claim(job_id)
    assert statuses == ["ready", "exhausted"]
    closed = attempt_of(world, job_id)
    assert (closed.outcome, closed.usage, closed.evidence_ref) == ("unknown", None, "gone")
    assert closed.ended_at_millis == START_MS + LEASE_MS


SECOND_ATTEMPT: dict[str, tuple[int, Callable[[str, str], Command]]] = {
    "renew": (1, lambda job_id, fence: RenewLease(job_id, 4, fence)),
    "publish": (1, lambda job_id, fence: PublishJob(job_id, 4, fence, (), None, "e")),
    "fail": (1, lambda job_id, fence: FailAttempt(job_id, 4, fence, None, "e")),
    "recover_expired": (LEASE_MS, lambda job_id, _fence: RecoverExpired(job_id, 4, "e")),
    "cancel": (1, lambda job_id, _fence: CancelJob(job_id, 4, "e")),
}


@pytest.mark.parametrize("name", SECOND_ATTEMPT)
def test_earlier_attempts_stay(world: JobWorld, name: str) -> None:
    """Whatever becomes of an attempt, those before it stay as they were closed."""
    job_id, fence = world.running_job()
    world.fail(job_id, fence)
    first = world.job(job_id).attempts
    later = world.claim(job_id)
    after_ms, make = SECOND_ATTEMPT[name]
    world.clock.ms += after_ms
    world.run(make(job_id, later))
    assert (first, 2) == (world.job(job_id).attempts[:1], len(world.job(job_id).attempts))


def test_recover_by_a_sibling_credential(world: JobWorld) -> None:
    """Recovery and cancellation need no fence and no particular credential of the owner."""
    job_id, _ = world.running_job()
    world.clock.ms += LEASE_MS
    sibling = world.issue()
    receipt = world.run(RecoverExpired(job_id, 2, "e"), token=sibling)
    assert receipt["author"]["credential_id"] == sibling.credential_id
    assert world.run(CancelJob(job_id, 3, "e"), token=sibling)["action"] == "cancelled"


def test_cancel_a_ready_job(world: JobWorld) -> None:
    """Cancelling a ready job leaves its attempts as they are."""
    job_id = world.new_job()
    world.run(CancelJob(job_id, 1, "why"))
    job = world.job(job_id)
    assert (job.status, job.attempts, job.revision) == ("cancelled", (), 2)


def test_cancel_between_attempts(world: JobWorld) -> None:
    """A ready job that has failed before keeps that attempt as it was closed."""
    job_id, fence = world.running_job()
    world.fail(job_id, fence)
    before = world.job(job_id)
    world.clock.ms += 1
    world.run(CancelJob(job_id, 3, "why"))
    after = world.job(job_id)
    assert (after.status, after.attempts, after.modified_at_millis) == ("cancelled", before.attempts, START_MS + 1)


def test_cancel_a_running_job(world: JobWorld) -> None:
    """Cancelling closes the attempt with an unknown outcome, and its holder can no longer publish."""
    job_id, fence = world.running_job()
    world.run(CancelJob(job_id, 2, "why"))
    closed = attempt_of(world, job_id)
    assert (closed.outcome, closed.usage, closed.evidence_ref, closed.ended_at_millis) == (
        "unknown",
        None,
        "why",
        START_MS,
    )
    assert world.job(job_id).status == "cancelled"
    assert reason_of(lambda: world.publish(job_id, fence)) == "invalid_request"


def closed_job(world: JobWorld, status: JobStatus) -> str:
    """A job of a status with at least one closed attempt."""
    job_id, fence = world.running_job(max_attempts=1 if status == "exhausted" else 2)
    if status in ("ready", "exhausted", "running"):
        world.fail(job_id, fence)
        if status == "running":
            world.claim(job_id)
    elif status == "published":
        world.publish(job_id, fence, assertion(*world.sources))
    else:
        world.run(CancelJob(job_id, 2, "e"))
    assert world.job(job_id).status == status
    return job_id


ALL_STATUSES: list[JobStatus] = ["ready", "running", "published", "cancelled", "exhausted"]


@pytest.mark.parametrize("status", ALL_STATUSES)
def test_reconcile(world: JobWorld, status: JobStatus) -> None:
    """Usage of a closed attempt is replaced in any status, also while a later one runs; nothing else changes."""
    job_id = closed_job(world, status)
    before = world.job(job_id)
    usage = ReportedUsage(2**64 - 1, 0, 5, 7)
    receipt = world.run(ReconcileUsage(job_id, before.revision, 1, usage, "invoice:1"))
    after = world.job(job_id)
    expected = before.attempts[0].as_json() | {
        "usage": {
            "status": "reported",
            "model_calls": 2**64 - 1,
            "input_tokens": 0,
            "output_tokens": 5,
            "cost_microusd": 7,
        },
        "usage_evidence_ref": "invoice:1",
    }
    assert (receipt["action"], after.status, after.revision) == ("usage_reconciled", status, before.revision + 1)
    assert after.attempts[0].as_json() == expected
    assert (after.attempts[1:], after.output_receipts) == (before.attempts[1:], before.output_receipts)


def test_reconcile_again(world: JobWorld) -> None:
    """A later report replaces an earlier one, which stays in the history."""
    job_id = closed_job(world, "published")
    for revision, calls in ((3, 10), (4, 20)):
        world.run(ReconcileUsage(job_id, revision, 1, ReportedUsage(calls, 0, 0), f"invoice:{calls}"))
    assert world.job(job_id).attempts[0].usage == ReportedUsage(20, 0, 0)
    assert world.history(job_id, 4)[0].attempts[0].usage == ReportedUsage(10, 0, 0)
    assert world.history(job_id, 3)[0].attempts[0].usage == USAGE


@pytest.mark.parametrize("number", [2, 3])
def test_reconcile_what_is_not_closed(world: JobWorld, number: int) -> None:
    """An attempt that runs, or that never was, is 400."""
    job_id = closed_job(world, "running")
    command = ReconcileUsage(job_id, world.job(job_id).revision, number, USAGE, "e")
    assert reason_of(lambda: world.run(command)) == "invalid_request"


Make = Callable[[str, int], Command]

OPERATIONS: dict[str, tuple[Make, set[JobStatus]]] = {
    "claim": (lambda job_id, revision: ClaimJob(job_id, revision, "w"), {"ready"}),
    "renew": (lambda job_id, revision: RenewLease(job_id, revision, ABSENT), {"running"}),
    "publish": (lambda job_id, revision: PublishJob(job_id, revision, ABSENT, (), None, "e"), {"running"}),
    "fail": (lambda job_id, revision: FailAttempt(job_id, revision, ABSENT, None, "e"), {"running"}),
    "recover_expired": (lambda job_id, revision: RecoverExpired(job_id, revision, "e"), {"running"}),
    "cancel": (lambda job_id, revision: CancelJob(job_id, revision, "e"), {"ready", "running"}),
}
REFUSED = [
    (name, status) for name, (_, allowed) in OPERATIONS.items() for status in ALL_STATUSES if status not in allowed
]


@pytest.mark.parametrize(("operation", "status"), REFUSED)
def test_status_does_not_allow_it(world: JobWorld, operation: str, status: JobStatus) -> None:
    """An operation that the status does not allow is 400 and changes nothing; nothing ever reopens a job."""
    job_id = closed_job(world, status)
    before = world.job(job_id)
    command = OPERATIONS[operation][0](job_id, before.revision)
    assert reason_of(lambda: world.run(command)) == "invalid_request"
    assert world.job(job_id) == before


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("status", ALL_STATUSES)
def test_stale_revision_is_told_first(world: JobWorld, operation: str, status: JobStatus) -> None:
    """Another revision than expected is 409, before status and lease are looked at."""
    job_id = closed_job(world, status)
    for revision in (1, world.job(job_id).revision + 1, 2**64 - 1):
        command = OPERATIONS[operation][0](job_id, revision)
        assert reason_of(lambda command=command: world.run(command)) == "revision_conflict"  # type: ignore[misc]


@pytest.mark.parametrize("operation", [*OPERATIONS, "reconcile_usage"])
def test_no_such_job(world: JobWorld, operation: str) -> None:
    """An operation on a job that does not exist is 404."""
    command: Command = ReconcileUsage(ABSENT, 1, 1, USAGE, "e")
    if operation in OPERATIONS:
        command = OPERATIONS[operation][0](ABSENT, 1)
    assert reason_of(lambda: world.run(command)) == "record_not_found"


@pytest.mark.parametrize("operation", [*OPERATIONS, "reconcile_usage"])
def test_job_of_another_subject(world: JobWorld, operation: str) -> None:
    """Another subject with the same shared memories cannot see or touch the job: 404, whatever it presents."""
    job_id, fence = world.running_job()
    stranger = world.issue(subject="other")
    command: Command = ReconcileUsage(job_id, 2, 1, USAGE, "e")
    if operation in OPERATIONS:
        command = OPERATIONS[operation][0](job_id, 2)
    assert reason_of(lambda: world.run(command, token=stranger)) == "record_not_found"
    assert reason_of(lambda: world.inspect(job_id, token=stranger)) == "record_not_found"
    assert reason_of(lambda: world.history(job_id, 1, token=stranger)) == "record_not_found"
    assert reason_of(lambda: world.context(job_id, 2, fence, token=stranger)) == "record_not_found"
    assert world.query(token=stranger).jobs == ()


def test_every_revision_is_kept_with_its_receipt(world: JobWorld) -> None:
    """Each revision is one command's: job and receipt agree in id, revision, time and digests, and never change."""
    job_id, fence = world.running_job()
    world.clock.ms += 5
    world.renew(job_id, fence)
    world.publish(job_id, fence)
    histories = [world.history(job_id, revision) for revision in range(1, 5)]
    assert ["created", "claimed", "renewed", "published"] == [receipt["action"] for _, receipt in histories]
    for revision, (job, receipt) in enumerate(histories, 1):
        assert (revision, revision, job_id) == (job.revision, receipt["revision"], receipt["job_id"])
        assert receipt["committed_at_millis"] == job.modified_at_millis
    assert ["ready", "running", "running", "published"] == [job.status for job, _ in histories]
    digests = {receipt[name] for _, receipt in histories for name in ("job_digest", "receipt_digest")}
    assert len(digests) == 8
    assert reason_of(lambda: world.history(job_id, 5)) == "record_not_found"

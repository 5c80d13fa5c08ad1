"""Leases to the millisecond, one predicate for every verb; and what holds between the check and the commit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from services.consolidation.commands import CancelJob, FailAttempt, PublishJob, RecoverExpired, RenewLease
from services.domain.errors import RevisionConflict
from services.domain.lease import Lease, LeaseClaim, Moment, check_lease, is_lease_active, renewed_expiry
from tests.harness.job_world import ABSENT, ATTEMPT_MS, LEASE_MS, JobWorld, reason_of
from tests.harness.memory_world import START_MS

LEASE = Lease("credential", "fence", "opening", 100, 200)


@pytest.mark.parametrize(("now_ms", "active"), [(99, False), (100, True), (199, True), (200, False), (201, False)])
def test_window_is_half_open(now_ms: int, active: bool) -> None:
    """A lease can be used from its claim until just before its end."""
    assert is_lease_active(LEASE, Moment(now_ms, "opening")) is active


def test_another_opening_ends_every_lease() -> None:
    """A lease is over once storage has been opened again, however much time is left."""
    assert not is_lease_active(LEASE, Moment(150, "next opening"))


@pytest.mark.parametrize(
    ("claim", "moment"),
    [
        (LeaseClaim("credential", "other fence"), Moment(150, "opening")),
        (LeaseClaim("other credential", "fence"), Moment(150, "opening")),
        (LeaseClaim("credential", "fence"), Moment(200, "opening")),
        (LeaseClaim("credential", "fence"), Moment(150, "next opening")),
    ],
)
def test_only_the_holder_may_use_it_in_time(claim: LeaseClaim, moment: Moment) -> None:
    """Fence, credential, time and incarnation must all fit; each refusal is the same conflict."""
    check_lease(LEASE, LeaseClaim("credential", "fence"), Moment(150, "opening"))
    with pytest.raises(RevisionConflict) as refused:
        check_lease(LEASE, claim, moment)
    assert "the lease is not, or no longer, the caller's to use" in str(refused.value)


@pytest.mark.parametrize(("now_ms", "expiry"), [(101, 201), (150, 250), (180, 280), (199, 290)])
def test_renewal_counts_from_now_up_to_the_end_of_the_attempt(now_ms: int, expiry: int) -> None:
    """The new end is lease_millis from now, capped by claim plus max_attempt_millis."""
    assert expiry == renewed_expiry(LEASE, now_ms, lease_millis=100, max_attempt_millis=190)


@pytest.mark.parametrize(("now_ms", "max_attempt_millis"), [(100, 1000), (150, 100)])
def test_renewal_must_advance(now_ms: int, max_attempt_millis: int) -> None:
    """A renewal at the instant of the claim, or at the hard deadline, gains nothing and is refused."""
    with pytest.raises(RevisionConflict):
        renewed_expiry(LEASE, now_ms, lease_millis=100, max_attempt_millis=max_attempt_millis)


Verb = Callable[[JobWorld, str, str], object]

HOLDER_VERBS: dict[str, Verb] = {
    "context": lambda world, job_id, fence: world.context(job_id, 2, fence),
    "renew": lambda world, job_id, fence: world.run(RenewLease(job_id, 2, fence)),
    "publish": lambda world, job_id, fence: world.run(PublishJob(job_id, 2, fence, (), None, "e")),
    "fail": lambda world, job_id, fence: world.run(FailAttempt(job_id, 2, fence, None, "e")),
}
COMMAND_VERBS = [name for name in HOLDER_VERBS if name != "context"]


@pytest.mark.parametrize("verb", HOLDER_VERBS)
@pytest.mark.parametrize("after_ms", [LEASE_MS - 1, LEASE_MS, LEASE_MS + 1])
def test_holder_at_the_boundary(world: JobWorld, verb: str, after_ms: int) -> None:
    """Until one millisecond before the end every verb of the holder is served; at the end and after it none is."""
    job_id, fence = world.running_job()
    world.clock.ms = START_MS + after_ms
    if after_ms < LEASE_MS:
        HOLDER_VERBS[verb](world, job_id, fence)
    else:
        assert reason_of(lambda: HOLDER_VERBS[verb](world, job_id, fence)) == "revision_conflict"
        assert world.job(job_id).revision == 2


@pytest.mark.parametrize("after_ms", [LEASE_MS - 1, LEASE_MS, LEASE_MS + 1])
def test_recovery_at_the_boundary(world: JobWorld, after_ms: int) -> None:
    """Recovery begins exactly where the holder's right ends."""
    job_id, _ = world.running_job()
    world.clock.ms = START_MS + after_ms
    recover = RecoverExpired(job_id, 2, "e")
    if after_ms < LEASE_MS:
        assert reason_of(lambda: world.run(recover)) == "revision_conflict"
        assert not world.inspect(job_id).recoverable
    else:
        assert world.inspect(job_id).recoverable
        assert world.run(recover)["action"] == "recovered"


@pytest.mark.parametrize("verb", HOLDER_VERBS)
def test_fence_and_credential_must_both_fit(world: JobWorld, verb: str) -> None:
    """The right fence with a sibling credential, and another fence with the right credential, are both refused."""
    sibling = world.issue()
    job_id, fence = world.running_job()
    assert reason_of(lambda: HOLDER_VERBS[verb](world, job_id, ABSENT)) == "revision_conflict"
    world.token = sibling
    assert reason_of(lambda: HOLDER_VERBS[verb](world, job_id, fence)) == "revision_conflict"


@pytest.mark.parametrize("verb", HOLDER_VERBS)
def test_revision_must_fit_too(world: JobWorld, verb: str) -> None:
    """The holder with its own living fence, but a revision that a renewal has passed or that never was, is refused."""
    job_id, fence = world.running_job()
    world.clock.ms += 1
    world.renew(job_id, fence)
    assert reason_of(lambda: HOLDER_VERBS[verb](world, job_id, fence)) == "revision_conflict"
    job_id, fence = world.running_job()
    world.run(CancelJob(job_id, 2, "e"))
    assert reason_of(lambda: HOLDER_VERBS[verb](world, job_id, fence)) == "revision_conflict"


@pytest.mark.parametrize("verb", HOLDER_VERBS)
def test_fence_of_an_earlier_attempt(world: JobWorld, verb: str) -> None:
    """A fence is worth nothing once its attempt is closed, even to the credential that holds the next one."""
    job_id, old_fence = world.running_job()
    world.fail(job_id, old_fence)
    world.claim(job_id)
    calls: dict[str, Callable[[], object]] = {
        "context": lambda: world.context(job_id, 4, old_fence),
        "renew": lambda: world.renew(job_id, old_fence),
        "publish": lambda: world.publish(job_id, old_fence),
        "fail": lambda: world.fail(job_id, old_fence),
    }
    assert reason_of(calls[verb]) == "revision_conflict"


@pytest.mark.parametrize("verb", COMMAND_VERBS)
@pytest.mark.parametrize("waited_ms", [1, 2, 3])
def test_lease_that_ends_between_check_and_commit(world: JobWorld, verb: str, waited_ms: int) -> None:
    """A command that was right when it looked is judged by the clock of its commit: at T - 1 it holds, from T not."""
    job_id, fence = world.running_job()
    world.clock.ms += LEASE_MS - 2

    def wait() -> None:
        world.clock.ms += waited_ms

    world.traffic.before_commit = wait
    if waited_ms < 2:
        HOLDER_VERBS[verb](world, job_id, fence)
        assert world.job(job_id).revision == 3
        return
    assert reason_of(lambda: HOLDER_VERBS[verb](world, job_id, fence)) == "revision_conflict"
    assert world.job(job_id).revision == 2
    assert world.inspect(job_id).recoverable


@pytest.mark.parametrize("verb", COMMAND_VERBS)
def test_storage_opened_again_between_check_and_commit(world: JobWorld, verb: str) -> None:
    """The commit is refused by the new incarnation, and the rerun finds the lease fenced."""
    job_id, fence = world.running_job()
    world.traffic.before_commit = world.traffic.reopen
    assert reason_of(lambda: HOLDER_VERBS[verb](world, job_id, fence)) == "revision_conflict"
    assert world.job(job_id).revision == 2


def test_claim_while_storage_is_opened_again(world: JobWorld) -> None:
    """A claim never leaves a lease of an opening that is over."""
    job_id = world.new_job()
    world.traffic.before_commit = world.traffic.reopen
    world.claim(job_id, revision=1)
    assert world.inspect(job_id).lease_active


def test_restart_fences_and_keeps(world: JobWorld) -> None:
    """After a restart an unexpired attempt is inactive and recoverable; the job, its history and receipts are there."""
    job_id, fence = world.running_job()
    world.traffic.reopen()
    inspection = world.inspect(job_id)
    assert (inspection.lease_active, inspection.recoverable) == (False, True)
    assert reason_of(lambda: world.publish(job_id, fence)) == "revision_conflict"
    assert world.history(job_id, 2)[0] == inspection.job
    world.run(RecoverExpired(job_id, 2, "restart"))
    assert world.job(job_id).status == "ready"


def test_renewals_reach_the_hard_deadline_and_stop(world: JobWorld) -> None:
    """Renewals move the end with the clock up to the hard deadline; then they no longer advance, nor revive."""
    job_id, fence = world.running_job()
    ends = []
    for after_ms in (4_000, 8_000):
        world.clock.ms = START_MS + after_ms
        world.renew(job_id, fence)
        ends.append(world.job(job_id).attempts[-1].lease.expires_at_millis - START_MS)
    assert ends == [9_000, ATTEMPT_MS]
    world.clock.ms = START_MS + ATTEMPT_MS - 1
    assert reason_of(lambda: world.renew(job_id, fence)) == "revision_conflict"
    world.publish(job_id, fence)
    assert world.job(job_id).attempts[-1].lease.fence == fence


def test_expired_lease_is_never_revived(world: JobWorld) -> None:
    """Long before the hard deadline, but past its end, a lease cannot be renewed."""
    job_id, fence = world.running_job()
    world.clock.ms += LEASE_MS
    assert reason_of(lambda: world.renew(job_id, fence)) == "revision_conflict"


@pytest.mark.parametrize("verb", HOLDER_VERBS)
def test_clock_of_the_host_that_jumps_back(world: JobWorld, verb: str) -> None:
    """The store's clock never goes backwards, so a lease that has ended stays ended, and only recovery is accepted."""
    job_id, fence = world.running_job()
    world.clock.ms += LEASE_MS
    assert world.inspect(job_id).recoverable
    world.clock.ms -= 10 * LEASE_MS
    assert reason_of(lambda: HOLDER_VERBS[verb](world, job_id, fence)) == "revision_conflict"
    assert world.inspect(job_id).recoverable
    assert world.run(RecoverExpired(job_id, 2, "e"))["committed_at_millis"] == START_MS + LEASE_MS


@pytest.mark.parametrize("verb", ["context", "publish", "fail"])
def test_clock_that_jumps_back_within_the_lease(world: JobWorld, verb: str) -> None:
    """A lease is not lost to a host whose clock goes back before the claim; it lasts until that clock has caught up."""
    job_id, fence = world.running_job()
    world.clock.ms -= 10 * LEASE_MS
    assert reason_of(lambda: world.run(RecoverExpired(job_id, 2, "e"))) == "revision_conflict"
    HOLDER_VERBS[verb](world, job_id, fence)


def test_renewal_while_the_clock_stands(world: JobWorld) -> None:
    """After a jump back the store's clock stands, a renewal gains nothing and is refused, and the lease goes on."""
    job_id, fence = world.running_job()
    world.clock.ms -= LEASE_MS
    assert reason_of(lambda: world.renew(job_id, fence)) == "revision_conflict"
    world.clock.ms = START_MS + 1
    world.renew(job_id, fence)
    assert world.job(job_id).attempts[-1].lease.expires_at_millis == START_MS + 1 + LEASE_MS

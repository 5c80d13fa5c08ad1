"""One key, one command, one receipt, whatever has happened since; and what comes before the key is looked at."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from services.consolidation.commands import (
    CancelJob,
    ClaimJob,
    Command,
    CreateJob,
    FailAttempt,
    PublishJob,
    ReconcileUsage,
    RecoverExpired,
    RenewLease,
)
from services.domain.errors import IdempotencyConflict, RevisionConflict, WaggleError
from services.domain.jobs import ReportedUsage
from services.memory.commands import CreateRecord, DeleteRecord
from tests.harness.job_world import LEASE_MS, USAGE, JobWorld, assertion, reason_of, spec_of
from tests.harness.memory_world import SCOPE, record_input, scope_of


def ready(world: JobWorld) -> tuple[str, str]:
    return world.new_job(), ""


def running(world: JobWorld) -> tuple[str, str]:
    job_id, fence = world.running_job()
    world.clock.ms += 1
    return job_id, fence


def expired(world: JobWorld) -> tuple[str, str]:
    found = world.running_job()
    world.clock.ms += LEASE_MS
    return found


def closed(world: JobWorld) -> tuple[str, str]:
    job_id, fence = world.running_job()
    world.fail(job_id, fence)
    return job_id, fence


Prepare = Callable[[JobWorld], tuple[str, str]]
Make = Callable[[JobWorld, str, str], Command]

COMMANDS: dict[str, tuple[Prepare, Make]] = {
    "create": (lambda _: ("", ""), lambda world, _job, _fence: CreateJob(spec_of(world.sources))),
    "claim": (ready, lambda _, job_id, _fence: ClaimJob(job_id, 1, "w")),
    "renew": (running, lambda _, job_id, fence: RenewLease(job_id, 2, fence)),
    "publish": (
        running,
        lambda world, job_id, fence: PublishJob(job_id, 2, fence, (assertion(*world.sources),), USAGE, "e"),
    ),
    "fail": (running, lambda _, job_id, fence: FailAttempt(job_id, 2, fence, None, "e")),
    "recover_expired": (expired, lambda _, job_id, _fence: RecoverExpired(job_id, 2, "e")),
    "cancel": (running, lambda _, job_id, _fence: CancelJob(job_id, 2, "e")),
    "reconcile_usage": (closed, lambda _, job_id, _fence: ReconcileUsage(job_id, 3, 1, USAGE, "e")),
}


def prepared(world: JobWorld, name: str) -> Command:
    prepare, make = COMMANDS[name]
    return make(world, *prepare(world))


@pytest.mark.parametrize("name", COMMANDS)
def test_replay_after_everything_has_changed(world: JobWorld, name: str) -> None:
    """The original receipt is answered, without any effect, whatever has come since and to whichever credential.

    Since then: later revisions, a terminal status, a changed source, a restart and expiry.
    """
    command = prepared(world, name)
    receipt = world.run(command, "K")
    job = world.job(receipt["job_id"])
    if job.status in ("ready", "running"):
        world.run(CancelJob(job.job_id, job.revision, "over"))
    world.execute(DeleteRecord(world.sources[0].record_id, 1))
    world.clock.ms += 10 * LEASE_MS
    world.traffic.reopen()
    before = world.rows()
    sibling = world.issue()
    assert receipt == world.run(command, "K")
    assert receipt == world.run(command, "K", token=sibling)
    assert receipt["author"]["credential_id"] == world.token.credential_id
    assert world.rows() == before


@pytest.mark.parametrize("name", COMMANDS)
def test_key_of_another_command(world: JobWorld, name: str) -> None:
    """The same key with any other command is 409 `idempotency_conflict`, before lookup, revision and lease."""
    command = prepared(world, name)
    world.run(CreateJob(spec_of(world.sources, objective="something else")), "K")
    before = world.rows()
    with pytest.raises(IdempotencyConflict):
        world.run(command, "K")
    assert world.rows() == before


@pytest.mark.parametrize("name", COMMANDS)
def test_lost_answer(world: JobWorld, name: str) -> None:
    """A commit whose answer was lost is found again and not repeated."""
    command = prepared(world, name)
    world.traffic.loses_answer = True
    receipt = world.run(command, "K")
    job_id = receipt["job_id"]
    assert world.job(job_id).revision == receipt["revision"]
    assert world.history(job_id, receipt["revision"])[1] == receipt


@pytest.mark.parametrize("name", COMMANDS)
def test_one_read_and_one_commit(world: JobWorld, name: str) -> None:
    """A command over sources that are not derived costs one round trip to read and one synced commit."""
    command = prepared(world, name)
    reads, commits = world.traffic.read_count, world.traffic.commit_count
    world.run(command)
    assert (world.traffic.read_count - reads, world.traffic.commit_count - commits) == (1, 1)


def test_every_member_belongs_to_the_command(world: JobWorld) -> None:
    """One member changed makes another command."""
    job_id, fence = running(world)
    found = assertion(*world.sources)
    first = PublishJob(job_id, 2, fence, (found,), ReportedUsage(1, 2, 3), "e")
    world.run(first, "K")
    others = [
        PublishJob(job_id, 3, fence, (found,), ReportedUsage(1, 2, 3), "e"),
        PublishJob(job_id, 2, job_id, (found,), ReportedUsage(1, 2, 3), "e"),
        PublishJob(job_id, 2, fence, (), ReportedUsage(1, 2, 3), "e"),
        PublishJob(job_id, 2, fence, (found, found), ReportedUsage(1, 2, 3), "e"),
        PublishJob(job_id, 2, fence, (found,), None, "e"),
        PublishJob(job_id, 2, fence, (found,), ReportedUsage(1, 2, 3, 0), "e"),
        PublishJob(job_id, 2, fence, (found,), ReportedUsage(1, 2, 3), "e2"),
    ]
    for other in others:
        assert reason_of(lambda other=other: world.run(other, "K")) == "idempotency_conflict"  # type: ignore[misc]


def test_refused_command_keeps_its_key_free(world: JobWorld) -> None:
    """A stale revision or a bad lease does not burn the key."""
    job_id = world.new_job()
    assert reason_of(lambda: world.run(ClaimJob(job_id, 2, "w"), "K")) == "revision_conflict"
    assert world.run(ClaimJob(job_id, 1, "w"), "K")["action"] == "claimed"


def test_key_spaces(world: JobWorld) -> None:
    """A key of a memory command, of another subject, scope or company is another key."""
    world.execute(CreateRecord(record_input()), "K")
    create = CreateJob(spec_of(world.sources))
    first = world.run(create, "K")
    stranger = world.issue(subject="other")
    second = world.run(create, "K", token=stranger)
    assert len({first["job_id"], second["job_id"]}) == 2
    # Elsewhere the sources do not exist; a conflict over the key would have been told first.
    foreigner = world.issue(company="globex")
    assert reason_of(lambda: world.run(create, "K", token=foreigner)) == "revision_conflict"
    assert reason_of(lambda: world.run(create, "K", scope=scope_of(agent_id="a2"))) == "revision_conflict"


def test_authority_comes_before_replay(world: JobWorld) -> None:
    """A revoked credential gets 401, one without a capability or the scope 403, even for a receipt that exists."""
    create = CreateJob(spec_of(world.sources))
    world.run(create, "K")
    reader = world.issue(capabilities=("memory_read",))
    writer = world.issue(capabilities=("memory_write",))
    elsewhere = world.issue(grants=(scope_of(project_id="p2"),))
    for token in (reader, writer, elsewhere):
        assert reason_of(lambda token=token: world.run(create, "K", token=token)) == "forbidden"  # type: ignore[misc]
    world.revoke(reader)
    assert reason_of(lambda: world.run(create, "K", token=reader)) == "unauthorized"


@pytest.mark.parametrize("capability", ["memory_read", "memory_write"])
def test_capabilities_of_reads(world: JobWorld, capability: str) -> None:
    """Inspection, revisions and lists need `memory_read`, the context `memory_write` too; all before any lookup."""
    job_id, fence = world.running_job()
    token = world.issue(capabilities=(capability,))
    reads: list[Callable[[], object]] = [
        lambda: world.inspect(job_id, token=token),
        lambda: world.history(job_id, 1, token=token),
        lambda: world.query(token=token),
    ]
    for read in reads:
        if capability == "memory_read":
            read()
        else:
            assert reason_of(read) == "forbidden"
    assert reason_of(lambda: world.context(job_id, 2, fence, token=token)) == "forbidden"


def together(count: int, call: Callable[[int], object]) -> list[object]:
    """What `count` threads get that are let go at once: results and refusals."""
    barrier = threading.Barrier(count)
    outcomes: list[object] = [None] * count

    def run(index: int) -> None:
        barrier.wait()
        try:
            outcomes[index] = call(index)
        except WaggleError as error:
            outcomes[index] = type(error)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


@pytest.fixture
def crowd() -> Iterator[JobWorld]:
    """A world with room for 32 callers at once."""
    made = JobWorld(slot_count=32)
    yield made
    made.close()


def test_same_command_at_once(crowd: JobWorld) -> None:
    """Thirty-two callers with one key and one command get one receipt; there is one effect."""
    job_id, fence = crowd.running_job()
    publish = PublishJob(job_id, 2, fence, (assertion(*crowd.sources),), USAGE, "e")
    outcomes = together(32, lambda _: crowd.run(publish, "K"))
    assert all(outcome == outcomes[0] for outcome in outcomes)
    assert len(crowd.job(job_id).output_receipts) == 1


def test_one_winner_at_one_revision(crowd: JobWorld) -> None:
    """Of thirty-two claims at one revision exactly one wins; the others get `revision_conflict`."""
    job_id = crowd.new_job()
    outcomes = together(32, lambda index: crowd.run(ClaimJob(job_id, 1, f"w{index}"), f"K{index}"))
    assert outcomes.count(RevisionConflict) == 31
    assert len(crowd.job(job_id).attempts) == 1


def test_one_winner_of_a_key(crowd: JobWorld) -> None:
    """Of thirty-two commands under one key exactly one wins; the others get `idempotency_conflict`."""
    outcomes = together(
        32, lambda index: crowd.run(CreateJob(spec_of(crowd.sources, objective=f"goal {index}")), "K", scope=SCOPE)
    )
    assert outcomes.count(IdempotencyConflict) == 31
    assert len(crowd.query().jobs) == 1


def test_slots(world: JobWorld) -> None:
    """Without a free slot every request is 503, after authorization and before the job is looked up."""
    job_id = world.new_job()
    holders = [threading.Event(), threading.Event()]
    release = threading.Event()

    def hold(index: int) -> None:
        world.slots.admit()
        holders[index].set()
        release.wait()
        world.slots.give_back()

    threads = [threading.Thread(target=hold, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for holder in holders:
        holder.wait()
    try:
        assert reason_of(lambda: world.inspect(job_id)) == "retrieval_busy"
        assert reason_of(lambda: world.run(ClaimJob(job_id, 1, "w"))) == "retrieval_busy"
        assert reason_of(lambda: world.run(ClaimJob(job_id, 1, "w"), scope=scope_of(agent_id="a2"))) == "retrieval_busy"
    finally:
        release.set()
        for thread in threads:
            thread.join()
    assert world.inspect(job_id).job.revision == 1

"""Which refusal comes first when several are due: each step of the documented order against the one after it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any

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
from services.domain.jobs import ReportedUsage
from services.domain.receipts import CONSOLIDATION_FAMILY, command_digest
from services.domain.records import SourceRef
from services.memory.commands import DeleteRecord, UpdateRecord
from tests.harness.job_world import ABSENT, LEASE_MS, USAGE, JobWorld, assertion, reason_of, spec_of
from tests.harness.memory_world import SCOPE, record_input, scope_of


@contextmanager
def no_slot_free(world: JobWorld) -> Iterator[None]:
    """Other requests hold every admission slot."""
    release, held = threading.Event(), threading.Semaphore(0)

    def hold() -> None:
        world.slots.admit()
        held.release()
        release.wait()
        world.slots.give_back()

    threads = [threading.Thread(target=hold) for _ in range(world.slots.slot_count)]
    for thread in threads:
        thread.start()
    try:
        for _ in threads:
            held.acquire()
        yield
    finally:
        release.set()
        for thread in threads:
            thread.join()


def test_authority_before_admission(world: JobWorld) -> None:
    """With every slot taken, who may not is still told so: 401 and 403, not 503."""
    revoked, writer = world.issue(), world.issue(capabilities=("memory_write",))
    elsewhere = world.issue(grants=(scope_of(project_id="p2"),))
    world.revoke(revoked)
    create = CreateJob(spec_of(world.sources))
    with no_slot_free(world):
        assert reason_of(lambda: world.run(create, token=revoked)) == "unauthorized"
        assert reason_of(lambda: world.run(create, token=writer)) == "forbidden"
        assert reason_of(lambda: world.run(create, token=elsewhere)) == "forbidden"
        assert reason_of(lambda: world.query(token=elsewhere)) == "forbidden"
        assert reason_of(lambda: world.run(create)) == "retrieval_busy"


def test_admission_before_replay_and_look_up(world: JobWorld) -> None:
    """A receipt that exists, a key of another command and a job that does not exist all wait behind the slot."""
    create = CreateJob(spec_of(world.sources))
    world.run(create, "K")
    with no_slot_free(world):
        assert reason_of(lambda: world.run(create, "K")) == "retrieval_busy"
        assert reason_of(lambda: world.run(CancelJob(ABSENT, 1, "e"), "K")) == "retrieval_busy"
        for read in (lambda: world.inspect(ABSENT), lambda: world.history(ABSENT, 1), world.query):
            assert reason_of(read) == "retrieval_busy"
        assert reason_of(lambda: world.context(ABSENT, 1, ABSENT)) == "retrieval_busy"


def test_key_before_look_up(world: JobWorld) -> None:
    """A key of another command is told although the job does not exist, or belongs to somebody else."""
    world.run(CreateJob(spec_of(world.sources)), "K")
    foreign = world.new_job(token=world.issue(subject="other"))
    for job_id in (ABSENT, foreign):
        assert reason_of(lambda job_id=job_id: world.run(CancelJob(job_id, 9, "e"), "K")) == "idempotency_conflict"  # type: ignore[misc]


def test_revision_before_status_and_attempt(world: JobWorld) -> None:
    """A stale view of a job that would not allow the operation either is told to be stale."""
    job_id, fence = world.running_job()
    world.publish(job_id, fence)
    for command in (CancelJob(job_id, 2, "e"), ReconcileUsage(job_id, 2, 9, USAGE, "e")):
        assert reason_of(lambda command=command: world.run(command)) == "revision_conflict"  # type: ignore[misc]


def test_status_before_lease(world: JobWorld) -> None:
    """A job that is not running refuses its holder's verbs as such, whatever is presented."""
    job_id = world.new_job()
    for command in (RenewLease(job_id, 1, ABSENT), FailAttempt(job_id, 1, ABSENT, None, "e")):
        assert reason_of(lambda command=command: world.run(command)) == "invalid_request"  # type: ignore[misc]


def change_source(world: JobWorld) -> None:
    world.execute(UpdateRecord(world.sources[0].record_id, 1, record_input("changed")))


def test_lease_before_output_and_sources(world: JobWorld) -> None:
    """Who does not hold the lease learns nothing of a bad output or of sources that have changed."""
    job_id, _ = world.running_job()
    change_source(world)
    bad = assertion(world.sources[0], SourceRef(ABSENT, 1))
    with pytest.raises(Exception, match="the lease is not, or no longer, the caller's to use"):
        world.publish(job_id, ABSENT, bad)


def test_output_before_sources(world: JobWorld) -> None:
    """An output that no source could save is 400 although a source has changed too."""
    job_id, fence = world.running_job(max_relations=1)
    change_source(world)
    first, second = world.sources
    for bad in (
        (assertion(first, second),) * 2,
        (assertion(first, SourceRef(ABSENT, 1)),),
        (assertion(first, first),),
        (assertion(first, second, valid_from_millis=2, valid_until_millis=1),),
    ):
        assert reason_of(lambda bad=bad: world.publish(job_id, fence, *bad)) == "invalid_request"  # type: ignore[misc]


def test_sources_before_event_times(world: JobWorld) -> None:
    """Only sources that hold have event times to compare: 409 although the order is wrong too."""
    job_id, fence = world.running_job()
    change_source(world)
    first, second = world.sources
    assert reason_of(lambda: world.publish(job_id, fence, assertion(second, first, "temporal_before"))) == (
        "revision_conflict"
    )


Make = Callable[[JobWorld], Command]

WITHOUT_SOURCES: dict[str, tuple[int, Make]] = {
    "renew": (1, lambda world: RenewLease(*held(world))),
    "fail": (1, lambda world: FailAttempt(*held(world), None, "e")),
    "recover_expired": (LEASE_MS, lambda world: RecoverExpired(*held(world)[:2], "e")),
    "cancel": (1, lambda world: CancelJob(*held(world)[:2], "e")),
    "reconcile_usage": (1, lambda world: ReconcileUsage(failed(world), 3, 1, USAGE, "e")),
}


def held(world: JobWorld) -> tuple[str, int, str]:
    job_id, fence = world.running_job()
    return job_id, 2, fence


def failed(world: JobWorld) -> str:
    job_id, fence = world.running_job()
    world.fail(job_id, fence)
    return job_id


@pytest.mark.parametrize("name", WITHOUT_SOURCES)
def test_operations_that_ask_nothing_of_sources(world: JobWorld, name: str) -> None:
    """An attempt can be kept, closed and accounted for although its sources are gone."""
    after_ms, make = WITHOUT_SOURCES[name]
    command = make(world)
    world.clock.ms += after_ms
    for source in world.sources:
        world.execute(DeleteRecord(source.record_id, 1))
    assert world.run(command)["action"] == command.action


COMMANDS: list[Command] = [
    CreateJob(spec_of((SourceRef(ABSENT, 1), SourceRef(ABSENT, 2)))),
    ClaimJob(ABSENT, 1, "w"),
    RenewLease(ABSENT, 1, ABSENT),
    PublishJob(ABSENT, 1, ABSENT, (), None, "e"),
    FailAttempt(ABSENT, 1, ABSENT, None, "e"),
    RecoverExpired(ABSENT, 1, "e"),
    CancelJob(ABSENT, 1, "e"),
    ReconcileUsage(ABSENT, 1, 1, USAGE, "e"),
]


def another(value: Any) -> Any:
    """A value of the same kind that differs."""
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, tuple):
        return (*value, assertion(SourceRef(ABSENT, 1), SourceRef(ABSENT, 2)))
    return ReportedUsage(7, 7, 7)


def variants(command: Command) -> Iterator[Command]:
    """The command with each of its members changed, those of a specification one by one."""
    if isinstance(command, CreateJob):
        spec = command.spec
        for name in ("objective", "policy_ref", "max_relations", "max_attempts", "lease_millis", "max_attempt_millis"):
            yield CreateJob(replace(spec, **{name: another(getattr(spec, name))}))
        yield CreateJob(replace(spec, sources=spec.sources[::-1]))
        for name in ("origin", "method", "method_revision", "evidence_ref"):
            extractor = replace(spec.extractor, **{name: another(getattr(spec.extractor, name))})
            yield CreateJob(replace(spec, extractor=extractor))
        return
    for field in fields(command):
        yield replace(command, **{field.name: another(getattr(command, field.name))})


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.action)
def test_every_member_belongs_to_the_digest(command: Command) -> None:
    """Whatever member changes, it is another command under the same key, evidence that no job keeps included."""
    others = [command, *variants(command)]
    digests = {command_digest(CONSOLIDATION_FAMILY, other.normalized()) for other in others}
    assert len(others) == len(digests)


def test_evidence_of_a_cancellation_is_bound_to_its_key(world: JobWorld) -> None:
    """A cancelled job that was ready keeps the evidence nowhere; the key still belongs to exactly that evidence."""
    job_id = world.new_job()
    world.run(CancelJob(job_id, 1, "because"), "K")
    assert not any("because" in str(value) for value in (world.job(job_id), world.history(job_id, 2)))
    assert reason_of(lambda: world.run(CancelJob(job_id, 1, "another"), "K", scope=SCOPE)) == "idempotency_conflict"

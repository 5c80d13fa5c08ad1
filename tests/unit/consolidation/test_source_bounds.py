"""Bounds and failures of sources that no command can bring about any more: judged again wherever sources are needed.

A record at one revision never changes, so that most of this is written past the rules, as damage or a fault would.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from services.consolidation.commands import ClaimJob
from services.domain import keys, limits
from services.domain.eligibility import Failure, FailureReason
from services.domain.errors import StorageInconsistency
from services.domain.records import SourceRef
from services.domain.scope import workspace_for
from services.memory.commands import DeriveRecord
from services.storage.contract import Commit, Delete, PartitionCommit
from tests.harness.job_world import JobWorld, reason_of
from tests.harness.memory_world import SCOPE, START_MS, derivation, record_input

Json = dict[str, Any]
PARTITION = workspace_for("acme", SCOPE, "svc").partition


def rewrite(world: JobWorld, key: bytes, change: Callable[[Json], object]) -> None:
    """Change a stored value past all rules."""
    value = json.loads(world.rows()[key])
    change(value)
    world.put(PARTITION, key, json.dumps(value, sort_keys=True, separators=(",", ":")).encode())


def rewrite_record(world: JobWorld, source: SourceRef, **members: Any) -> None:
    rewrite(world, keys.record_key(source.record_id), lambda value: value.update(members))


def derived(world: JobWorld, *sources: SourceRef) -> SourceRef:
    receipt = world.execute(DeriveRecord(record_input("derived"), derivation(*sources)))
    return SourceRef(receipt["record_id"], 1)


def origin(*sources: SourceRef) -> Json:
    return derivation(*sources).as_json()


def delete_row(world: JobWorld, source: SourceRef) -> None:
    world.store.commit(Commit([PartitionCommit(PARTITION, writes=[Delete(keys.record_key(source.record_id))])]))


def reject(world: JobWorld, source: SourceRef) -> None:
    review = {
        "disposition": "rejected", "evidence_ref": "e", "reviewed_at_millis": START_MS,
        "author": {"credential_id": world.token.credential_id, "subject_id": "svc"},
    }  # fmt: skip
    rewrite_record(world, source, review=review)


def deepen(world: JobWorld, source: SourceRef) -> None:
    top = world.create("bottom")
    for _ in range(8):
        top = derived(world, top)
    rewrite_record(world, source, derivation=origin(top))


def widen(world: JobWorld, source: SourceRef) -> None:
    groups = [derived(world, *world.more_sources(15)) for _ in range(4)]
    rewrite_record(world, source, derivation=origin(*groups))


FAILURES: dict[FailureReason, tuple[Callable[[JobWorld, SourceRef], object], int | None]] = {
    "deleted": (lambda world, source: rewrite_record(world, source, payload=None), 1),
    "rejected": (reject, 1),
    "source_missing": (delete_row, None),
    "dependency_cycle": (lambda world, source: rewrite_record(world, source, derivation=origin(source)), None),
    "depth_limit": (deepen, None),
    "node_limit": (widen, None),
}


@pytest.mark.parametrize("reason", FAILURES)
def test_inspection_tells_each_reason(world: JobWorld, reason: FailureReason) -> None:
    """Whatever is wrong with a source, an inspection says so and is not refused; context, claim and publish are."""
    ready, (running, fence) = world.new_job(), world.running_job()
    spoil, actual_revision = FAILURES[reason]
    spoil(world, world.sources[1])
    failure = world.inspect(running).source_failure
    assert failure is not None
    assert (failure.reason, failure.actual_revision) == (reason, actual_revision)
    if not reason.endswith("_limit"):
        assert failure == Failure(world.sources[1].record_id, 1, actual_revision, reason)
    code = "invalid_request" if reason.endswith("_limit") else "revision_conflict"
    assert reason_of(lambda: world.context(running, 2, fence)) == code
    assert reason_of(lambda: world.publish(running, fence)) == code
    assert reason_of(lambda: world.run(ClaimJob(ready, 1, "w"))) == code


def grow(world: JobWorld, source: SourceRef, size: int) -> None:
    rewrite(
        world,
        keys.record_key(source.record_id),
        lambda value: value["payload"]["content"].update(primary="x" * size),
    )


def test_bytes_of_sources_at_every_step(world: JobWorld) -> None:
    """More than 8 MiB of sources are 400 at claim, context and publish too; an inspection does not carry them."""
    ready, (running, fence) = world.new_job(), world.running_job()
    for source in world.sources:
        grow(world, source, 4_200_000)
    assert reason_of(lambda: world.run(ClaimJob(ready, 1, "w"))) == "invalid_request"
    assert reason_of(lambda: world.context(running, 2, fence)) == "invalid_request"
    assert reason_of(lambda: world.publish(running, fence)) == "invalid_request"
    assert world.inspect(running).source_failure is None


@pytest.mark.parametrize(("over_bytes", "code"), [(0, None), (1, "invalid_request")])
def test_bytes_of_sources_to_the_byte(world: JobWorld, over_bytes: int, code: str | None) -> None:
    """Exactly 8 MiB of stored sources pass, one byte more does not."""
    job_id, fence = world.running_job()
    for source in world.sources:
        grow(world, source, 4_000_000)
    sizes = [len(world.rows()[keys.record_key(source.record_id)]) for source in world.sources]
    grow(world, world.sources[0], 4_000_000 + limits.RECORD_BYTES_MAX - sum(sizes) + over_bytes)
    if code is None:
        assert world.context(job_id, 2, fence).manifest.record_bytes == limits.RECORD_BYTES_MAX
    else:
        assert reason_of(lambda: world.context(job_id, 2, fence)) == code


def test_dependency_bytes_are_a_hard_limit(world: JobWorld) -> None:
    """More than 16 MiB below the sources are 400 everywhere, for an inspection too."""
    ancestors = world.more_sources(4)
    sources = (world.sources[0], derived(world, *ancestors))
    ready, (running, fence) = world.new_job(sources=sources), world.running_job(sources=sources)
    for ancestor in ancestors:
        grow(world, ancestor, 4_200_000)
    calls: list[Callable[[], object]] = [
        lambda: world.new_job(sources=sources),
        lambda: world.run(ClaimJob(ready, 1, "w")),
        lambda: world.context(running, 2, fence),
        lambda: world.publish(running, fence),
        lambda: world.inspect(running),
    ]
    for call in calls:
        assert reason_of(call) == "invalid_request"
    assert world.history(running, 2)[0].status == "running"


def test_a_job_under_the_key_of_another(world: JobWorld) -> None:
    """A stored job that does not belong to its key is a stored inconsistency, not somebody's job."""
    first, second = world.new_job(), world.new_job()
    rows = world.rows()
    world.put(PARTITION, keys.job_key("svc", first), rows[keys.job_key("svc", second)])
    world.put(PARTITION, keys.job_history_key("svc", first, 1), rows[keys.job_history_key("svc", second, 1)])
    for call in (
        lambda: world.inspect(first),
        lambda: world.run(ClaimJob(first, 1, "w")),
        lambda: world.history(first, 1),
    ):
        with pytest.raises(StorageInconsistency):
            call()

"""Sources of a job: exact, eligible and bounded at create, claim, context and publish; told at inspect."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from services.consolidation.commands import ClaimJob, CreateJob
from services.domain import keys
from services.domain.eligibility import DependencyWork, Failure
from services.domain.records import SourceRef
from services.domain.scope import workspace_for
from services.memory.commands import DeleteRecord, DeriveRecord, ReviewRecord, UpdateRecord
from tests.harness.job_world import ABSENT, JobWorld, assertion, member_of, reason_of, spec_of
from tests.harness.memory_world import SCOPE, START_MS, derivation, record_input, scope_of

Spoil = Callable[[JobWorld, SourceRef], object]

SPOILS: dict[str, Spoil] = {
    "updated": lambda world, source: world.execute(UpdateRecord(source.record_id, 1, record_input("new"))),
    "deleted": lambda world, source: world.execute(DeleteRecord(source.record_id, 1)),
    "rejected": lambda world, source: world.execute(ReviewRecord(source.record_id, 1, "rejected", "e")),
    "approved": lambda world, source: world.execute(ReviewRecord(source.record_id, 1, "approved", "e")),
}


def derived(world: JobWorld, *sources: SourceRef) -> SourceRef:
    receipt = world.execute(DeriveRecord(record_input("derived"), derivation(*sources)))
    return SourceRef(receipt["record_id"], 1)


@pytest.mark.parametrize("spoil", SPOILS)
def test_changed_source(world: JobWorld, spoil: str) -> None:
    """A source at another revision is 409 wherever sources are needed, and told by inspection as such."""
    ready, (running, fence) = world.new_job(), world.running_job()
    source = world.sources[1]
    SPOILS[spoil](world, source)
    assert reason_of(lambda: world.new_job()) == "revision_conflict"
    assert reason_of(lambda: world.run(ClaimJob(ready, 1, "w"))) == "revision_conflict"
    assert reason_of(lambda: world.context(running, 2, fence)) == "revision_conflict"
    assert reason_of(lambda: world.publish(running, fence, assertion(*world.sources))) == "revision_conflict"
    expected = Failure(source.record_id, 1, 2, "source_revision_changed")
    assert {expected} == {world.inspect(job_id).source_failure for job_id in (ready, running)}
    assert (world.job(ready).revision, world.job(running).revision) == (1, 2)


def test_expired_source(world: JobWorld) -> None:
    """Plain expiry makes the same refusals, from the first instant at which the source is no longer valid."""
    sources = (world.create(valid_until_millis=START_MS + 100), world.sources[0])
    job_id, fence = world.running_job(sources=sources)
    world.clock.ms = START_MS + 99
    assert world.inspect(job_id).source_failure is None
    world.clock.ms = START_MS + 100
    assert world.inspect(job_id).source_failure == Failure(sources[0].record_id, 1, 1, "expired")
    assert reason_of(lambda: world.context(job_id, 2, fence)) == "revision_conflict"
    assert reason_of(lambda: world.publish(job_id, fence)) == "revision_conflict"


def test_absent_source(world: JobWorld) -> None:
    """A manifest that names no record is 409 at create, like one that names another revision."""
    for reference in (SourceRef(ABSENT, 1), SourceRef(world.sources[1].record_id, 2)):
        command = CreateJob(spec_of((world.sources[0], reference)))
        assert reason_of(lambda command=command: world.run(command)) == "revision_conflict"  # type: ignore[misc]
        assert member_of(lambda command=command: world.run(command)) == "operation.spec.sources"  # type: ignore[misc]


def test_source_in_another_scope(world: JobWorld) -> None:
    """A record of another scope is as good as absent."""
    command = CreateJob(spec_of(world.sources))
    assert reason_of(lambda: world.run(command, scope=scope_of(project_id="p2"))) == "revision_conflict"


def test_ancestor_that_changes(world: JobWorld) -> None:
    """A job over a derived record falls with an ancestor of it."""
    ancestor = world.create("ancestor")
    middle = derived(world, ancestor)
    top = derived(world, middle)
    job_id, fence = world.running_job(sources=(world.sources[0], top))
    world.execute(DeleteRecord(ancestor.record_id, 1))
    assert world.inspect(job_id).source_failure == Failure(ancestor.record_id, 1, 2, "source_revision_changed")
    assert reason_of(lambda: world.publish(job_id, fence)) == "revision_conflict"


@pytest.mark.parametrize("changes", ["source", "ancestor"])
def test_change_between_check_and_commit(world: JobWorld, changes: str) -> None:
    """A source, or an ancestor of one, that changes right before the commit stops the whole publication."""
    ancestor = world.create("ancestor")
    sources = (world.sources[0], derived(world, ancestor))
    job_id, fence = world.running_job(sources=sources)
    changed = sources[0] if changes == "source" else ancestor

    def change() -> None:
        world.execute(UpdateRecord(changed.record_id, 1, record_input("meanwhile")))

    world.traffic.before_commit = change
    assert reason_of(lambda: world.publish(job_id, fence, assertion(*sources))) == "revision_conflict"
    assert not any(key.startswith(keys.RELATION) for key in world.rows())
    assert world.job(job_id).status == "running"


def test_first_failure_in_manifest_order(world: JobWorld) -> None:
    """Inspection names the first source that fails in manifest order, for every status."""
    sources = world.more_sources(3)
    job_id = world.new_job(sources=(sources[2], sources[0], sources[1]))
    for source in sources[:2]:
        world.execute(DeleteRecord(source.record_id, 1))
    failure = world.inspect(job_id).source_failure
    assert failure is not None
    assert failure.record_id == sources[0].record_id


def test_dependency_work_counts_what_lies_below_the_sources(world: JobWorld) -> None:
    """The sources are the job's own records; only their sources are dependency work, each once."""
    ancestor = world.create("ancestor")
    size = len(world.rows()[keys.record_key(ancestor.record_id)])
    sources = (derived(world, ancestor), derived(world, ancestor))
    assert world.inspect(world.new_job()).dependency_work == DependencyWork(0, 0)
    assert world.inspect(world.new_job(sources=sources)).dependency_work == DependencyWork(1, size)


def chain(world: JobWorld, edges: int) -> SourceRef:
    top = world.create("bottom")
    for _ in range(edges):
        top = derived(world, top)
    return top


def test_depth_bound(world: JobWorld) -> None:
    """Eight derivation edges below a source pass; a ninth is a hard limit, 400, not a conflict."""
    deep = chain(world, 8)
    job_id, fence = world.running_job(sources=(world.sources[0], deep))
    assert world.publish(job_id, fence, assertion(world.sources[0], deep))["action"] == "published"
    # One level more can only be written past the rules of derivation.
    record_key = keys.record_key(world.sources[1].record_id)
    too_deep = world.rows()[record_key].replace(
        b'"derivation":null',
        b'"derivation":{"evidence_ref":"e","method":"m","method_revision":"1","sources":[{"record_id":"'
        + deep.record_id.encode()
        + b'","revision":1}]}',
    )
    world.put(workspace_for("acme", SCOPE, "svc").partition, record_key, too_deep)
    assert reason_of(lambda: world.new_job()) == "invalid_request"


def test_node_bound(world: JobWorld) -> None:
    """Sources and their ancestors are at most 64 distinct records together; one more is 400."""
    ancestors = world.more_sources(61)
    tops = tuple(derived(world, *ancestors[first : first + 15]) for first in range(0, 60, 15))
    assert world.new_job(sources=tops)
    wider = derived(world, *ancestors[45:])
    assert reason_of(lambda: world.new_job(sources=(*tops[:3], wider))) == "invalid_request"


def test_bytes_of_the_sources(world: JobWorld) -> None:
    """Sources of 8 MiB in all pass; more is 400, at create already, so that their context always fits."""
    text = "x" * 900_000
    sources = tuple(world.create(text) for _ in range(10))
    job_id, fence = world.running_job(sources=sources[:9])
    context = world.context(job_id, 2, fence)
    assert context.manifest.record_bytes == sum(record.size_bytes for record in context.manifest.records)
    assert reason_of(lambda: world.new_job(sources=sources)) == "invalid_request"


def test_context_is_the_manifest(world: JobWorld) -> None:
    """A worker gets exactly the sources in manifest order, with their bytes and clock; the job does not change."""
    sources = world.more_sources(3)
    manifest = (sources[1], sources[2], sources[0])
    job_id, fence = world.running_job(sources=manifest)
    world.clock.ms += 7
    context = world.context(job_id, 2, fence)
    found = [(record.state.record_id, record.state.revision) for record in context.manifest.records]
    assert [(source.record_id, source.revision) for source in manifest] == found
    assert context.evaluated_at_millis == START_MS + 7
    assert context.manifest.record_bytes == sum(record.size_bytes for record in context.manifest.records)
    assert context.job == world.job(job_id)


@pytest.mark.parametrize("status", ["ready", "published"])
def test_context_of_a_job_that_is_not_running(world: JobWorld, status: str) -> None:
    """There is no lease to use: 409, whatever the fence."""
    job_id, fence = world.running_job()
    if status == "ready":
        world.fail(job_id, fence)
    else:
        world.publish(job_id, fence)
    assert reason_of(lambda: world.context(job_id, 3, fence)) == "revision_conflict"
    assert reason_of(lambda: world.context(job_id, 2, fence)) == "revision_conflict"

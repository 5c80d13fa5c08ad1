"""Jobs while the store refuses writes for want of room: nothing of a step is there, and its key is free."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from services.consolidation.commands import CreateJob
from services.domain.errors import StorageFull
from services.domain.receipts import Receipt
from services.domain.scope import workspace_for
from tests.harness.job_world import JobWorld, assertion, reason_of, spec_of
from tests.harness.memory_world import SCOPE


@pytest.fixture
def world() -> Iterator[JobWorld]:
    """A world with two sources."""
    made = JobWorld()
    yield made
    made.close()


def _refuse() -> None:
    raise StorageFull("no room")


def test_a_publication_without_room_is_wholly_absent(world: JobWorld) -> None:
    """No relation, no history, no receipt; the lease is as it was, and the same publication is carried out later."""
    job_id, fence = world.running_job()
    first, second = world.sources
    partition = workspace_for("acme", SCOPE, "svc").partition
    before = world.partition_rows(partition)

    def publish() -> Receipt:
        return world.publish(job_id, fence, assertion(first, second), key="p")

    world.traffic.before_commit = _refuse
    assert reason_of(publish) == "storage_full"
    assert world.partition_rows(partition) == before
    assert publish()["job_id"] == job_id
    assert (world.job(job_id).status, world.job(job_id).revision) == ("published", 3)


def test_a_creation_without_room_leaves_its_key_free(world: JobWorld) -> None:
    """Another command may even use the key: nothing remembers the first."""
    world.traffic.before_commit = _refuse
    assert reason_of(lambda: world.run(CreateJob(spec_of(world.sources)), "k")) == "storage_full"
    receipt = world.run(CreateJob(spec_of(world.sources, objective="another")), "k")
    assert world.job(receipt["job_id"]).revision == 1

"""The directory of agents, as far as jobs fill it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from services.consolidation.commands import CancelJob, CreateJob
from services.domain import keys
from services.domain.scope import IDENTITY_PARTITION
from services.storage.contract import Commit, Delete, PartitionCommit
from tests.harness.job_world import ABSENT, JobWorld, reason_of, spec_of
from tests.harness.memory_world import SCOPE

AGENT = keys.agent_key("acme", SCOPE.agent_id)


def forget_agent(world: JobWorld) -> None:
    """As if nothing had been asked in the name of the agent before."""
    world.store.commit(Commit([PartitionCommit(IDENTITY_PARTITION, writes=[Delete(AGENT)])]))


def is_known(world: JobWorld) -> bool:
    return AGENT in world.partition_rows(IDENTITY_PARTITION)


REQUESTS: dict[str, tuple[Callable[[JobWorld], object], Callable[[JobWorld], object]]] = {
    "command": (
        lambda world: world.run(CreateJob(spec_of(world.sources))),
        lambda world: world.run(CancelJob(ABSENT, 1, "e")),
    ),
    "read": (lambda world: world.inspect(world.query().jobs[0].job_id), lambda world: world.inspect(ABSENT)),
}


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_success_registers_the_agent_and_a_refusal_does_not(world: JobWorld, kind: str) -> None:
    """Whoever is served in the name of an agent makes it known."""
    served, refused = REQUESTS[kind]
    world.new_job()
    forget_agent(world)
    assert reason_of(lambda: refused(world)) == "record_not_found"
    assert not is_known(world)
    served(world)
    assert is_known(world)

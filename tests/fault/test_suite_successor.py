"""A supervisor killed while its services work, and another one started at once in its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.harness import verdict
from tests.harness.fault_switches import FaultPoints
from tests.harness.suite import processes_of, running_suite
from tests.harness.workload import NO_BUSY_SLOTS, Workload

pytestmark = pytest.mark.fault


@pytest.mark.parametrize("point", ["storage.before_sync", pytest.param("memory.after_commit", marks=pytest.mark.deep)])
def test_a_new_suite_takes_over_at_once_whatever_the_former_was_doing(
    tmp_path: Path, scope: dict[str, Any], point: str
) -> None:
    """On the same store and the same port, though a service of the former suite stands still with calls in it."""
    points = FaultPoints(tmp_path)
    with running_suite(tmp_path, {**points.environment, **NO_BUSY_SLOTS}) as suite:
        load = Workload(suite, scope, point)
        try:
            load.grant(20)
            load.await_finished(0)
            points.arm(point)
            load.grant(40)
            points.await_paused(point)
            load.await_waiting_writes()
            supervisor_id = suite.kill_supervisor()
            suite.start(suite.port)
            assert [] == processes_of(supervisor_id)
            points.release(point)
            load.await_finished(0)
            load.settle()
            verdict.check_bytes(suite, load, scope)
            verdict.check_gateway(suite, load, scope)
            verdict.check_ordinary(suite, scope)
        finally:
            load.close()

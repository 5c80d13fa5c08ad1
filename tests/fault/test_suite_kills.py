"""Any process of a running suite killed at any moment under load: nothing acknowledged is lost, nothing is by half.

The deep test chooses its own seeds and prints them. `WAGGLE_KILL_SEED=N` repeats a choice of kills and commands; how
threads and processes interleave is the machine's.
"""

from __future__ import annotations

import os
import random
import secrets
from pathlib import Path
from typing import Any

import pytest

from tests.harness import verdict
from tests.harness.fault_switches import FaultPoints
from tests.harness.killer import ACTS, Killer, plan
from tests.harness.suite import processes_of, running_suite
from tests.harness.workload import NO_BUSY_SLOTS, Workload

pytestmark = pytest.mark.fault

SEED_VARIABLE = "WAGGLE_KILL_SEED"
ROUND_COUNT = 20
# What a process logs when something happens that it was not made for.
FAILURES = ("unexpected_failure", "failure", "close_failed", "commit_met_damage")
KILLS_PER_ROUND = 10
FAST_ACTS = (
    "kill storage",
    "kill at memory.after_commit",
    "kill retrieval",
    "kill at storage.before_sync",
    "kill identity and storage",
    "kill supervisor",
    "kill gateway",
    "kill at storage.after_sync",
)


def run_round(directory: Path, scope: dict[str, Any], seed: str, steps: list[tuple[str, int, int]]) -> None:
    """One suite, one workload, and a kill in each step; after every step the bytes are judged, at the end all else."""
    points = FaultPoints(directory)
    with running_suite(directory, {**points.environment, **NO_BUSY_SLOTS}) as suite:
        load = Workload(suite, scope, seed)
        killer = Killer(suite, load, points)
        try:
            for act, turn_count, after_count in steps:
                load.grant(turn_count)
                load.await_finished(turn_count - after_count)
                killer.perform(act)
                load.await_finished(0)
                verdict.check_bytes(suite, load, scope)
            load.settle()
            verdict.check_bytes(suite, load, scope)
            verdict.check_gateway(suite, load, scope)
            verdict.check_searches(suite, load, scope)
            verdict.check_ordinary(suite, scope)
            assert [] == killer.unexplained(load.interruptions)
            assert [] == [entry for event in FAILURES for entry in suite.events(event)]
        finally:
            load.close()
        assert suite.process is not None
        supervisor_id = suite.process.pid
        assert 0 == suite.stop()
        assert [] == processes_of(supervisor_id)
        verdict.check_stopped(suite, scope)


def test_no_acknowledged_write_is_lost_whatever_dies(tmp_path: Path, scope: dict[str, Any]) -> None:
    """One kill of each sort, at fixed points of progress."""
    generator = random.Random("fast")
    steps = [step for act in FAST_ACTS for step in plan(generator, [act], 1)]
    run_round(tmp_path, scope, "fast", steps)


@pytest.mark.deep
@pytest.mark.parametrize("number", range(ROUND_COUNT))
def test_random_kills_lose_nothing(tmp_path: Path, scope: dict[str, Any], number: int) -> None:
    """Ten kills a round, at random places and moments, and of every sort."""
    seed = os.environ.get(SEED_VARIABLE) or str(secrets.randbelow(1 << 32))
    # Shown when the test fails.
    print(f"to repeat: {SEED_VARIABLE}={seed} make test-all PYTEST='-n 0 {__file__}[{number}]'")  # noqa: T201
    steps = plan(random.Random(f"{seed}/{number}"), list(ACTS), KILLS_PER_ROUND)
    run_round(tmp_path, scope, f"{seed}/{number}", steps)

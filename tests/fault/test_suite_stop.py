"""A suite that is told to stop while it works: what it has begun it finishes, and nothing of it stays behind."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.harness import verdict
from tests.harness.suite import processes_of, running_suite
from tests.harness.workload import NO_BUSY_SLOTS, Workload

pytestmark = pytest.mark.fault

TURNS = 400


@pytest.mark.parametrize("number", [0, *(pytest.param(number, marks=pytest.mark.deep) for number in range(1, 10))])
def test_a_stop_under_load_answers_what_it_has_begun(tmp_path: Path, scope: dict[str, Any], number: int) -> None:
    """No request is answered with a 5xx, none is carried out without its answer, and every process ends by itself."""
    with running_suite(tmp_path, NO_BUSY_SLOTS) as suite:
        load = Workload(suite, scope, f"stop/{number}")
        try:
            load.grant(TURNS)
            load.await_finished(TURNS - random.Random(number).randint(20, 100))
            assert suite.process is not None
            supervisor_id = suite.process.pid
            load.stop_when_unanswered()
            assert 0 == suite.stop()
            load.end_clients()
            assert [] == processes_of(supervisor_id)
            assert [] == suite.events("killed")
            assert load.interruptions, "nobody asked while the suite stopped"
            assert [] == [interruption for interruption in load.interruptions if interruption.status is not None]
            rows = verdict.check_stopped(suite, scope)
            acknowledged = [command for client in load.clients for command in client.commands if command.receipt]
            assert {command.key for command in acknowledged if command.is_repeatable} == {
                receipt["idempotency_key"] for receipt in rows.receipts.values()
            }
            suite.start()
            load.settle()
            verdict.check_bytes(suite, load, scope)
            verdict.check_gateway(suite, load, scope)
            verdict.check_ordinary(suite, scope)
        finally:
            load.close()

"""A process that neither ends nor answers is replaced, and the suite goes on."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.harness.api import Api
from tests.harness.suite import SERVICES, Suite, is_running, running_suite, wait_until

pytestmark = pytest.mark.fault


OFTEN = ("storage",)


@pytest.mark.parametrize(
    "name", [*OFTEN, *(pytest.param(name, marks=pytest.mark.deep) for name in SERVICES if name not in OFTEN)]
)
def test_a_process_that_stands_still_is_replaced(tmp_path: Path, scope: dict[str, Any], name: str) -> None:
    """Stopped with SIGSTOP, it is killed after a few questions and another one started; the others are left alone.

    While storage stands still, nobody else is ready; they live nevertheless, and must not be taken for hung.
    """
    with running_suite(tmp_path, {"WAGGLE_LIVENESS_INTERVAL_S": "2"}) as suite, suite.client() as client:
        api = Api(client, scope)
        record = api.create("Acknowledged before the hang")
        others = _process_ids(suite, without=name)
        hung = suite.process_id(name)
        os.kill(hung, signal.SIGSTOP)
        wait_until(lambda: not is_running(hung), f"{name} has been killed")
        wait_until(lambda: suite.process_ids().get(name, [hung]) != [hung], f"{name} is started again")
        suite.wait_healthy()
        wait_until(lambda: api.get(record["record_id"]).status_code == 200, "memory is served again")
        assert [(name, hung)] == [(entry["process"], entry["pid"]) for entry in suite.events("process_hangs")]
        assert [name] == [entry["process"] for entry in suite.events("process_ended")]
        assert others == _process_ids(suite, without=name)


def _process_ids(suite: Suite, *, without: str) -> dict[str, list[int]]:
    return {name: found for name, found in suite.process_ids().items() if name != without}

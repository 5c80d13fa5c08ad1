"""An import that is interrupted by a kill and run again: nothing is missing, nothing is doubled."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness import builders, verdict
from tests.harness.fault_switches import STORAGE_POINTS, FaultPoints
from tests.harness.suite import Suite, wait_until

pytestmark = pytest.mark.fault

# One batch of an import is 1,024 commands.
RECORDS = 1500
LINKS = 500
STATED = {"provenance": builders.provenance_json(), "kind": "temporal_before"}
DEEP_POINTS = [pytest.param(point, marks=pytest.mark.deep) for point in STORAGE_POINTS if point != "storage.after_sync"]


def lines() -> list[dict[str, Any]]:
    """Commands of every family, each record before what refers to it."""
    found: list[dict[str, Any]] = []
    for number in range(RECORDS):
        record = builders.record_json(f"imported {number}", event_time_millis=number)
        found.append({"idempotency_key": f"record-{number}", "operation": {"type": "create", "record": record}})
        if number and number % (RECORDS // LINKS) == 0:
            ends = {"source": {"created_by": f"record-{number - 1}"}, "target": {"created_by": f"record-{number}"}}
            relation = {**STATED, **ends}
            vector = [1.0, float(number), 2.0]
            found += [
                {"idempotency_key": f"link-{number}", "operation": {"type": "assert", "relation": relation}},
                {
                    "idempotency_key": f"vector-{number}",
                    "created_by": f"record-{number}",
                    "space": builders.SPACE,
                    "vector": vector,
                },
            ]
    return found


class ImportProcess:
    """`waggle import file` as a process of its own."""

    def __init__(self, suite: Suite, scope: dict[str, Any], path: Path) -> None:
        names = ("--project", scope["project_id"], "--agent", scope["agent_id"], "--json")
        environment = {"WAGGLE_DATA_DIR": str(suite.data_directory), "WAGGLE_KEY": suite.writer_key}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "cli.main", "import", "file", str(path), *names],
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def result(self) -> tuple[int, dict[str, Any], str]:
        """Wait for its end: exit code, what it has printed as JSON, and what it has said."""
        output, said = self.process.communicate(timeout=120)
        return self.process.returncode, json.loads(output) if output else {}, said


@pytest.mark.parametrize("point", ["storage.after_sync", *DEEP_POINTS])
@pytest.mark.parametrize("victim", ["client", "memory", "storage"])
def test_an_interrupted_import_is_completed_by_running_it_again(
    armed_suite: Suite, fault_points: FaultPoints, scope: dict[str, Any], tmp_path: Path, victim: str, point: str
) -> None:
    """Killed during its second batch. What was durable is found again, and every reference leads to one record."""
    commands = lines()
    path = tmp_path / "commands.jsonl"
    path.write_text("\n".join(map(json.dumps, commands)), encoding="utf-8")
    fault_points.arm(point)
    first = ImportProcess(armed_suite, scope, path)
    fault_points.await_paused(point)
    fault_points.arm(point)
    fault_points.release(point)
    fault_points.await_paused(point)
    if victim == "client":
        first.process.kill()
        fault_points.release(point)
    else:
        os.kill(armed_suite.process_id(victim), signal.SIGKILL)
        fault_points.release(point)
    code, counts, said = first.result()
    if code == 0:
        # The memory service has outlived the absence of storage, so that the import did not notice.
        assert ("storage", len(commands)) == (victim, counts["committed"] + counts["replayed"])
    else:
        assert code == (-signal.SIGKILL if victim == "client" else 1), said
    ended: list[tuple[int, dict[str, Any], str]] = []

    def is_done() -> bool:
        ended.append(ImportProcess(armed_suite, scope, path).result())
        return ended[-1][0] == 0

    wait_until(is_done, "the import can be run again")
    counts = ended[-1][1]
    assert len(commands) == counts["committed"] + counts["replayed"]
    # One batch at least was durable.
    assert counts["replayed"] >= 1024
    armed_suite.wait_healthy()
    rows = verdict.check_partition(armed_suite, scope)
    keys = [receipt["idempotency_key"] for receipt in rows.receipts.values()]
    assert sorted(command["idempotency_key"] for command in commands) == sorted(keys)
    ids = {
        record["payload"]["content"]["primary"].removeprefix("imported "): record_id
        for record_id, record in rows.records.items()
    }
    assert {str(number) for number in range(RECORDS)} == set(ids)
    linked = {number for number in range(1, RECORDS) if number % (RECORDS // LINKS) == 0}
    assert sorted((ids[str(number - 1)], ids[str(number)]) for number in linked) == sorted(
        (relation["input"]["source"]["record_id"], relation["input"]["target"]["record_id"])
        for relation in rows.relations.values()
    )
    assert sorted((ids[str(number)], number) for number in linked) == sorted(
        (binding.receipt.record_id, int(binding.vector[1])) for binding in rows.bindings.values()
    )

"""One publication sent fifty times at once, with storage killed in the middle."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.harness import verdict
from tests.harness.api import Api
from tests.harness.documented_jobs import claimed
from tests.harness.documented_requests import Known
from tests.harness.fault_switches import STORAGE_POINTS, FaultPoints
from tests.harness.suite import Suite
from tests.harness.turn import Command
from tests.harness.workload import Workload

pytestmark = pytest.mark.fault

THREADS = 50


def known_pair(api: Api) -> Known:
    first, second = api.create("one"), api.create("two")
    return Known(api, first, second, second, "")


def publication(known: Known, held: dict[str, Any]) -> dict[str, Any]:
    found = {"source": known.first, "target": known.second, "kind": "same_entity", "evidence_ref": "seen"}
    usage = {"status": "unknown"}
    operation = {"type": "publish", **held, "assertions": [found, found], "usage": usage, "evidence_ref": "run"}
    return {"idempotency_key": "same", "operation": operation}


@pytest.mark.parametrize(
    "point", [pytest.param(point, marks=[] if "after" in point else pytest.mark.deep) for point in STORAGE_POINTS]
)
def test_fifty_publications_though_storage_dies(
    armed_suite: Suite, fault_points: FaultPoints, scope: dict[str, Any], point: str
) -> None:
    """All get the receipt of one whole publication, or all are refused because the restart has fenced the attempt."""
    with armed_suite.client() as http:
        known = known_pair(Api(http, scope))
        held = claimed(known)
        command = Command("memory/consolidation/commands", publication(known, held))
    load = Workload(armed_suite, scope, point, client_count=1)
    barrier = threading.Barrier(THREADS + 1)

    def send(_: int) -> tuple[int, dict[str, Any]]:
        barrier.wait()
        return load.answer(command)

    try:
        with ThreadPoolExecutor(THREADS) as pool:
            answers = [pool.submit(send, number) for number in range(THREADS)]
            fault_points.arm(point)
            barrier.wait()
            # Nobody else writes, so that it is the publication that stands there.
            fault_points.await_paused(point)
            armed_suite.kill("storage")
            fault_points.release(point)
            found = [answer.result() for answer in answers]
    finally:
        load.close()
    assert [found[0]] * THREADS == found
    rows = verdict.check_partition(armed_suite, scope)
    job = rows.jobs[held["job_id"]]
    status, document = found[0]
    if status == 200:
        assert point != "storage.before_batch"
        assert ("published", 3, 2) == (job["status"], job["revision"], len(rows.relations))
        assert document["receipt"] in rows.receipts.values()
    else:
        assert point != "storage.after_sync"
        assert (409, "revision_conflict") == (status, document["error"]["code"])
        assert ("running", 2, {}) == (job["status"], job["revision"], rows.relations)

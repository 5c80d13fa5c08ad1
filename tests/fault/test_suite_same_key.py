"""The same write sent many times at once, with storage killed in the middle: one effect, one receipt for everybody."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from services.domain.canonical_json import canonical_bytes
from tests.harness import builders, verdict
from tests.harness.api import Api
from tests.harness.fault_switches import STORAGE_POINTS, FaultPoints
from tests.harness.killer import Killer
from tests.harness.suite import Suite
from tests.harness.turn import Command
from tests.harness.workload import Workload

pytestmark = pytest.mark.fault

THREADS = 50
CommandMaker = Callable[[Api], Command]


def create_command(_api: Api) -> Command:
    operation = {"type": "create", "record": builders.record_json("one of fifty")}
    return Command("memory/commands", {"idempotency_key": "same", "operation": operation})


def attach_command(api: Api) -> Command:
    body = builders.attach_body(api.scope, api.create("bound")["record_id"], [1.0, 2.0, 3.0], key="same")
    return Command("memory/embeddings", body)


def review_command(api: Api) -> Command:
    command = {
        "contract_version": 1, "idempotency_key": "same", "record_id": api.create("reviewed")["record_id"],
        "expected_revision": 1, "disposition": "approved", "evidence_ref": "e",
    }  # fmt: skip
    return Command("memory/reviews", {"command": command})


def assert_command(api: Api) -> Command:
    return Command(
        "memory/relations/commands", builders.assert_body(api.scope, api.create("a"), api.create("b"), key="same")
    )


def job_command(api: Api) -> Command:
    spec = {
        "sources": [api.create("a"), api.create("b")],
        "objective": "o", "policy_ref": "p", "extractor": builders.provenance_json(),
        "max_relations": 2, "max_attempts": 1, "lease_millis": 900_000, "max_attempt_millis": 900_000,
    }  # fmt: skip
    operation = {"type": "create", "spec": spec}
    return Command("memory/consolidation/commands", {"idempotency_key": "same", "operation": operation})


EVERY = (create_command, attach_command, review_command, assert_command, job_command)


def send_together(
    suite: Suite, points: FaultPoints, scope: dict[str, Any], makers: Sequence[CommandMaker], point: str
) -> None:
    """Send each command from its share of the threads, kill storage at the point, and compare what everybody got."""
    with suite.client() as http:
        commands = [make(Api(http, scope)) for make in makers]
    load = Workload(suite, scope, point, client_count=1)
    barrier = threading.Barrier(THREADS + 1)

    def send(number: int) -> tuple[int, dict[str, Any]]:
        barrier.wait()
        return load.answer(commands[number % len(commands)])

    try:
        with ThreadPoolExecutor(THREADS) as pool:
            answers = [pool.submit(send, number) for number in range(THREADS)]
            points.arm(point)
            barrier.wait()
            Killer(suite, load, points).kill_armed(point)
            found = [answer.result() for answer in answers]
    finally:
        load.close()
    for number, answer in enumerate(found):
        assert found[number % len(commands)] == answer
    stored = [receipt for receipt in verdict.check_partition(suite, scope).receipts.values() if is_same(receipt)]
    assert sorted(map(canonical_bytes, stored)) == sorted(
        canonical_bytes(answer["receipt"]) for _, answer in found[: len(commands)]
    )


def is_same(receipt: dict[str, Any]) -> bool:
    return bool(receipt["idempotency_key"] == "same")


def test_fifty_clients_get_one_receipt_though_storage_dies(
    armed_suite: Suite, fault_points: FaultPoints, scope: dict[str, Any]
) -> None:
    """Of every family one command, ten times at once; the batch that holds them is lost with its answers."""
    send_together(armed_suite, fault_points, scope, EVERY, "storage.after_sync")


@pytest.mark.deep
@pytest.mark.parametrize("point", STORAGE_POINTS)
@pytest.mark.parametrize("maker", EVERY)
def test_fifty_clients_of_one_family(
    armed_suite: Suite, fault_points: FaultPoints, scope: dict[str, Any], maker: CommandMaker, point: str
) -> None:
    """The same for each family alone and each moment of the commit."""
    send_together(armed_suite, fault_points, scope, [maker], point)

"""A publication whose processes are killed at each step: wholly there or not at all, and its key tells which."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.harness import builders
from tests.harness.api import Api
from tests.harness.suite import Suite, running_suite, wait_until

pytestmark = pytest.mark.fault

# The publication is the third command of the service, and the sixth commit of the store: the writer's credential, two
# records and two commands come before it. What comes after a restart passes the point less often.
STEPS = {
    "consolidation.before_commit": (3, "service", None),
    "consolidation.after_commit": (3, "service", True),
    "storage.before_batch": (6, "storage", False),
    "storage.before_sync": (6, "storage", None),
    "storage.after_sync": (6, "storage", True),
}


@pytest.fixture(params=STEPS)
def step(request: pytest.FixtureRequest) -> str:
    """Where the process dies."""
    name: str = request.param
    return name


@pytest.fixture
def armed(step: str, tmp_path: Path) -> Iterator[Suite]:
    """A suite in which the process of the step dies during the publication."""
    passing = STEPS[step][0]
    with running_suite(tmp_path, {"WAGGLE_FAULT_POINTS": f"{step}=kill@{passing}"}) as suite:
        yield suite


def send(api: Api, body: dict[str, Any]) -> httpx.Response | None:
    """The answer, None when there was none."""
    try:
        return api.post("memory/consolidation/commands", body)
    except httpx.TransportError:
        return None


def body_of(operation: dict[str, Any], key: str = "") -> dict[str, Any]:
    return {"idempotency_key": key or builders.new_key("job"), "operation": operation}


def inspect(api: Api, job_id: str) -> dict[str, Any]:
    inspection: dict[str, Any] = api.expect("memory/consolidation/inspect", {"job_id": job_id})["inspection"]
    return inspection


def edges_from(api: Api, record: dict[str, Any]) -> int:
    walk = {"query": {"root_record_ids": [record["record_id"]], "direction": "both", "max_depth": 1}}
    return len(api.expect("memory/graph/typed", walk)["graph"]["edges"])


def test_publication_is_whole_or_absent(armed: Suite, step: str, scope: dict[str, Any]) -> None:
    """After the kill the key leads to one outcome: the receipt with everything, or a refusal with nothing."""
    _, dies, must_be_there = STEPS[step]
    with armed.client() as client:
        api = Api(client, scope)
        pair = [api.create("one"), api.create("two")]
        spec = {
            "sources": pair, "objective": "o", "policy_ref": "p", "extractor": builders.provenance_json(),
            "max_relations": 2, "max_attempts": 1, "lease_millis": 900_000, "max_attempt_millis": 900_000,
        }  # fmt: skip
        job_id = api.expect("memory/consolidation/commands", body_of({"type": "create", "spec": spec}))["receipt"][
            "job_id"
        ]
        claim = {"type": "claim", "job_id": job_id, "expected_revision": 1, "worker_id": "w"}
        api.expect("memory/consolidation/commands", body_of(claim))
        fence = inspect(api, job_id)["job"]["attempts"][0]["fence"]
        starts = len(armed.events("started"))
        publish = body_of(
            {
                "type": "publish", "job_id": job_id, "expected_revision": 2, "fence": fence,
                "assertions": [
                    {"source": pair[0], "target": pair[1], "kind": "supports", "evidence_ref": "e"},
                    {"source": pair[1], "target": pair[0], "kind": "supports", "evidence_ref": "e"},
                ],
                "usage": {"status": "unknown"}, "evidence_ref": "e",
            },
            "publication",
        )  # fmt: skip
        first = send(api, publish)
        wait_until(lambda: len(armed.events("started")) > starts, "the process is started again")
        armed.wait_healthy()

        answer = send(api, publish)
        assert answer is not None
        job = inspect(api, job_id)["job"]
        if answer.status_code == 200:
            assert first is None or first.status_code != 200 or first.json() == answer.json()
            assert (job["status"], job["revision"], len(job["output_receipts"])) == ("published", 3, 2)
            assert edges_from(api, pair[0]) == edges_from(api, pair[1]) == 2
            for receipt in job["output_receipts"]:
                found = {"relation_id": receipt["relation_id"], "revision": 1}
                history = api.expect("memory/relations/revision", found)["history"]
                assert history["receipt"] == receipt
            kept = api.expect("memory/consolidation/revision", {"job_id": job_id, "revision": 3})["history"]
            assert kept == {"job": job, "receipt": answer.json()["receipt"]}
        else:
            # Only a storage that was opened again fences an attempt.
            assert (answer.status_code, dies) == (409, "storage")
            assert (job["status"], job["revision"], job["output_receipts"]) == ("running", 2, [])
            assert edges_from(api, pair[0]) == 0
        if must_be_there is not None:
            assert (answer.status_code == 200) is must_be_there

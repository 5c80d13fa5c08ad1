"""The whole suite on a disk that fills up: writes are refused in the documented form, everything else goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from services.runtime.health_names import LIVENESS, WRITES
from services.storage.client import GrpcStore
from tests.harness import builders
from tests.harness.api import Api
from tests.harness.small_volume import fill, small_volume
from tests.harness.suite import Suite, make_suite

pytestmark = pytest.mark.fault

VOLUME_BYTES = 64 * 1024 * 1024
SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own for the data."""
    with small_volume(tmp_path / "volume", VOLUME_BYTES) as path:
        yield path


@pytest.fixture
def suite(volume: Path, tmp_path: Path) -> Iterator[Suite]:
    """A suite whose data lies there, while its log does not."""
    made = make_suite(volume)
    made.log = tmp_path / "suite.log"
    made.start()
    try:
        made.writer_key = made.issue("writer", ["memory_read", "memory_write", "memory_review"])
        yield made
    finally:
        made.stop()


def _healths(suite: Suite) -> tuple[int, ...]:
    with grpc.insecure_channel(suite.address("storage")) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        requests = [health_pb2.HealthCheckRequest(service=name) for name in (LIVENESS, "", WRITES)]
        return tuple(stub.Check(request, timeout=20).status for request in requests)


def _writes(api: Api, source: dict[str, Any], record: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """One write of each family, each under a key of its own."""
    review = {
        "contract_version": 1,
        "idempotency_key": "full-review",
        "record_id": record["record_id"],
        "expected_revision": 1,
        "disposition": "approved",
        "evidence_ref": "e",
    }
    common = {"contract_version": 1, "scope": api.scope}
    job = {"type": "create", "spec": builders.job_spec_json(source, record)}
    return [
        ("memory/commands", builders.create_body(api.scope, "written at last", key="full-create")),
        ("memory/embeddings", builders.attach_body(api.scope, record["record_id"], [1.0, 2.0], key="full-attach")),
        ("memory/relations/commands", builders.assert_body(api.scope, record, source, key="full-assert")),
        ("memory/consolidation/commands", {**common, "idempotency_key": "full-job", "operation": job}),
        ("memory/reviews", {"scope": api.scope, "command": review}),
    ]


def _assert_refused(response: httpx.Response) -> None:
    assert (response.status_code, response.headers["cache-control"]) == (503, "no-store"), response.text
    document = response.json()
    assert (document["contract_version"], document["error"]["code"]) == (1, "storage_full")
    assert "nothing was written" in document["error"]["message"]
    assert "same idempotency key" in document["error"]["message"]


def test_a_full_disk_stops_writes_and_nothing_else(suite: Suite, volume: Path) -> None:
    """Each kind of write is a 503 that wrote nothing; reads, searches and probes go on, and no process is restarted.

    With room again each command, sent again under its key, is carried out once.
    """
    with suite.client() as client:
        api = Api(client, builders.scope_json("full"))
        source, record = api.create("before the flood"), api.create("the ark")
        commands = _writes(api, source, record)
        processes = suite.process_ids()
        assert _healths(suite) == (SERVING, SERVING, SERVING)
        filler = fill(volume)
        for path, body in commands:
            _assert_refused(client.post(f"/api/v1/{path}", json=body))
        with suite.client(suite.admin_key) as administrator:
            credential = {"subject_id": "late", "capabilities": ["memory_read"], "grants": [api.scope]}
            _assert_refused(administrator.post("/api/v1/credentials", json={"contract_version": 1, "spec": credential}))
        search = {"mode": "lexical", "query": {"text": "flood", "limit": 5, "scan_bytes_limit": 8_388_608}}
        assert api.get(record["record_id"]).status_code == 200
        found = api.expect("memory/search/lexical", search)["page"]["hits"]
        assert [hit["record"]["record_id"] for hit in found] == [source["record_id"]]
        # Nobody knows this agent yet, and it cannot be entered now.
        stranger = Api(client, {**api.scope, "agent_id": "stranger"})
        for path, body in (("memory/search/lexical", search), ("memory/query", {"filter": {"limit": 1}})):
            assert stranger.scope == stranger.expect(path, body)["scope"]
        assert (suite.is_healthy(), _healths(suite)) == (True, (SERVING, SERVING, NOT_SERVING))
        with closing(GrpcStore(suite.address("storage"))) as store:
            assert (store.status().writable, store.status().disk_free_bytes) == (False, 0)
        filler.unlink()
        first, again = ([client.post(f"/api/v1/{path}", json=body) for path, body in commands] for _ in range(2))
        assert [200] * len(commands) == [answer.status_code for answer in first]
        assert [answer.json() for answer in first] == [answer.json() for answer in again]
        assert (suite.process_ids(), _healths(suite)) == (processes, (SERVING, SERVING, SERVING))

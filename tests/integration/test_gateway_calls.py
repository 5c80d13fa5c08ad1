"""From HTTP to gRPC and back: what travels with a call, what comes of failures, what a lost client leaves behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from services.domain.errors import RecordNotFound, RetrievalBusy, StorageInconsistency, WaggleError
from services.gateway.descriptors import Descriptors
from services.gateway.error_envelope import INTERNAL_TEXT
from services.gateway.settings import HttpLimits, address_variable
from services.runtime.status import STATUS_DETAILS_KEY, status_from_error
from tests.harness.raw_http import TIMEOUT_S, RawConnection, RawResponse, request_bytes
from tests.harness.running_gateway import FOUND_NOTHING, HEALTHY, SCOPE, ScriptedBackend, answering, running_gateway

ROOT = Path(__file__).resolve().parents[2]
BATCH = "/api/v1/memory/records/batch"
LEXICAL = "/api/v1/memory/search/lexical"
RECORD = "/api/v1/memory/records/7d1f7b2e-9c1a-4d55-8d0e-0f3f5a3c9b11"
SCOPE_JSON = {"project_id": "p", "agent_id": "a", "visibility": "shared"}
SEARCH_BODY = json.dumps(
    {"contract_version": 1, "scope": SCOPE_JSON, "mode": "lexical", "query": {"text": "x", "limit": 1}}
).encode()


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[ScriptedBackend]:
    started = ScriptedBackend(tmp_path)
    yield started
    started.stop()


@pytest.fixture
def port(backend: ScriptedBackend) -> Iterator[int]:
    with running_gateway(backend.address, HttpLimits(drain_s=2.0)) as bound:
        yield bound


def fetch(port: int, request: bytes) -> RawResponse:
    with RawConnection(port) as connection:
        connection.send(request)
        return connection.receive()


def refusing(error: WaggleError) -> Any:
    """An answer that fails as a service does."""

    def answer(request: Any, context: grpc.ServicerContext) -> dict[str, Any]:
        code, message, details = status_from_error(error)
        context.set_trailing_metadata(((STATUS_DETAILS_KEY, details),))
        context.abort(code, message)
        raise AssertionError("abort raises")

    return answer


def test_credential_request_id_and_deadline_travel_with_the_call(port: int, backend: ScriptedBackend) -> None:
    """The credential as it came, the client's request id, and the deadline of the route."""
    headers = ("Authorization: Bearer qdb1_x", "X-Request-Id: req-1")
    response = fetch(port, request_bytes("POST", LEXICAL, SEARCH_BODY, headers=headers))
    assert response.status == 200
    assert backend.metadata["authorization"] == "Bearer qdb1_x"
    assert backend.metadata["x-request-id"] == response.headers["x-request-id"] == "req-1"
    assert backend.time_remaining_s is not None
    assert 0 < backend.time_remaining_s < 11  # the wire rounds a deadline up a little


def test_health_does_not_wait_as_long_as_other_routes(port: int, backend: ScriptedBackend) -> None:
    """A probe hears within two seconds, in the documented envelope, that what answers it is away."""
    assert fetch(port, request_bytes("GET", "/health")).status == 200
    assert backend.time_remaining_s is not None
    assert 0 < backend.time_remaining_s < 3  # the wire rounds a deadline up a little
    backend.stop()
    response = fetch(port, request_bytes("GET", "/health"))
    assert (response.status, response.code) == (500, "internal_error")
    assert response.headers["cache-control"] == "no-store"


def test_an_unusable_request_id_is_replaced(port: int, backend: ScriptedBackend) -> None:
    """Every call has an id; one that could break a log line is not taken over."""
    response = fetch(port, request_bytes("GET", "/health", headers=('X-Request-Id: a"b c',)))
    assert response.headers["x-request-id"] == backend.metadata["x-request-id"]
    assert '"' not in response.headers["x-request-id"]


def test_a_missing_credential_is_the_services_to_judge(port: int, backend: ScriptedBackend) -> None:
    """Shape first, then authority, as over gRPC: the call goes out without the metadata."""
    fetch(port, request_bytes("POST", LEXICAL, SEARCH_BODY))
    assert backend.method_names == ["SearchLexical"]
    assert "authorization" not in backend.metadata


def test_declared_headers_come_from_the_calls_metadata(port: int, backend: ScriptedBackend) -> None:
    """Under their documented names; metadata that the route does not declare stays inside."""

    def answer(request: Any, context: grpc.ServicerContext) -> dict[str, Any]:
        context.set_trailing_metadata(
            (("x-qilbee-scanned-records", "7"), ("x-qilbee-scanned-bytes", "900"), ("x-internal", "secret"))
        )
        return FOUND_NOTHING

    backend.answers["SearchLexical"] = answer
    response = fetch(port, request_bytes("POST", LEXICAL, SEARCH_BODY))
    assert response.headers["x-qilbee-scanned-records"] == "7"
    assert response.headers["x-qilbee-scanned-bytes"] == "900"
    assert "x-internal" not in response.headers


def test_the_path_and_the_query_make_the_request(port: int, backend: ScriptedBackend) -> None:
    """A GET route is bound from its parameters."""
    query = "?contract_version=1&project_id=p%20q&agent_id=a&visibility=private"
    fetch(port, request_bytes("GET", RECORD + query))
    ((name, request),) = backend.requests
    assert name == "GetRecord"
    assert (request.record_id, request.project_id, request.visibility) == (RECORD.rsplit("/", 1)[1], "p q", 1)


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (RecordNotFound("no such record"), 404, "record_not_found"),
        (RetrievalBusy("all slots are busy"), 503, "retrieval_busy"),
        (StorageInconsistency("a digest differs"), 500, "storage_inconsistency"),
    ],
)
def test_a_services_refusal_becomes_the_envelope(
    port: int, backend: ScriptedBackend, error: WaggleError, status: int, code: str
) -> None:
    """Status, code and message as documented; nothing is retried."""
    backend.answers["SearchLexical"] = refusing(error)
    response = fetch(port, request_bytes("POST", LEXICAL, SEARCH_BODY))
    assert (response.status, response.code) == (status, code)
    assert response.json["error"]["message"] == error.message
    assert response.headers["cache-control"] == "no-store"
    assert "retry-after" not in response.headers
    assert backend.method_names == ["SearchLexical"]


def test_an_unexpected_failure_says_nothing(port: int, backend: ScriptedBackend) -> None:
    """A crash in the service is a 500 with a fixed text."""

    def crash(request: Any, context: grpc.ServicerContext) -> dict[str, Any]:
        raise RuntimeError("secret detail")

    backend.answers["SearchLexical"] = crash
    response = fetch(port, request_bytes("POST", LEXICAL, SEARCH_BODY))
    assert response.status == 500
    assert response.json["error"] == {"code": "internal_error", "message": INTERNAL_TEXT}


def test_an_answer_without_a_documented_form_is_a_500(port: int, backend: ScriptedBackend) -> None:
    """An enum that the service left unset is never written as something else."""
    backend.answers["GetHealth"] = answering(contract_version=1)
    response = fetch(port, request_bytes("GET", "/health"))
    assert (response.status, response.code) == (500, "internal_error")


def test_u64_values_travel_digit_for_digit(port: int, backend: ScriptedBackend) -> None:
    """2^63 + 1 in, 2^64 - 1 out."""
    credential = {"id": "c", "tenant_id": "t", "revision": 2**64 - 1}
    backend.answers["RotateCredential"] = answering(contract_version=1, credential=credential)
    body = b'{"contract_version":1,"expected_revision":9223372036854775809}'
    response = fetch(port, request_bytes("POST", "/api/v1/credentials/c/rotate", body))
    assert b'"revision":18446744073709551615' in response.body
    assert backend.requests[0][1].expected_revision == 2**63 + 1


def test_a_client_that_leaves_cancels_its_call(port: int, backend: ScriptedBackend) -> None:
    """The service learns that nobody waits; the gateway goes on."""
    entered, cancelled = threading.Event(), threading.Event()

    def wait(request: Any, context: grpc.ServicerContext) -> dict[str, Any]:
        context.add_callback(cancelled.set)
        entered.set()
        cancelled.wait(TIMEOUT_S)
        return {}

    backend.answers["SearchLexical"] = wait
    with RawConnection(port) as leaving:
        leaving.send(request_bytes("POST", LEXICAL, SEARCH_BODY))
        assert entered.wait(TIMEOUT_S)
    assert cancelled.wait(TIMEOUT_S)
    assert fetch(port, request_bytes("GET", "/health")).status == 200


def test_a_restarted_service_is_waited_for(port: int, backend: ScriptedBackend) -> None:
    """A request that comes while the service is away is answered when it is back."""
    assert fetch(port, request_bytes("GET", "/health")).status == 200
    backend.stop()
    with RawConnection(port) as waiting:
        waiting.send(request_bytes("GET", "/health"))
        backend.start()
        assert waiting.receive().status == 200


def test_a_call_lost_in_the_service_is_an_internal_error(port: int, backend: ScriptedBackend) -> None:
    """It was sent, so its effect is unknown: it is not repeated."""
    entered = threading.Event()

    def wait(request: Any, context: grpc.ServicerContext) -> dict[str, Any]:
        entered.set()
        lost = threading.Event()
        context.add_callback(lost.set)
        lost.wait(TIMEOUT_S)
        return {}

    backend.answers["SearchLexical"] = wait
    with RawConnection(port) as connection:
        connection.send(request_bytes("POST", LEXICAL, SEARCH_BODY))
        assert entered.wait(TIMEOUT_S)
        backend.stop()
        response = connection.receive()
    assert (response.status, response.code) == (500, "internal_error")
    assert backend.method_names == ["SearchLexical"]
    backend.start()


def test_the_largest_answers_arrive_and_others_go_on(port: int, backend: ScriptedBackend) -> None:
    """An answer of 24 MB, far over gRPC's own default, comes whole while health is answered."""
    record = {"record_id": "r", "payload": {"episode_type": {"standard": 1}, "content": {"primary": "x" * 250_000}}}
    entries = [{"record_id": "r", "record": record}] * 100
    released = threading.Event()

    def answer(request: Any, context: grpc.ServicerContext) -> dict[str, Any]:
        released.wait(TIMEOUT_S)
        return {"contract_version": 1, "scope": SCOPE, "batch": {"entries": entries}}

    backend.answers["BatchReadRecords"] = answer
    body = json.dumps({"contract_version": 1, "scope": SCOPE_JSON, "record_ids": ["r"]}).encode()
    with RawConnection(port) as connection:
        connection.send(request_bytes("POST", BATCH, body))
        released.set()
        assert fetch(port, request_bytes("GET", "/health")).status == 200
        response = connection.receive()
    assert response.status == 200
    assert len(response.body) > 24_000_000
    assert len(response.json["batch"]["entries"]) == 100


def test_an_answer_over_the_message_limit_is_an_internal_error(port: int, backend: ScriptedBackend) -> None:
    """64 MiB is the most that a service may answer; beyond it is its fault, not the caller's."""
    backend.answers["GetHealth"] = answering(**{**HEALTHY, "version": "x" * (65 * 2**20)})
    response = fetch(port, request_bytes("GET", "/health"))
    assert (response.status, response.code) == (500, "internal_error")


def test_a_large_vector_body_arrives(port: int, backend: ScriptedBackend) -> None:
    """32,768 numbers, coded away from the event loop."""
    vector = [((7 * at) % 1000) / 997 - 0.5 for at in range(32_768)]
    document = {
        "contract_version": 1,
        "scope": SCOPE_JSON,
        "query": {
            "space": {"provider": "p", "model": "m", "revision": "1", "dimensions": 32_768},
            "vector": vector,
            "limit": 1,
        },
    }
    response = fetch(port, request_bytes("POST", "/api/v1/memory/search", json.dumps(document).encode()))
    assert response.status == 200
    assert list(backend.requests[0][1].query.vector) == vector


def gateway_process(backend: ScriptedBackend, *arguments: str) -> subprocess.Popen[str]:
    packages = {service.file.package for service in Descriptors.load().services()}
    environment = {**os.environ, **{address_variable(package): backend.address for package in packages}}
    return subprocess.Popen(
        [sys.executable, "-m", "services.gateway", *arguments],
        cwd=ROOT,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )


def read_event(process: subprocess.Popen[str], event: str) -> dict[str, Any]:
    """Read the log up to the line of an event."""
    assert process.stderr is not None
    for line in process.stderr:
        entry: dict[str, Any] = json.loads(line)
        if entry["event"] == event:
            return entry
    raise AssertionError(f"the process ended before {event}")


def test_sigterm_lets_running_requests_finish(backend: ScriptedBackend) -> None:
    """The port is logged, a running request is answered, new connections are refused, the exit code is 0."""
    entered, release = threading.Event(), threading.Event()

    def wait(request: Any, context: grpc.ServicerContext) -> dict[str, Any]:
        entered.set()
        release.wait(TIMEOUT_S)
        return FOUND_NOTHING

    backend.answers["SearchLexical"] = wait
    with gateway_process(backend, "--listen", "127.0.0.1:0") as process:
        port = read_event(process, "listening")["port"]
        with RawConnection(port) as idle, RawConnection(port) as running:
            running.send(request_bytes("POST", LEXICAL, SEARCH_BODY, headers=("Authorization: Bearer qdb1_secret",)))
            assert entered.wait(TIMEOUT_S)
            process.send_signal(signal.SIGTERM)
            assert idle.is_closed_by_server()
            with pytest.raises(OSError):  # noqa: PT012 - the listener closes a moment before or after
                while True:
                    socket.create_connection(("127.0.0.1", port), TIMEOUT_S).close()
            release.set()
            response = running.receive()
            assert (response.status, response.headers["connection"]) == (200, "close")
        assert process.stderr is not None
        log = process.stderr.read()
        assert process.wait(TIMEOUT_S) == 0
    assert "secret" not in log


def test_a_request_that_outlasts_the_drain_gets_the_envelope(backend: ScriptedBackend) -> None:
    """It is cancelled in the service and refused as any other failure, not cut off."""
    entered, cancelled = threading.Event(), threading.Event()

    def wait(request: Any, context: grpc.ServicerContext) -> dict[str, Any]:
        context.add_callback(cancelled.set)
        entered.set()
        cancelled.wait(TIMEOUT_S)
        return {}

    backend.answers["SearchLexical"] = wait
    with running_gateway(backend.address, HttpLimits(drain_s=1.0)) as port:
        connection = RawConnection(port)
        connection.send(request_bytes("POST", LEXICAL, SEARCH_BODY))
        assert entered.wait(TIMEOUT_S)
    with connection:
        response = connection.receive()
    assert (response.status, response.code) == (500, "internal_error")
    assert response.headers["cache-control"] == "no-store"
    assert cancelled.wait(TIMEOUT_S)


def test_a_bad_setting_ends_the_process_with_its_name(backend: ScriptedBackend) -> None:
    """The operator reads what to change; the exit code is that of a process that cannot start."""
    with gateway_process(backend, "--listen", "nowhere") as process:
        assert "nowhere" in read_event(process, "cannot_start")["message"]
        assert process.wait(TIMEOUT_S) == 3


def test_a_taken_port_ends_the_process(backend: ScriptedBackend) -> None:
    """Two gateways never share a port without notice."""
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        gateway_process(backend, "--listen", f"127.0.0.1:{taken.getsockname()[1]}") as process,
    ):
        read_event(process, "cannot_start")
        assert process.wait(TIMEOUT_S) == 3

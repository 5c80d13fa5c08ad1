"""The gRPC server that every service runs in, over a real socket."""

from __future__ import annotations

import stat
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from services.domain.errors import InvalidRequest, RecordNotFound, UnsupportedContractVersion
from services.runtime.call_context import outgoing_metadata, remaining_s
from services.runtime.channel import open_channel
from services.runtime.health import LIVENESS
from services.runtime.server import Registry, RunningServer
from services.runtime.start_failure import CannotStart
from services.runtime.status import RpcFailure, error_from_rpc
from services.runtime.transport import MESSAGE_BYTES_MAX
from tests.harness.silent_streams import silent_streams
from waggle.identity.v1 import identity_service_pb2, identity_service_pb2_grpc
from waggle.storage.v1 import storage_service_pb2, storage_service_pb2_grpc

THREADS = 6
SECRET_DETAIL = "what really happened"


class Storage(storage_service_pb2_grpc.StorageServiceServicer):
    """Answers, or fails in the way that the snapshot id names; "wait" waits for the gate first."""

    def __init__(self) -> None:
        self.gate = threading.Event()

    def Read(self, request: Any, context: grpc.ServicerContext) -> Any:
        match request.snapshot_id:
            case "wait":
                self.gate.wait(20)
            case "typed":
                raise RecordNotFound("no such record", member="record_id")
            case "unexpected":
                raise RuntimeError(SECRET_DETAIL)
            case "failure":
                raise RpcFailure(grpc.StatusCode.ABORTED, "run it again")
            case "abort":
                context.abort(grpc.StatusCode.OUT_OF_RANGE, "the servicer's own words")
            case "context":
                text = f"{dict(outgoing_metadata())['x-request-id']} {remaining_s(1000.0) <= 60.0}"
                return storage_service_pb2.ReadResponse(incarnation=text)
        return storage_service_pb2.ReadResponse(sequence=7)

    def ChangedSince(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        yield storage_service_pb2.ChangedSinceResponse()
        raise RecordNotFound("gone in the middle")


class Identity(identity_service_pb2_grpc.IdentityServiceServicer):
    """Answers whatever passes validation."""

    def IssueCredential(self, request: Any, context: grpc.ServicerContext) -> Any:
        return identity_service_pb2.IssueCredentialResponse(contract_version=1)


@dataclass
class Running:
    """A server, a channel to it, and what it consults."""

    server: RunningServer
    channel: grpc.Channel
    ready: threading.Event
    gate: threading.Event
    closed: list[str] = field(default_factory=list)

    @property
    def storage(self) -> Any:
        return storage_service_pb2_grpc.StorageServiceStub(self.channel)

    @property
    def health(self) -> Any:
        return health_pb2_grpc.HealthStub(self.channel)

    def status_of(self, call: Any) -> tuple[grpc.StatusCode, str]:
        with pytest.raises(grpc.RpcError) as caught:
            call()
        return caught.value.code(), caught.value.details()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    """A running server on a Unix socket."""
    ready = threading.Event()
    ready.set()
    closed: list[str] = []
    registry = Registry()
    registry.request_bytes_max = MESSAGE_BYTES_MAX
    registry.ready_when(ready.is_set)
    registry.on_close(lambda: closed.append("first registered"))
    registry.on_close(lambda: closed.append("last registered"))
    storage = Storage()
    registry.add(storage_service_pb2_grpc.add_StorageServiceServicer_to_server, storage)
    registry.add(identity_service_pb2_grpc.add_IdentityServiceServicer_to_server, Identity())
    address = f"unix:{tmp_path}/s.sock"
    server = RunningServer(registry, address, thread_count=THREADS)
    with open_channel(address) as channel:
        yield Running(server, channel, ready, storage.gate, closed)
    server.drain(0.1)


def read(running: Running, how: str) -> Any:
    return running.storage.Read(storage_service_pb2.ReadRequest(snapshot_id=how), timeout=10)


def test_answers_travel(running: Running) -> None:
    """An ordinary call is answered."""
    assert 7 == read(running, "").sequence


def test_the_socket_is_private(running: Running, tmp_path: Path) -> None:
    """Only the owner may connect."""
    assert 0o600 == stat.S_IMODE((tmp_path / "s.sock").stat().st_mode)


def test_a_typed_error_arrives_typed(running: Running) -> None:
    """Class, message and member survive the trip."""
    with pytest.raises(grpc.RpcError) as caught:
        read(running, "typed")
    error = error_from_rpc(caught.value)
    assert isinstance(error, RecordNotFound)
    assert ("no such record", "record_id") == (error.message, error.member)


def test_an_unexpected_error_tells_nothing_but_the_request_id(running: Running) -> None:
    """The trace is for the log; the caller gets something to quote."""
    with pytest.raises(grpc.RpcError) as caught:
        running.storage.Read(
            storage_service_pb2.ReadRequest(snapshot_id="unexpected"), metadata=(("x-request-id", "quote-me"),)
        )
    text = caught.value.details() + str(caught.value.trailing_metadata())
    assert grpc.StatusCode.INTERNAL == caught.value.code()
    assert "quote-me" in text
    assert SECRET_DETAIL not in text


def test_a_failure_keeps_its_code(running: Running) -> None:
    """Storage's ABORTED is what its client waits for."""
    assert (grpc.StatusCode.ABORTED, "run it again") == running.status_of(lambda: read(running, "failure"))


def test_a_servicer_may_abort_by_itself(running: Running) -> None:
    """GRPC's own abort passes through unchanged."""
    expected = (grpc.StatusCode.OUT_OF_RANGE, "the servicer's own words")
    assert expected == running.status_of(lambda: read(running, "abort"))


def test_a_method_that_is_not_there_is_unimplemented(running: Running) -> None:
    """A generated method that nobody wrote is not an internal error."""
    code, _ = running.status_of(lambda: running.storage.Commit(storage_service_pb2.CommitRequest()))
    assert grpc.StatusCode.UNIMPLEMENTED == code


def test_an_error_inside_a_stream_ends_it_typed(running: Running) -> None:
    """What was sent before the error arrives, then the error."""
    seen = []
    with pytest.raises(grpc.RpcError) as caught:
        seen.extend(running.storage.ChangedSince(storage_service_pb2.ChangedSinceRequest()))
    assert isinstance(error_from_rpc(caught.value), RecordNotFound)


def test_requests_are_validated_before_the_servicer_sees_them(running: Running) -> None:
    """Bounds and the contract version stand in the protos and hold for every service."""
    stub: Any = identity_service_pb2_grpc.IdentityServiceStub(running.channel)
    refusals = []
    for version in (1, 2):
        with pytest.raises(grpc.RpcError) as caught:
            stub.IssueCredential(identity_service_pb2.IssueCredentialRequest(contract_version=version))
        refusals.append(error_from_rpc(caught.value))
    assert [(InvalidRequest, "spec"), (UnsupportedContractVersion, "contract_version")] == [
        (type(refusal), getattr(refusal, "member", None)) for refusal in refusals
    ]


@pytest.mark.parametrize(
    ("method", "raw"),
    [
        ("Read", b"\xff\xff\xff"),
        ("Read", b"\x0a\x05ab"),
        ("Read", b"\x12\x02\xc3\x28"),
        ("ChangedSince", b"\xff\xff\xff"),
    ],
    ids=["noise", "cut short", "text that is not UTF-8", "streamed answer"],
)
def test_bytes_that_are_no_message_are_the_callers_fault(running: Running, method: str, raw: bytes) -> None:
    """Never INTERNAL, for plain calls and streamed answers, and protobuf's own words stay inside."""
    path = f"/waggle.storage.v1.StorageService/{method}"
    make = running.channel.unary_unary if method == "Read" else running.channel.unary_stream
    call = make(path, request_serializer=None, response_deserializer=None)
    with pytest.raises(grpc.RpcError) as caught:
        list(call(raw, timeout=10))
    error = error_from_rpc(caught.value)
    assert isinstance(error, InvalidRequest)
    assert "waggle" not in error.message


def test_request_id_and_deadline_reach_the_next_hop(running: Running) -> None:
    """A call made while serving a call carries its id and never waits longer than its caller."""
    answer = running.storage.Read(
        storage_service_pb2.ReadRequest(snapshot_id="context"), timeout=30, metadata=(("x-request-id", "r-9"),)
    )
    assert "r-9 True" == answer.incarnation


@pytest.mark.parametrize("service", ["", "waggle.storage.v1.StorageService", "waggle.identity.v1.IdentityService"])
def test_health_is_the_readiness_of_the_process(running: Running, service: str) -> None:
    """SERVING while the checks pass, NOT_SERVING while one does not, SERVING again afterwards."""
    request = health_pb2.HealthCheckRequest(service=service)
    states = [running.health.Check(request).status]
    running.ready.clear()
    states.append(running.health.Check(request).status)
    running.ready.set()
    states.append(running.health.Check(request).status)
    assert [health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING] * 2 == [
        *states,
        health_pb2.HealthCheckResponse.NOT_SERVING,
    ]


def test_health_of_an_unknown_service_is_not_found(running: Running) -> None:
    """A probe of the wrong process must not look healthy."""
    request = health_pb2.HealthCheckRequest(service="waggle.nobody.v1.Nobody")
    assert grpc.StatusCode.NOT_FOUND == running.status_of(lambda: running.health.Check(request))[0]


def test_a_process_that_is_not_ready_still_lives(running: Running) -> None:
    """Whoever ends hanging processes asks for "liveness", which another service's absence does not change."""
    running.ready.clear()
    answer = running.health.Check(health_pb2.HealthCheckRequest(service=LIVENESS))
    assert health_pb2.HealthCheckResponse.SERVING == answer.status


def test_a_process_whose_threads_all_work_still_answers_for_its_health(running: Running) -> None:
    """Busy is not hung: health has threads of its own."""
    try:
        calls = [
            running.storage.Read.future(storage_service_pb2.ReadRequest(snapshot_id="wait"), timeout=30)
            for _ in range(2 * THREADS)
        ]
        for name in ("", LIVENESS):
            answer = running.health.Check(health_pb2.HealthCheckRequest(service=name), timeout=20)
            assert health_pb2.HealthCheckResponse.SERVING == answer.status
        assert not any(call.done() for call in calls)
    finally:
        running.gate.set()
    assert [7] * len(calls) == [call.result().sequence for call in calls]


def test_a_watcher_sees_every_change(running: Running) -> None:
    """Watch streams the state now and when it changes."""
    watch = running.health.Watch(health_pb2.HealthCheckRequest(), timeout=20)
    first = next(watch).status
    running.ready.clear()
    second = next(watch).status
    watch.cancel()
    assert (health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING) == (first, second)


def test_reflection_lists_the_services(running: Running) -> None:
    """Grpcurl and its like can look around."""
    stub: Any = reflection_pb2_grpc.ServerReflectionStub(running.channel)
    requests = iter([reflection_pb2.ServerReflectionRequest(list_services="")])
    response = next(stub.ServerReflectionInfo(requests))
    names = {service.name for service in response.list_services_response.service}
    assert {"waggle.storage.v1.StorageService", "waggle.identity.v1.IdentityService"} <= names


def test_silent_streams_take_no_thread_of_calls(running: Running) -> None:
    """Reflection that is asked nothing, by more callers than there are threads."""
    reflect = reflection_pb2_grpc.ServerReflectionStub(running.channel).ServerReflectionInfo  # type: ignore[no-untyped-call]
    with silent_streams(reflect, 2 * THREADS):
        assert 7 == read(running, "").sequence


def test_a_drained_server_refuses_and_closes_in_reverse(running: Running) -> None:
    """After a drain nothing answers, and what was opened last was closed first."""
    running.server.drain(0.1)
    assert grpc.StatusCode.UNAVAILABLE == running.status_of(lambda: read(running, ""))[0]
    assert ["last registered", "first registered"] == running.closed


def test_an_address_in_use_is_said_so(running: Running, tmp_path: Path) -> None:
    """A port that is taken stops the start with a message."""
    first = RunningServer(Registry(), "127.0.0.1:0")
    with pytest.raises(CannotStart, match="cannot listen"):
        RunningServer(Registry(), f"127.0.0.1:{first.port}")
    first.drain(0.1)


def test_large_messages_pass(running: Running) -> None:
    """GRPC's own limit of 4 MiB is below documented answers; 32 MiB go through."""
    request = storage_service_pb2.ReadRequest(snapshot_id="x" * (32 * 1024 * 1024))
    assert 7 == running.storage.Read(request).sequence

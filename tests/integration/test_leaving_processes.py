"""Several processes behind one address: calls are spread, and none fails when a connection ages or a process leaves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from services.runtime.server import Registry, RunningServer
from services.runtime.transport import PLAIN, Transport
from tests.harness.certificates import issued_certificates
from tests.harness.suite import wait_until
from waggle.storage.v1 import storage_service_pb2 as pb
from waggle.storage.v1 import storage_service_pb2_grpc as pb_grpc

CALL_S = 20.0
THREADS = 4


class Named(pb_grpc.StorageServiceServicer):
    """Answers every read with its own name, and counts the connections that it is called on."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.peers: set[str] = set()
        self.may_go_on = threading.Event()

    def Read(self, request: Any, context: grpc.ServicerContext) -> Any:
        self.peers.add(context.peer())
        return pb.ReadResponse(incarnation=self.name)

    def ChangedSince(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        yield pb.ChangedSinceResponse()
        self.may_go_on.wait(CALL_S)
        yield pb.ChangedSinceResponse(last=True)


def serve(servicer: Named, port: int = 0, transport: Transport = PLAIN) -> RunningServer:
    registry = Registry()
    registry.add(pb_grpc.add_StorageServiceServicer_to_server, servicer)
    return RunningServer(registry, f"127.0.0.1:{port}", transport=transport)


class Load:
    """Threads that read through one channel all the time.

    Attributes:
        answers: Name -> how often it answered.
        failures: What calls failed with.
    """

    def __init__(self) -> None:
        self.answers: dict[str, int] = {}
        self.failures: list[grpc.RpcError] = []

    @contextmanager
    def running(self, channel: grpc.Channel) -> Iterator[Load]:
        stop = threading.Event()
        read: Any = pb_grpc.StorageServiceStub(channel).Read

        def call_on() -> None:
            while not stop.is_set():
                try:
                    name = read(pb.ReadRequest(), timeout=CALL_S, wait_for_ready=True).incarnation
                    self.answers[name] = self.answers.get(name, 0) + 1
                except grpc.RpcError as error:
                    self.failures.append(error)

        threads = [threading.Thread(target=call_on) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            stop.set()
            for thread in threads:
                thread.join()

    def await_answers(self, name: str, count: int) -> None:
        """Wait until a process has answered so often from now on."""
        before = self.answers.get(name, 0)
        wait_until(lambda: self.answers.get(name, 0) >= before + count, f"{name} has answered")


def several(*servers: RunningServer) -> str:
    """The address of them all."""
    return "ipv4:" + ",".join(f"127.0.0.1:{server.port}" for server in servers)


@pytest.fixture(params=["plain", "mutual TLS"])
def transport(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str, int], Transport]:
    """How a process connects, given its name and the age of its connections."""
    if request.param == "plain":
        return lambda _name, age_ms: Transport(connection_age_ms=age_ms)
    certificates = issued_certificates(tmp_path / "tls")
    return lambda name, age_ms: certificates.transport(name, age_ms=age_ms)


def test_calls_are_spread_over_all_processes() -> None:
    """One channel uses both."""
    first, second = serve(Named("first")), serve(Named("second"))
    try:
        with PLAIN.open_channel(several(first, second), "storage") as channel, Load().running(channel) as load:
            for name in ("first", "second"):
                load.await_answers(name, 10)
        assert [] == load.failures
    finally:
        first.drain(1.0)
        second.drain(1.0)


def test_connections_that_age_end_no_call(transport: Callable[[str, int], Transport]) -> None:
    """Under load, with connections of a few dozen milliseconds: callers connect again and again, and nothing fails."""
    servicer = Named("only")
    server = serve(servicer, transport=transport("storage", 40))
    try:
        address = f"127.0.0.1:{server.port}"
        with transport("memory", 40).open_channel(address, "storage") as channel, Load().running(channel) as load:
            wait_until(lambda: len(servicer.peers) > 20, "many connections were made")
        assert [] == load.failures
    finally:
        server.drain(1.0)


def test_a_long_stream_outlives_the_age_of_its_connection() -> None:
    """As long as it takes: a backup or an import is one call, and later calls have moved to other connections."""
    servicer = Named("only")
    server = serve(servicer, transport=Transport(connection_age_ms=40))
    try:
        with PLAIN.open_channel(f"127.0.0.1:{server.port}", "storage") as channel:
            stream: Any = pb_grpc.StorageServiceStub(channel).ChangedSince(pb.ChangedSinceRequest(), timeout=CALL_S)
            first = next(stream)
            with Load().running(channel) as load:
                wait_until(lambda: len(servicer.peers) > 10, "many connections were made")
            servicer.may_go_on.set()
            assert [False, True] == [first.last, next(stream).last]
        assert [] == load.failures
    finally:
        server.drain(1.0)


def test_processes_leave_and_return_one_after_the_other(transport: Callable[[str, int], Transport]) -> None:
    """Under load each of two leaves several times, with notice, and another takes its place: no call fails."""
    servers = {name: serve(Named(name), transport=transport("storage", 300_000)) for name in ("first", "second")}
    try:
        address = several(*servers.values())
        with transport("memory", 300_000).open_channel(address, "storage") as channel, Load().running(channel) as load:
            for name in ("first", "second") * 5:
                load.await_answers(name, 10)
                leaving = servers[name]
                leaving.announce_drain()
                # The notice has arrived when everybody else is asked.
                other = "second" if name == "first" else "first"
                load.await_answers(other, 100)
                leaving.drain()
                servers[name] = serve(Named(name), leaving.port or 0, transport("storage", 300_000))
        assert [] == load.failures
    finally:
        for server in servers.values():
            server.drain(1.0)

"""A gateway that is told to stop: it says so first, goes on for a while, and then ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from services.runtime.channel import open_channel
from tests.harness.ports import free_port
from tests.harness.raw_http import RawConnection, RawResponse, request_bytes
from tests.harness.running_gateway import ScriptedBackend
from tests.harness.suite import wait_until

ENOUGH_MS, ENOUGH_S = "60000", "60"
END_S = 20.0


class Gateway:
    """A gateway process with a long notice, before a scripted backend."""

    def __init__(self, directory: Path, settings: Mapping[str, str] = MappingProxyType({})) -> None:
        self.backend = ScriptedBackend(directory)
        self.probes = f"127.0.0.1:{free_port()}"
        names = ("IDENTITY", "MEMORY", "RETRIEVAL", "CONSOLIDATION")
        self.log = directory / "gateway.log"
        with self.log.open("w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "services.gateway", "--listen", "127.0.0.1:0"],
                env={
                    **os.environ,
                    **{f"WAGGLE_{name}_ADDRESS": self.backend.address for name in names},
                    "WAGGLE_HEALTH_LISTEN": self.probes,
                    "WAGGLE_DRAIN_NOTICE_MS": ENOUGH_MS,
                    **settings,
                },
                stderr=log,
            )
        wait_until(lambda: "listening" in self.log.read_text(encoding="utf-8"), "the gateway listens")
        lines = [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines() if line[0] == "{"]
        self.port = next(line["port"] for line in lines if line["event"] == "listening")

    def get(self, path: str) -> RawResponse:
        """GET on a connection of its own."""
        with RawConnection(self.port) as connection:
            connection.send(request_bytes("GET", path))
            return connection.receive()

    def listens(self) -> bool:
        """Whether it takes connections."""
        try:
            RawConnection(self.port).socket.close()
        except ConnectionRefusedError:
            return False
        return True

    def probe(self, name: str) -> int:
        """What the listener of the probes answers."""
        with open_channel(self.probes) as channel:
            request = health_pb2.HealthCheckRequest(service=name)
            return int(health_pb2_grpc.HealthStub(channel).Check(request, timeout=END_S, wait_for_ready=True).status)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.backend.stop()


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    """A running gateway."""
    running = Gateway(tmp_path)
    yield running
    running.stop()


def test_it_fails_health_and_goes_on_until_its_notice_is_over(gateway: Gateway) -> None:
    """Requests are answered as ever, on connections that end with them; a second signal cuts the notice short."""
    serving, not_serving = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
    wait_until(lambda: gateway.probe("") == serving, "it has reached its services")
    before = gateway.get("/openapi.json")
    gateway.process.send_signal(signal.SIGTERM)
    wait_until(lambda: gateway.get("/health").status != 200, "it says that it leaves")
    after = gateway.get("/openapi.json")
    assert ((500, "internal_error"), (not_serving, serving)) == (
        (gateway.get("/health").status, gateway.get("/health").code),
        (gateway.probe(""), gateway.probe("liveness")),
    )
    assert (200, before.body, None) == (after.status, after.body, before.headers.get("connection"))
    assert "close" == after.headers["connection"]
    gateway.process.send_signal(signal.SIGTERM)
    assert 0 == gateway.process.wait(END_S)


@pytest.mark.parametrize("has_been_used", [True, False])
@pytest.mark.parametrize("has_begun", [True, False])
def test_requests_that_are_on_their_way_are_answered(tmp_path: Path, has_been_used: bool, has_begun: bool) -> None:
    """A kept connection still takes a request, or the rest of one, when the gateway no longer takes connections."""
    gateway = Gateway(tmp_path, {"WAGGLE_DRAIN_NOTICE_MS": "0", "WAGGLE_GATEWAY_FAREWELL_S": ENOUGH_S})
    request = request_bytes("GET", "/openapi.json")
    at = 10 if has_begun else 0
    try:
        with RawConnection(gateway.port) as kept:
            if has_been_used:
                kept.send(request)
                assert 200 == kept.receive().status
            kept.send(request[:at])
            gateway.process.send_signal(signal.SIGTERM)
            wait_until(lambda: not gateway.listens(), "it no longer listens")
            kept.send(request[at:])
            answer = kept.receive()
            assert (200, "close") == (answer.status, answer.headers["connection"])
            assert 0 == gateway.process.wait(END_S)
    finally:
        gateway.stop()


def test_it_is_live_but_not_ready_before_a_service_was_reached(gateway: Gateway) -> None:
    """Ready follows from the first answer, and a service that is away later changes nothing."""
    serving = health_pb2.HealthCheckResponse.SERVING
    wait_until(lambda: gateway.probe("") == serving, "it has reached its services")
    gateway.backend.stop()
    wait_until(lambda: gateway.get("/health").status == 500, "the suite is not healthy")
    assert (serving, serving) == (gateway.probe(""), gateway.probe("liveness"))


def test_the_name_of_no_service_is_not_found(gateway: Gateway) -> None:
    """The listener answers for what there is."""
    with pytest.raises(grpc.RpcError) as caught:
        gateway.probe("waggle.nobody.v1.Nobody")
    assert grpc.StatusCode.NOT_FOUND == caught.value.code()

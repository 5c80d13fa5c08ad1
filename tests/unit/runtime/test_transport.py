"""One transport for all connections of a process: what it is given stands around every call, both ways."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from services.runtime.server import Registry, RunningServer
from services.runtime.start_failure import CannotStart
from services.runtime.transport import Transport


class Served(grpc.ServerInterceptor):
    """Notes the calls that come in."""

    def __init__(self, seen: list[str]) -> None:
        self.seen = seen

    def intercept_service(self, continuation: Callable[..., Any], details: Any) -> Any:
        if not details.method.endswith("/Watch"):  # every channel watches its server
            self.seen.append(f"served {details.method}")
        return continuation(details)


class Made(grpc.UnaryUnaryClientInterceptor):
    """Notes the calls that go out."""

    def __init__(self, seen: list[str]) -> None:
        self.seen = seen

    def intercept_unary_unary(self, continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        self.seen.append(f"made {details.method}")
        return continuation(details, request)


class MadeAsync(grpc.aio.UnaryUnaryClientInterceptor):
    """Notes the calls that go out of an event loop."""

    def __init__(self, seen: list[str]) -> None:
        self.seen = seen

    async def intercept_unary_unary(self, continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        self.seen.append("made in a loop")
        return await continuation(details, request)


def test_interceptors_stand_around_every_call(tmp_path: Path) -> None:
    """A server, a channel and a channel of an event loop all take them from the transport."""
    seen: list[str] = []
    transport = Transport([Served(seen)], [Made(seen)], [MadeAsync(seen)])
    address = f"unix:{tmp_path}/s.sock"

    async def call_in_loop() -> None:
        async with transport.open_async_channel(address, "storage") as channel:
            await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=20)

    server = RunningServer(Registry(), address, transport=transport)
    try:
        with transport.open_channel(address, "storage") as channel:
            health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=20)
        asyncio.run(call_in_loop())
    finally:
        server.drain(1.0)
    method = "/grpc.health.v1.Health/Check"
    assert [f"made {method}", f"served {method}", "made in a loop", f"served {method}"] == seen


def test_an_address_that_cannot_be_bound_is_named(tmp_path: Path) -> None:
    """The process must not start, and the operator is told where it should have listened."""
    transport = Transport()
    with pytest.raises(CannotStart, match=f"{tmp_path}/missing/s.sock"):
        transport.bind(transport.make_server(1), f"unix:{tmp_path}/missing/s.sock")

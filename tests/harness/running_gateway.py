"""A gateway on a real socket, in a thread, before a gRPC backend that answers what a test wants."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import uvloop

from services.gateway.application import GatewayApplication
from services.gateway.backends import Backends
from services.gateway.descriptors import Descriptors
from services.gateway.error_envelope import ErrorEnvelope
from services.gateway.message_shape import MessageShapes
from services.gateway.route_table import compile_routes
from services.gateway.server import listening_socket, make_router, make_server
from services.gateway.settings import HttpLimits
from services.runtime.key_material import ReloadedKeyMaterial
from services.runtime.transport import MESSAGE_BYTES_MAX

Answer = Callable[[Any, grpc.ServicerContext], dict[str, Any]]

SCOPE = {"project_id": "p", "agent_id": "a", "visibility": 2}
HEALTHY = {"contract_version": 1, "status": 1, "version": "1"}
FOUND_NOTHING = {"contract_version": 1, "scope": SCOPE, "mode": 1, "ranking_version": "bm25_v1"}


def answering(**fields: Any) -> Answer:
    """An answer that is always the same."""

    def answer(_request: Any, _context: grpc.ServicerContext) -> dict[str, Any]:
        return fields

    return answer


@dataclass
class ScriptedBackend:
    """Answers every routed method: with `answers` of its name, else with an empty success.

    Health and lexical search answer properly from the start.

    Attributes:
        answers: Method name -> function of (request message, context) that returns the response's fields.
        requests: Every (method name, request message) that arrived.
        metadata: Metadata of the last call.
    """

    directory: Path
    answers: dict[str, Answer] = field(default_factory=dict)
    requests: list[tuple[str, Any]] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    time_remaining_s: float | None = None

    def __post_init__(self) -> None:
        self.address = f"unix:{self.directory}/backend.sock"
        self.answers.update(GetHealth=answering(**HEALTHY), SearchLexical=answering(**FOUND_NOTHING))
        self._descriptors = Descriptors.load()
        self._methods = {
            f"/{service.full_name}/{method.name}": method
            for service in self._descriptors.services()
            for method in service.methods
        }
        self.start()

    def start(self) -> None:
        """Listen on the address."""
        self._server = grpc.server(
            futures.ThreadPoolExecutor(16),
            options=[
                ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
                ("grpc.max_send_message_length", 2 * MESSAGE_BYTES_MAX),
            ],
        )
        self._server.add_generic_rpc_handlers((_Handler(self._serve),))
        self._server.add_insecure_port(self.address)
        self._server.start()

    def stop(self) -> None:
        """Stop at once; calls that run are lost."""
        self._server.stop(0).wait()

    @property
    def method_names(self) -> list[str]:
        """Methods that were called, in order."""
        return [name for name, _ in self.requests]

    def _serve(self, path: str, data: bytes, context: grpc.ServicerContext) -> bytes:
        method = self._methods[path]
        request = self._descriptors.message_class(method.input_type).FromString(data)  # type: ignore[attr-defined]
        self.metadata = dict(context.invocation_metadata())
        self.time_remaining_s = context.time_remaining()
        self.requests.append((method.name, request))
        answer = self.answers.get(method.name)
        fields = {"contract_version": 1} if answer is None else answer(request, context)
        return self._descriptors.message_class(method.output_type)(**fields).SerializeToString()


class _Handler(grpc.GenericRpcHandler):
    def __init__(self, serve: Callable[[str, bytes, grpc.ServicerContext], bytes]) -> None:
        self._serve = serve

    def service(self, call: grpc.HandlerCallDetails) -> Any:
        if call.method.startswith("/grpc.health."):
            return None  # a backend without a health service is taken to be well
        return grpc.unary_unary_rpc_method_handler(lambda data, context: self._serve(call.method, data, context))


@contextmanager
def running_gateway(address: str, limits: HttpLimits, key_material: ReloadedKeyMaterial | None = None) -> Iterator[int]:
    """Run a gateway whose services all listen at `address`, under TLS when it has key material; gives its port."""
    descriptors = Descriptors.load()
    shapes = MessageShapes(descriptors)
    routes = compile_routes(descriptors, shapes)
    envelope = ErrorEnvelope(descriptors)
    router = make_router(descriptors, shapes, routes, envelope)
    listener = listening_socket("127.0.0.1", 0)
    stop: list[Callable[[], None]] = []
    started = threading.Event()

    async def serve() -> None:
        backends = Backends({route.service: address for route in routes})
        application = GatewayApplication(router, backends, envelope, body_timeout_s=limits.body_timeout_s)
        server = make_server(application, limits, key_material=key_material)
        loop = asyncio.get_running_loop()
        stop.append(lambda: loop.call_soon_threadsafe(setattr, server, "should_exit", True))
        started.set()
        try:
            await server.serve([listener])
        finally:
            await application.close()

    thread = threading.Thread(target=lambda: uvloop.run(serve()), name="gateway")
    thread.start()
    started.wait()
    try:
        yield listener.getsockname()[1]
    finally:
        stop[0]()
        thread.join()
        listener.close()

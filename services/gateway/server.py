"""The gateway wired together and served by uvicorn."""

from __future__ import annotations

import contextlib
import math
import signal
import socket
import threading
from collections.abc import Iterator

import uvicorn
import uvloop

from services.gateway.application import GatewayApplication, StaticDocument
from services.gateway.backends import Backends
from services.gateway.descriptors import Descriptors
from services.gateway.error_envelope import ErrorEnvelope
from services.gateway.http_protocol import protocol_class
from services.gateway.message_shape import MessageShapes
from services.gateway.openapi import openapi_document
from services.gateway.route_table import Route, compile_routes
from services.gateway.router import Router
from services.gateway.settings import HttpLimits, read_addresses
from services.runtime.http_address import parse_http_address
from services.runtime.logging import get_logger
from services.runtime.main import Process
from services.runtime.settings import read_settings
from services.runtime.start_failure import CannotStart

_BACKLOG = 1024

log = get_logger()


class GatewayServer(uvicorn.Server):
    """uvicorn's server, except that SIGTERM ends it with a drain and exit code 0."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take SIGTERM and SIGINT as the wish to drain, and put the handlers back afterwards."""
        if threading.current_thread() is not threading.main_thread():
            yield  # signals come to the main thread only; whoever runs the server elsewhere sets should_exit
            return
        handlers = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)


def listening_socket(host: str, port: int) -> socket.socket:
    """Bind a TCP socket and listen: from here on connections wait and are not refused.

    Raises:
        OSError: The address cannot be bound.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(_BACKLOG)
    except OSError:
        bound.close()
        raise
    return bound


def make_server(application: GatewayApplication, limits: HttpLimits) -> GatewayServer:
    """A server for the application; its `serve(sockets)` runs it."""
    return GatewayServer(
        uvicorn.Config(
            application,
            http=protocol_class(limits),
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=_BACKLOG,
            timeout_keep_alive=math.ceil(limits.idle_timeout_s),
            timeout_graceful_shutdown=math.ceil(limits.drain_s),
        )
    )


def make_router(
    descriptors: Descriptors, shapes: MessageShapes, routes: list[Route], envelope: ErrorEnvelope
) -> Router[Route | StaticDocument]:
    """Routes of the descriptor set, and the gateway's own /openapi.json."""
    document = openapi_document(descriptors, shapes, routes, dict(envelope.status_by_reason))
    return Router(
        [
            *((route.method, route.template, route) for route in routes),
            ("GET", "/openapi.json", StaticDocument("/openapi.json", document)),
        ]
    )


def run_gateway(process: Process) -> int:
    """Serve until SIGTERM or SIGINT, then let running requests finish.

    Args:
        process: Listens on HOST:PORT, port 0 for a free one; the bound one is logged. Its environment gives the
            addresses of the services and the HTTP limits.

    Returns:
        The exit code of the process.

    Raises:
        CannotStart: A setting is missing or malformed, or the socket cannot be bound.
    """
    limits = read_settings(HttpLimits, process.environment)
    descriptors = Descriptors.load()
    shapes = MessageShapes(descriptors)
    routes = compile_routes(descriptors, shapes)
    addresses = read_addresses(process.environment, sorted({route.service for route in routes}))
    envelope = ErrorEnvelope(descriptors)
    router = make_router(descriptors, shapes, routes, envelope)
    try:
        listener = listening_socket(*parse_http_address(process.listen))
    except (OSError, ValueError) as error:
        raise CannotStart(str(error)) from error

    async def serve() -> None:
        backends = Backends(addresses, process.transport)
        application = GatewayApplication(router, backends, envelope, body_timeout_s=limits.body_timeout_s)
        server = make_server(application, limits)
        bound_host, bound_port = listener.getsockname()[:2]
        log.info("listening", address=f"{bound_host}:{bound_port}", host=bound_host, port=bound_port)
        try:
            await server.serve([listener])
        finally:
            await application.close()

    with listener:
        uvloop.run(serve())
    log.info("stopped")
    return 0

"""The gateway wired together and served by uvicorn."""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from types import FrameType

import uvicorn
import uvloop

from services.gateway.application import GatewayApplication, StaticDocument
from services.gateway.backends import Backends
from services.gateway.descriptors import Descriptors
from services.gateway.error_envelope import ErrorEnvelope
from services.gateway.http_protocol import protocol_class
from services.gateway.https import make_server_context
from services.gateway.message_shape import MessageShapes
from services.gateway.openapi import openapi_document
from services.gateway.probes import open_probes
from services.gateway.route_table import Route, compile_routes
from services.gateway.router import Router
from services.gateway.settings import HttpLimits, read_addresses
from services.runtime.http_address import parse_http_address
from services.runtime.key_material import ReloadedKeyMaterial
from services.runtime.logging import get_logger
from services.runtime.main import DrainSettings, Process
from services.runtime.settings import read_settings
from services.runtime.start_failure import CannotStart

_BACKLOG = 1024
_NOTICE_STEP_S = 0.05

log = get_logger()


class GatewayServer(uvicorn.Server):
    """uvicorn's server, except that SIGTERM ends it with a notice, a drain and exit code 0.

    Args:
        config: What to serve, and how.
        on_notice: Called when it is told to stop.
        notice_s: Seconds that it goes on as before after that; a second signal ends them.
    """

    def __init__(
        self, config: uvicorn.Config, *, on_notice: Callable[[], None] = lambda: None, notice_s: float = 0.0
    ) -> None:
        super().__init__(config)
        self._on_notice = on_notice
        self._notice_s = notice_s
        self._is_hurried = False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Note the wish to stop, or, at the second signal, to stop now."""
        self._is_hurried = self.should_exit
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Give notice, then stop to listen and let running requests finish."""
        self._on_notice()
        loop = asyncio.get_running_loop()
        end_s = loop.time() + self._notice_s
        while not self._is_hurried and loop.time() < end_s:
            await self.on_tick(0)
            await asyncio.sleep(_NOTICE_STEP_S)
        await super().shutdown(sockets)

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


def make_server(
    application: GatewayApplication,
    limits: HttpLimits,
    *,
    key_material: ReloadedKeyMaterial | None = None,
    on_notice: Callable[[], None] | None = None,
    notice_s: float = 0.0,
) -> GatewayServer:
    """A server for the application; its `serve(sockets)` runs it.

    Args:
        application: Answers the requests; told when the server is about to leave.
        limits: See `HttpLimits`.
        key_material: The server speaks TLS with it, and only with who has a certificate of its authority.
        on_notice: See `GatewayServer`; called beside `application.drain`.
        notice_s: See `GatewayServer`.

    Raises:
        CannotStart: The key material cannot be used.
    """
    context = None if key_material is None else make_server_context(key_material)

    def give_notice() -> None:
        application.drain()
        if on_notice is not None:
            on_notice()

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
            ssl_context_factory=None if context is None else lambda _config, _default: context,
        ),
        on_notice=give_notice,
        notice_s=notice_s,
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
    notice_s = read_settings(DrainSettings, process.environment).notice_ms / 1000
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
        application = GatewayApplication(
            router, backends, envelope, body_timeout_s=limits.body_timeout_s, tracing=process.tracing
        )
        reaching = asyncio.create_task(backends.reach_any())
        probes = open_probes(process.environment, asyncio.get_running_loop(), reaching.done)
        server = make_server(
            application,
            limits,
            key_material=process.transport.key_material,
            on_notice=probes.drain,
            notice_s=notice_s,
        )
        bound_host, bound_port = listener.getsockname()[:2]
        log.info("listening", address=f"{bound_host}:{bound_port}", host=bound_host, port=bound_port)
        try:
            await server.serve([listener])
        finally:
            reaching.cancel()
            probes.close()
            await application.close()

    with listener:
        uvloop.run(serve())
    log.info("stopped")
    return 0

"""The gateway's ASGI application: one documented JSON request in, one gRPC call, one documented JSON answer out.

Order of checks: route (404, 405), repeated credentials (401), size (413), framing and JSON (400); the service then
judges bounds, authority and the rest.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

import structlog

from services.domain.errors import InternalError, WaggleError
from services.gateway.backends import Answer, Backends
from services.gateway.error_envelope import INTERNAL_TEXT, ErrorEnvelope
from services.gateway.http_protocol import CONNECTION_KEY
from services.gateway.http_request import ClientGone, Receive, RequestHeader, read_body
from services.gateway.instruments import observe_request
from services.gateway.route_table import Route
from services.gateway.router import Match, Router, WrongMethod
from services.runtime.identifiers import new_uuid
from services.runtime.tracing import NO_TRACING, EndRequest, Tracing

OFFLOAD_BYTES = 256 * 1024
"""Bodies and messages above this size are coded on another thread, so that small requests and health go on."""

_CODING_THREADS = 2

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

HEALTH_TEMPLATE = "/health"

log = structlog.get_logger()


class Connection(Protocol):
    """What the application needs of the client's connection."""

    is_lost: bool

    def when_lost(self, callback: Callable[[], object] | None) -> None:
        """Call `callback` once the client has gone."""


@dataclass(frozen=True, slots=True)
class StaticDocument:
    """A public JSON document that the gateway itself answers with."""

    template: str
    body: bytes


@dataclass(slots=True)
class Response:
    """An HTTP answer; Cache-Control and the like are added when it is sent."""

    status: int
    body: bytes
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)


@dataclass(slots=True)
class _Exchange:
    """State of one request while it is answered."""

    request_id: str
    header: RequestHeader
    connection: Connection
    template: str = "-"
    body_is_read: bool = False


class GatewayApplication:
    """Answers HTTP requests.

    Args:
        router: All routes.
        backends: Channels to the services.
        envelope: Makes the error bodies.
        body_timeout_s: How long a body may take to arrive.
        tracing: Opens a span around each request.
    """

    def __init__(
        self,
        router: Router[Route | StaticDocument],
        backends: Backends,
        envelope: ErrorEnvelope,
        *,
        body_timeout_s: float,
        tracing: Tracing = NO_TRACING,
    ) -> None:
        self._router = router
        self._backends = backends
        self._envelope = envelope
        self._body_timeout_s = body_timeout_s
        self._is_draining = False
        self._tracing = tracing
        self._coders = ThreadPoolExecutor(_CODING_THREADS, thread_name_prefix="coder")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; the ASGI entry point."""
        with self._tracing.request(scope["headers"]) as end_request:
            await self._serve(scope, receive, send, end_request)

    async def _serve(self, scope: Scope, receive: Receive, send: Send, end_request: EndRequest) -> None:
        started_ns = time.perf_counter_ns()
        header = RequestHeader.read(scope["headers"])
        exchange = _Exchange(header.request_id or new_uuid(), header, scope[CONNECTION_KEY])
        try:
            response = await self._answer(exchange, scope, receive)
        except ClientGone:
            response = None
        except asyncio.CancelledError:
            # Either the client has gone, or the drain has run out of patience; the task ends here in both cases.
            response = None if exchange.connection.is_lost else self._refuse(InternalError(INTERNAL_TEXT))
        except WaggleError as error:
            response = self._refuse(error)
        except Exception as error:
            # The edge of the process: nothing of it may reach the client.
            log.error("unexpected_failure", request_id=exchange.request_id, exc_info=error)
            response = self._refuse(InternalError(INTERNAL_TEXT))
        if response is not None:
            await self._send(send, response, exchange)
        elapsed_s = (time.perf_counter_ns() - started_ns) / 1e9
        method, status = scope["method"], 0 if response is None else response.status
        observe_request(elapsed_s, route=exchange.template, method=method, status=status)
        end_request(exchange.template, method, status, exchange.request_id)
        # Probes come every few seconds for ever; what they hear is only worth a line when it is bad.
        is_probe = exchange.template == "/health" and status == 200
        (log.debug if is_probe else log.info)(
            "http",
            method=method,
            route=exchange.template,
            status=status,
            request_id=exchange.request_id,
            ms=round(elapsed_s * 1e3, 3),
        )

    def drain(self) -> None:
        """Go on answering, but ask clients for other connections, and fail health checks, so that they go elsewhere."""
        self._is_draining = True

    async def close(self) -> None:
        """Close the channels to the services."""
        await self._backends.close()
        self._coders.shutdown(wait=False)

    async def _answer(self, exchange: _Exchange, scope: Scope, receive: Receive) -> Response:
        match = self._router.find(scope["method"], scope["raw_path"])
        header = exchange.header
        authorization = header.authorization()
        route = match.target
        exchange.template = route.template
        if isinstance(route, StaticDocument):
            header.check_no_body()
            return Response(200, route.body)
        if self._is_draining and route.template == HEALTH_TEMPLATE:
            raise InternalError(INTERNAL_TEXT)
        request = await self._read_request(exchange, match, route, scope["query_string"], receive)
        metadata = [("x-request-id", exchange.request_id)]
        if authorization is not None:
            metadata.append(("authorization", authorization))
        answer = await self._call(exchange, route, request, metadata)
        body = await self._encode(route, answer.message)
        return Response(route.success_status, body, self._declared_headers(route, answer))

    async def _read_request(
        self, exchange: _Exchange, match: Match[Any], route: Route, query: bytes, receive: Receive
    ) -> bytes:
        body = b""
        if route.takes_body and (exchange.header.has_body or not route.body_optional):
            exchange.header.check_json_body(route.body_bytes_max)
            body = await read_body(receive, route.body_bytes_max, self._body_timeout_s)
            exchange.body_is_read = True
        else:
            exchange.header.check_no_body()
        if len(body) <= OFFLOAD_BYTES:
            return route.codec.request_from_http(body, query, match.path_values)
        return await asyncio.get_running_loop().run_in_executor(
            self._coders, route.codec.request_from_http, body, query, match.path_values
        )

    async def _call(self, exchange: _Exchange, route: Route, request: bytes, metadata: list[tuple[str, str]]) -> Answer:
        try:
            return await self._backends.call(
                route.service,
                route.rpc,
                request,
                metadata=metadata,
                deadline_s=route.deadline_s,
                wants_metadata=bool(route.response_headers),
                on_start=exchange.connection.when_lost,
            )
        finally:
            exchange.connection.when_lost(None)

    async def _encode(self, route: Route, message: bytes) -> bytes:
        if len(message) <= OFFLOAD_BYTES:
            return route.codec.json_from_response(message)
        return await asyncio.get_running_loop().run_in_executor(self._coders, route.codec.json_from_response, message)

    @staticmethod
    def _declared_headers(route: Route, answer: Answer) -> list[tuple[bytes, bytes]]:
        return [
            (name.encode("ascii"), answer.metadata[name.lower()].encode("ascii"))
            for name in route.response_headers
            if name.lower() in answer.metadata
        ]

    def _refuse(self, error: WaggleError) -> Response:
        response = Response(self._envelope.status(error), self._envelope.body(error))
        if isinstance(error, WrongMethod):
            response.headers.append((b"allow", ", ".join(error.allowed).encode("ascii")))
        elif response.status == 401:
            response.headers.append((b"www-authenticate", b"Bearer"))
        return response

    async def _send(self, send: Send, response: Response, exchange: _Exchange) -> None:
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(response.body)).encode("ascii")),
            (b"cache-control", b"no-store"),
            (b"x-request-id", exchange.request_id.encode("ascii")),
            *response.headers,
        ]
        if self._is_draining or (exchange.header.has_body and not exchange.body_is_read):
            # The process is about to leave, or what follows on this connection is a body that nobody will read as one.
            headers.append((b"connection", b"close"))
        try:
            await send({"type": "http.response.start", "status": response.status, "headers": headers})
            await send({"type": "http.response.body", "body": response.body})
        except (RuntimeError, OSError) as error:
            # So transports say that the client has gone meanwhile.
            log.debug("answer_not_taken", request_id=exchange.request_id, error=type(error).__name__)

"""A documented JSON request sent as the message that it stands for, over gRPC, and its answer turned back into JSON."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import unquote

import grpc

from services.domain.errors import InvalidRequest
from services.gateway.descriptors import Descriptors
from services.gateway.message_shape import MessageShapes
from services.gateway.route_table import Route, compile_routes
from services.runtime.status import error_info

WORK_HEADERS = re.compile(r"x-qilbee-.*")
STATUS_OF_CODE = {
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.UNAUTHENTICATED: 401,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.FAILED_PRECONDITION: 409,
    grpc.StatusCode.ALREADY_EXISTS: 409,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 503,
}
_SERVICE = {
    "waggle.identity.v1": "identity",
    "waggle.memory.v1": "memory",
    "waggle.retrieval.v1": "retrieval",
    "waggle.consolidation.v1": "consolidation",
}


@dataclass(frozen=True, slots=True)
class MessageAnswer:
    """What a call came to.

    Attributes:
        status: The HTTP status that the same answer has.
        code: Documented code of a refusal, "" for success.
        member: The member at fault, if one is named.
        text: The answer as the gateway would write it; empty for a refusal.
        headers: Trailers that begin with x-qilbee.
    """

    status: int
    code: str
    member: str | None = None
    text: str = ""
    headers: dict[str, str] | None = None


@cache
def documented_routes() -> tuple[Route, ...]:
    """All routes of the descriptor set, with the codec of each."""
    descriptors = Descriptors.load()
    return tuple(compile_routes(descriptors, MessageShapes(descriptors)))


def find_route(method: str, path: str) -> tuple[Route, dict[str, str]]:
    """The route of a whole path and the values of its variables; LookupError when there is none."""
    for route, pattern in _patterns():
        if route.method == method and (match := pattern.fullmatch(path)):
            return route, {name: unquote(value) for name, value in match.groupdict().items()}
    raise LookupError(f"no route {method} {path}")


@cache
def _patterns() -> tuple[tuple[Route, re.Pattern[str]], ...]:
    return tuple(
        (route, re.compile(re.sub(r"\{([a-z_]+)\}", r"(?P<\1>[^/]+)", route.template))) for route in documented_routes()
    )


class MessageCaller:
    """Calls the services of a suite.

    Args:
        open_channel: Makes the channel to a service, "memory" for example; asked once for each.
        timeout_s: Of every call.
    """

    def __init__(self, open_channel: Callable[[str], grpc.Channel], *, timeout_s: float) -> None:
        self._open_channel, self._timeout_s = open_channel, timeout_s
        self._channels: dict[str, grpc.Channel] = {}

    def close(self) -> None:
        """Close the channels."""
        for channel in self._channels.values():
            channel.close()

    def send(
        self, route: Route, values: dict[str, str], parameters: str, content: bytes, token: str
    ) -> MessageAnswer | None:
        """Send what the HTTP request says; None when only its JSON is bad, so that there is no such message.

        Raises:
            grpc.RpcError: The call failed without a documented reason.
        """
        try:
            message = route.codec.request_from_http(content, parameters.encode(), values)
        except InvalidRequest:
            return None
        metadata = (("authorization", f"Bearer {token}"),) if token else ()
        method: grpc.UnaryUnaryMultiCallable[Any, Any] = self._channel(_SERVICE[route.service]).unary_unary(route.rpc)
        try:
            answer, call = method.with_call(message, metadata=metadata, timeout=self._timeout_s)
        except grpc.RpcError as error:
            found = error_info(error)
            if found is None or error.code() not in STATUS_OF_CODE:
                raise
            status = STATUS_OF_CODE[error.code()]
            return MessageAnswer(status, found[0].reason, found[0].metadata.get("member"))
        trailers = {name: str(value) for name, value in call.trailing_metadata() if WORK_HEADERS.fullmatch(name)}
        text = route.codec.json_from_response(answer).decode()
        return MessageAnswer(route.success_status, "", None, text, trailers)

    def _channel(self, service: str) -> grpc.Channel:
        if service not in self._channels:
            self._channels[service] = self._open_channel(service)
        return self._channels[service]

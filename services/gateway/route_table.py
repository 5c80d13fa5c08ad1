"""The routes that the descriptor set declares, each with its compiled codec."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

from services.gateway.descriptors import Descriptors
from services.gateway.http_rule import parse_template
from services.gateway.json_decoder import DecoderCompiler, MessageDecoder
from services.gateway.json_encoder import EncoderCompiler, MessageEncoder
from services.gateway.message_shape import MessageShapes, UnsupportedShape
from services.gateway.query_binding import QueryBinder, bind_path, compile_path_fields, compile_query

ORDINARY_BODY_BYTES_MAX = 65_536
DEADLINE_MS = 10_000

_VERBS = ("get", "put", "post", "delete", "patch")


@dataclass(frozen=True, slots=True)
class Route:
    """One documented route.

    Attributes:
        method: HTTP method in capitals.
        template: Path template of `google.api.http`.
        rpc: Full gRPC path, "/waggle.memory.v1.MemoryService/GetRecord".
        service: Package of the service that answers, "waggle.memory.v1".
        takes_body: The request is a JSON body; otherwise it is the query string.
        body_bytes_max: Greatest size of the whole body.
        body_optional: The body may be left out.
        success_status: HTTP status of success.
        public: Needs no Authorization header.
        error_statuses: Documented error statuses, ascending.
        operation_id: The operation's name in openapi.json.
        response_headers: Names of the headers of success, as documented; metadata has them in lower case.
        deadline_s: Seconds that the gateway waits for the service.
        descriptor: The gRPC method.
    """

    method: str
    template: str
    rpc: str
    service: str
    takes_body: bool
    body_bytes_max: int
    body_optional: bool
    success_status: int
    public: bool
    error_statuses: tuple[int, ...]
    operation_id: str
    response_headers: tuple[str, ...]
    deadline_s: float
    descriptor: MethodDescriptor
    codec: RouteCodec


class RouteCodec:
    """Bytes of an HTTP request to bytes of a gRPC request, and back for the answer."""

    def __init__(
        self,
        *,
        body: MessageDecoder | None,
        query: QueryBinder,
        path_fields: dict[str, Any],
        response_class: Any,
        response: MessageEncoder,
        body_optional: bool = False,
    ) -> None:
        self._body = body
        self._body_optional = body_optional
        self._query = query
        self._path_fields = path_fields
        self._response_class = response_class
        self._response = response

    def request_from_http(self, body: bytes, query: bytes, path_values: dict[str, str]) -> bytes:
        """Make the serialized request message.

        Args:
            body: The JSON body; empty for a route without one, and where it is optional and was left out.
            query: The raw query string. A route with a body has no parameters.
            path_values: Field name -> decoded value of each path variable.

        Raises:
            InvalidRequest: It is not the documented request; names the member at fault.
        """
        return self.message_from_http(body, query, path_values).SerializeToString()

    def message_from_http(self, body: bytes, query: bytes, path_values: dict[str, str]) -> Message:
        """The same, as a message."""
        if self._body is None:
            return self._query.bind(query, path_values)
        self._query.bind(query, {})
        message = self._body.decode(body or b"{}" if self._body_optional else body)
        for name, value in bind_path(self._path_fields, path_values).items():
            setattr(message, name, value)
        return message

    def json_from_response(self, response: bytes) -> bytes:
        """Encode the serialized response message as JSON. Raises EncodingFault when it has no documented form."""
        return self._response.encode(self._response_class.FromString(response))


def compile_routes(descriptors: Descriptors, shapes: MessageShapes) -> list[Route]:
    """Compile every method that carries `google.api.http`.

    Raises:
        UnsupportedShape, BadTemplate: The descriptor set declares what cannot be served.
    """
    decoders, encoders = DecoderCompiler(shapes), EncoderCompiler(shapes)
    routes: list[Route] = []
    for service in descriptors.services():
        for method in service.methods:
            rule = descriptors.http_rule(method)
            if rule is None:
                continue
            if method.client_streaming or method.server_streaming:
                raise UnsupportedShape(f"{method.full_name}: a stream has no route")
            for binding in (rule, *rule.additional_bindings):
                for verb, template in _bindings(binding):
                    routes.append(
                        _compile_route(descriptors, shapes, decoders, encoders, method, verb, template, binding.body)
                    )
    return routes


def _bindings(rule: Any) -> Iterator[tuple[str, str]]:
    for verb in _VERBS:
        if template := getattr(rule, verb):
            yield verb.upper(), template


def _compile_route(
    descriptors: Descriptors,
    shapes: MessageShapes,
    decoders: DecoderCompiler,
    encoders: EncoderCompiler,
    method: MethodDescriptor,
    verb: str,
    template: str,
    body: str,
) -> Route:
    if body not in ("", "*"):
        raise UnsupportedShape(f"{method.full_name}: the body is the whole request or nothing")
    request = method.input_type
    path_names = parse_template(template).variables
    path_fields = compile_path_fields(shapes, decoders, request, path_names)
    if body:
        decoder = decoders.compile(request, without=frozenset(path_names))
        query = QueryBinder(descriptors.message_class(request), {}, {}, ())
    else:
        decoder = None
        query = compile_query(shapes, decoders, request, path_names)
    options = descriptors.route(method)
    codec = RouteCodec(
        body=decoder,
        query=query,
        path_fields=path_fields,
        response_class=descriptors.message_class(method.output_type),
        response=encoders.compile(method.output_type),
        body_optional=options.body_optional,
    )
    return Route(
        method=verb,
        template=template,
        rpc=f"/{method.containing_service.full_name}/{method.name}",
        service=method.containing_service.file.package,
        takes_body=bool(body),
        body_bytes_max=options.body_bytes_max or ORDINARY_BODY_BYTES_MAX,
        body_optional=options.body_optional,
        success_status=options.success_status or 200,
        public=options.public,
        error_statuses=tuple(options.error_statuses),
        operation_id=options.operation_id or method.name[0].lower() + method.name[1:],
        response_headers=tuple(options.response_headers),
        deadline_s=(options.deadline_ms or DEADLINE_MS) / 1000,
        descriptor=method,
        codec=codec,
    )

"""Traces of requests through the suite, for OpenTelemetry: from the gateway's HTTP to storage, hop by hop.

Off unless the environment names a collector (OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT); the
packages are an extra, `waggle[tracing]`. The other OTEL_* variables are read by OpenTelemetry itself. Spans carry the
method or the route, the request id and the outcome, and nothing of a message.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import grpc
import grpc.aio

from services.runtime.start_failure import CannotStart
from services.runtime.version import VERSION

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")

Headers = Iterable[tuple[bytes, bytes]]
EndRequest = Callable[[str, str, int, str], None]
"""Given an HTTP request's route template, method, status and request id, names its span."""


def _forget_request(_template: str, _method: str, _status: int, _request_id: str) -> None:
    """End a request that is not traced."""


def _no_request(_headers: Headers) -> AbstractContextManager[EndRequest]:
    return contextlib.nullcontext(_forget_request)


@dataclass(frozen=True, slots=True)
class Tracing:
    """How the calls of one process are traced.

    Attributes:
        server_interceptors, channel_interceptors, async_channel_interceptors: For its `Transport`.
        request: Given the header of an HTTP request, opens its span; what it yields names the span at the end.
        close: Sends what has not been sent.
    """

    server_interceptors: Sequence[grpc.ServerInterceptor] = ()
    channel_interceptors: Sequence[Any] = ()
    async_channel_interceptors: Sequence[grpc.aio.ClientInterceptor] = ()
    request: Callable[[Headers], AbstractContextManager[EndRequest]] = _no_request
    close: Callable[[], None] = lambda: None


NO_TRACING: Final = Tracing()


def open_tracing(name: str, environment: Mapping[str, str]) -> Tracing:
    """Return the tracing that the environment asks for.

    Args:
        name: Of the process; its `service.name` is "waggle-" and this.
        environment: Variables by name.

    Raises:
        CannotStart: A collector is named and the packages are not installed.
    """
    if not any(environment.get(variable) for variable in _ENDPOINTS):
        return NO_TRACING
    try:
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise CannotStart(
            f"traces need more packages ({error.name} is missing): install Waggle with its extra "
            "`tracing`, such as pip install '.[tracing]' in its source tree"
        ) from None
    resource = Resource.create({"service.name": f"waggle-{name}", "service.version": VERSION})
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return tracing_to(provider)


def tracing_to(provider: TracerProvider) -> Tracing:
    """Return the tracing that sends its spans to a provider.

    Args:
        provider: Closed together with the tracing.
    """
    from opentelemetry import trace
    from opentelemetry.instrumentation.grpc import aio_client_interceptors, filters, server_interceptor
    from opentelemetry.propagate import extract

    # Probes come every few seconds and say nothing.
    counts = filters.negate(filters.health_check())
    tracer = provider.get_tracer("waggle", VERSION)

    @contextlib.contextmanager
    def request(headers: Headers) -> Iterator[EndRequest]:
        carrier = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
        with tracer.start_as_current_span("HTTP", context=extract(carrier), kind=trace.SpanKind.SERVER) as span:

            def end(template: str, method: str, status: int, request_id: str) -> None:
                span.update_name(f"{method} {template}")
                span.set_attributes({
                    "http.route": template,
                    "http.request.method": method,
                    "http.response.status_code": status,
                    "waggle.request_id": request_id,
                })  # fmt: skip
                if status >= 500:
                    span.set_status(trace.StatusCode.ERROR)

            yield end

    return Tracing(
        server_interceptors=(cast(Any, server_interceptor)(tracer_provider=provider, filter_=counts),),
        channel_interceptors=(_CallTracer(tracer),),
        async_channel_interceptors=tuple(cast(Any, aio_client_interceptors)(tracer_provider=provider, filter_=counts)),
        request=request,
        close=provider.shutdown,
    )


class _CallTracer(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):
    """Spans around blocking calls. OpenTelemetry's own interceptor wraps channels in a way that gRPC's cannot join.

    Args:
        tracer: Makes the spans.
    """

    def __init__(self, tracer: Any) -> None:
        self._tracer = tracer

    def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        """Trace a call with one answer; it has ended when its future is returned."""
        with self._span(details) as traced:
            return continuation(traced, request)

    def intercept_unary_stream(self, continuation: Any, details: Any, request: Any) -> Any:
        """Trace the start of a call with a stream of answers."""
        with self._span(details) as traced:
            return continuation(traced, request)

    @contextlib.contextmanager
    def _span(self, details: Any) -> Iterator[Any]:
        from opentelemetry import trace
        from opentelemetry.propagate import inject

        with self._tracer.start_as_current_span(details.method, kind=trace.SpanKind.CLIENT):
            carrier: dict[str, str] = {}
            inject(carrier)
            yield _Details(
                details.method,
                details.timeout,
                (*(details.metadata or ()), *carrier.items()),
                details.credentials,
                details.wait_for_ready,
                details.compression,
            )


@dataclass(frozen=True)
class _Details(grpc.ClientCallDetails):
    method: Any
    timeout: Any
    metadata: Any
    credentials: Any
    wait_for_ready: Any
    compression: Any

"""What happens around every gRPC method of the suite: request id, validation, access log, errors as statuses.

Handlers are wrapped once, when a servicer is registered; a call pays for a few function calls, not for interceptors.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any, TypeAlias, cast

import grpc
from google.protobuf import descriptor_pool
from google.protobuf.message import DecodeError

from services.domain.errors import InvalidRequest, RouteNotFound, WaggleError
from services.runtime.admission import release_slot, releasing
from services.runtime.call_context import REQUEST_ID_KEY, bind_call, release_call
from services.runtime.identifiers import new_uuid
from services.runtime.logging import get_logger
from services.runtime.metrics import RPC_SECONDS, CallTimes
from services.runtime.peer import CheckPeer
from services.runtime.status import (
    DEADLINE_TEXT,
    STATUS_DETAILS_KEY,
    UNAVAILABLE_TEXT,
    RpcFailure,
    error_from_rpc,
    status_from_error,
    status_from_failure,
)
from services.runtime.validation import compile_validator, validate

_REQUEST_ID_LENGTH_MAX = 128
# gRPC reports "no deadline" as a time-out of many years.
_TIMEOUT_S_MAX = 10 * 365 * 24 * 3600.0

# Quoted: the class is generic in its types only, not when the program runs.
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Behavior = Callable[[Any, grpc.ServicerContext], Any]
Read = Callable[[Any], Any]
"""Bytes as they came -> request message; for a request stream: iterator of bytes -> iterator of messages."""

# A stream keeps its thread for as long as its caller likes, so it gets none of those that single calls wait for.
_STREAMS_AT_ONCE = 32
_STREAMS = futures.ThreadPoolExecutor(_STREAMS_AT_ONCE, thread_name_prefix="stream")

_times = CallTimes(RPC_SECONDS)

log = get_logger()


def wrap_handlers(
    service: str, handlers: dict[str, Handler], check_peer: CheckPeer | None = None
) -> dict[str, Handler]:
    """Wrap all methods of one service.

    Args:
        service: Full name, for example "waggle.memory.v1.MemoryService".
        handlers: Method name to handler, as generated code registers them.
        check_peer: Refuses callers before anything of the request is looked at; None to serve whoever connects.

    Returns:
        The same names; single requests are validated before the servicer sees them. The messages of a request stream
        are not: a servicer that takes one calls `validate` itself, so that it can say which message was bad.
    """
    methods = descriptor_pool.Default().FindServiceByName(service).methods_by_name
    wrapped: dict[str, Handler] = {}
    for name, handler in handlers.items():
        checked = not handler.request_streaming and bool(compile_validator(methods[name].input_type).steps)
        wrapped[name] = _wrap(f"/{service}/{name}", handler, checked, check_peer)
    return wrapped


def _wrap(path: str, handler: Handler, checked: bool, check_peer: CheckPeer | None) -> Handler:
    # Read here and not by gRPC, which answers a request that it cannot read with INTERNAL.
    codec = {"response_serializer": releasing(handler.response_serializer)}
    read_one = cast(Read, handler.request_deserializer)
    read = _stream_reader(read_one) if handler.request_streaming else read_one
    if handler.response_streaming:
        behavior = cast(Behavior, handler.stream_stream if handler.request_streaming else handler.unary_stream)
        make = (
            grpc.stream_stream_rpc_method_handler if handler.request_streaming else grpc.unary_stream_rpc_method_handler
        )
        serve = _streaming(path, behavior, read, checked, check_peer)
        if handler.request_streaming:
            cast(Any, serve).experimental_thread_pool = _STREAMS
        return make(serve, **codec)
    behavior = cast(Behavior, handler.stream_unary if handler.request_streaming else handler.unary_unary)
    make = grpc.stream_unary_rpc_method_handler if handler.request_streaming else grpc.unary_unary_rpc_method_handler
    return make(_single(path, behavior, read, checked, check_peer), **codec)


def _stream_reader(read_one: Read) -> Read:
    def read_all(stream: Any) -> Iterator[Any]:
        for raw in stream:
            yield _read_request(read_one, raw)

    return read_all


def _read_request(read: Read, raw: Any) -> Any:
    try:
        return read(raw)
    except DecodeError:
        # Also text that is not UTF-8. What protobuf says of it names internal types.
        raise InvalidRequest("is not the message that this method takes") from None


def _single(path: str, behavior: Behavior, read: Read, checked: bool, check_peer: CheckPeer | None) -> Behavior:
    def serve(raw: Any, context: grpc.ServicerContext) -> Any:
        started_ns = time.perf_counter_ns()
        request_id = _begin(context)
        try:
            if check_peer is not None:
                check_peer(context)
            request = _read_request(read, raw)
            if checked:
                validate(request)
            response = behavior(request, context)
        except Exception as error:
            release_slot()
            _refuse(path, request_id, error, context, started_ns)
            raise
        finally:
            release_call()
        _account(path, request_id, "OK", started_ns)
        return response

    return serve


def _streaming(path: str, behavior: Behavior, read: Read, checked: bool, check_peer: CheckPeer | None) -> Behavior:
    def serve(raw: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        started_ns = time.perf_counter_ns()
        request_id = _begin(context)
        try:
            if check_peer is not None:
                check_peer(context)
            request = _read_request(read, raw)
            if checked:
                validate(request)
            yield from behavior(request, context)
        except Exception as error:
            _refuse(path, request_id, error, context, started_ns)
            raise
        finally:
            release_call()
        _account(path, request_id, "OK", started_ns)

    return serve


def _begin(context: grpc.ServicerContext) -> str:
    request_id = ""
    for key, value in context.invocation_metadata():
        if key == REQUEST_ID_KEY and isinstance(value, str):
            request_id = value[:_REQUEST_ID_LENGTH_MAX]
    request_id = request_id or new_uuid()
    timeout_s = context.time_remaining()
    bind_call(request_id, timeout_s if timeout_s is not None and timeout_s < _TIMEOUT_S_MAX else None)
    if not context.is_active() or (timeout_s is not None and timeout_s <= 0):
        # The call waited for a thread until its caller gave up; nobody would read the answer.
        context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, DEADLINE_TEXT)
    return request_id


def _refuse(path: str, request_id: str, error: Exception, context: grpc.ServicerContext, started_ns: int) -> None:
    """Send the status that belongs to an error, by raising as `context.abort` does."""
    aborted_with = cast(Any, context).code()
    if type(error) is Exception and aborted_with is not None:
        # The servicer has aborted the call by itself; that exception is gRPC's own.
        _account(path, request_id, aborted_with.name, started_ns)
        return
    code, message, details = _status_of(path, request_id, error)
    _account(path, request_id, code.name, started_ns)
    context.set_trailing_metadata(((STATUS_DETAILS_KEY, details),))
    context.abort(code, message)


def _status_of(path: str, request_id: str, error: Exception) -> tuple[grpc.StatusCode, str, bytes]:
    if isinstance(error, grpc.RpcError):
        error = error_from_rpc(error)
        if isinstance(error, RpcFailure):
            log.warning("call_failed", method=path, request_id=request_id, code=error.code.name)
            if error.code is grpc.StatusCode.DEADLINE_EXCEEDED:
                return status_from_failure(error.code, DEADLINE_TEXT)
            if error.code is grpc.StatusCode.CANCELLED:
                return status_from_failure(error.code, "the caller cancelled the request")
            return status_from_failure(grpc.StatusCode.UNAVAILABLE, UNAVAILABLE_TEXT)
    if isinstance(error, RpcFailure):
        return status_from_failure(error.code, error.message)
    if isinstance(error, WaggleError):
        if error.reason in ("internal_error", "storage_inconsistency"):
            log.error("failure", method=path, request_id=request_id, reason=error.reason, exc_info=error)
        return status_from_error(error)
    if isinstance(error, NotImplementedError):
        return status_from_error(RouteNotFound("this method is not served here"))
    log.error("unexpected_failure", method=path, request_id=request_id, exc_info=error)
    return status_from_failure(grpc.StatusCode.INTERNAL, f"unexpected failure; request id {request_id}")


def _account(path: str, request_id: str, code: str, started_ns: int) -> None:
    elapsed_s = (time.perf_counter_ns() - started_ns) / 1e9
    _times.observe(elapsed_s, path, code)
    # Served calls are told at debug: the gateway already logs each request once, and a line a hop would cost a tenth of
    # a search.
    write = log.debug if code == "OK" else log.info
    write("rpc", method=path, request_id=request_id, code=code, ms=round(elapsed_s * 1e3, 3))

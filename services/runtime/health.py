"""The standard gRPC health service, answering with the readiness that a process really has.

The service name "liveness" asks for less: whether the process answers at all. Whoever ends processes that hang must ask
for that, since readiness also fails while another service is away.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any, Final, cast

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

LIVENESS: Final = "liveness"

_CHECK_THREADS = 4
_WATCH_PERIOD_S = 0.25
_WATCHERS_MAX = 4

_SERVING = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


class HealthServicer(health_pb2_grpc.HealthServicer):
    """Answers SERVING while every readiness check passes and the process is not draining."""

    def __init__(self, is_ready: Callable[[], bool]) -> None:
        self._is_ready = is_ready
        self._services: set[str] = {""}
        self._draining = threading.Event()
        self._watchers = threading.BoundedSemaphore(_WATCHERS_MAX)

    def know(self, service: str) -> None:
        """Answer for this service name too."""
        self._services.add(service)

    def drain(self) -> None:
        """Answer NOT_SERVING from now on."""
        self._draining.set()

    def Check(  # noqa: N802 - the name is gRPC's
        self, request: health_pb2.HealthCheckRequest, context: grpc.ServicerContext
    ) -> health_pb2.HealthCheckResponse:
        """Answer the present state, for LIVENESS always SERVING; NOT_FOUND for a service that is not here."""
        if request.service == LIVENESS:
            return health_pb2.HealthCheckResponse(status=_SERVING)
        if request.service not in self._services:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such service in this process")
        return health_pb2.HealthCheckResponse(status=self._status())

    def Watch(  # noqa: N802 - the name is gRPC's
        self, request: health_pb2.HealthCheckRequest, context: grpc.ServicerContext
    ) -> Iterator[health_pb2.HealthCheckResponse]:
        """Stream the state now and at every change. Few watchers are served at once, since each holds a thread."""
        if not self._watchers.acquire(blocking=False):
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many watchers; use Check")
        try:
            last: int | None = None
            while context.is_active():
                is_known = request.service in self._services
                status = self._status() if is_known else health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
                if status != last:
                    yield health_pb2.HealthCheckResponse(status=status)
                    last = status
                if self._draining.wait(_WATCH_PERIOD_S) and last == _NOT_SERVING:
                    return
        finally:
            self._watchers.release()

    def _status(self) -> int:
        return _SERVING if not self._draining.is_set() and self._is_ready() else _NOT_SERVING


# Checks have threads of their own: a process whose threads all work is busy and does not hang.
cast(Any, HealthServicer.Check).experimental_thread_pool = futures.ThreadPoolExecutor(
    _CHECK_THREADS, thread_name_prefix="health"
)

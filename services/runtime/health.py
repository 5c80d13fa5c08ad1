"""The standard gRPC health service, answering with the state that a process really has."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent import futures
from typing import Any, Final, cast

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from services.runtime.health_names import CALLS, LIVENESS
from services.runtime.invariant import InvariantViolation

Check = Callable[[], bool]
"""Quick, and never raising."""

_CHECK_THREADS: Final = 4
_WATCH_PERIOD_S: Final = 0.25
# Each caller's channel is one watcher; a watcher costs a few hundred bytes and no thread.
_WATCHERS_MAX: Final = 1_024

_SERVING: Final = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING: Final = health_pb2.HealthCheckResponse.NOT_SERVING
_UNKNOWN: Final = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN


def _send_nothing(_message: Any) -> None:
    raise InvariantViolation("gRPC gives the way to send, as `experimental_non_blocking` says")


class _Watcher:
    """One stream of Watch: the name that it asked for, how to send to it, and what it was told last."""

    __slots__ = ("name", "send", "told")

    def __init__(self, name: str, send: Callable[[Any], None]) -> None:
        self.name = name
        self.send = send
        self.told: int | None = None


class HealthServicer(health_pb2_grpc.HealthServicer):
    """Answers SERVING for a name while its check passes; from the start of a drain on for none but "liveness".

    Args:
        checks: Name -> check, beside "calls" and, unless given, "liveness", which always pass.
    """

    def __init__(self, checks: Mapping[str, Check]) -> None:
        self._checks: dict[str, Check] = {CALLS: lambda: True, LIVENESS: lambda: True, **checks}
        self._draining = threading.Event()
        self._closed = threading.Event()
        self._watchers: set[_Watcher] = set()
        # Two locks, since a message is sent only once gRPC's own thread has seen to it, which may be waiting to forget.
        self._lock = threading.Lock()
        self._telling = threading.Lock()
        self._teller: threading.Thread | None = None

    def drain(self) -> None:
        """Answer NOT_SERVING from now on, and tell whoever watches at once."""
        self._draining.set()
        states = {name: _NOT_SERVING for name in self._checks if name != LIVENESS}
        # On a thread of its own: a watcher that does not read cannot hold up the end of the process.
        threading.Thread(target=self._tell, args=(states,), name="drain-notice", daemon=True).start()

    def close(self) -> None:
        """End the streams of those who watch: nothing changes any more."""
        self._closed.set()
        with self._lock:
            watchers, self._watchers = self._watchers, set()
        for watcher in watchers:
            watcher.send(None)

    def Check(  # noqa: N802 - the name is gRPC's
        self, request: health_pb2.HealthCheckRequest, context: grpc.ServicerContext
    ) -> health_pb2.HealthCheckResponse:
        """Answer the present state; NOT_FOUND for a name that is not here."""
        if request.service not in self._checks:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such service in this process")
        return health_pb2.HealthCheckResponse(status=self._status(request.service))

    def Watch(  # noqa: N802 - the name is gRPC's
        self,
        request: health_pb2.HealthCheckRequest,
        context: grpc.ServicerContext,
        send_response_callback: Callable[[Any], None] = _send_nothing,
    ) -> None:
        """Stream the state now and at every change."""
        watcher = _Watcher(request.service, send_response_callback)
        with self._lock:
            if len(self._watchers) >= _WATCHERS_MAX or self._closed.is_set():
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many watchers; use Check")
            self._watchers.add(watcher)
            if self._teller is None:
                self._teller = threading.Thread(target=self._run_teller, name="health", daemon=True)
                self._teller.start()
        if not context.add_callback(lambda: self._forget(watcher)):
            self._forget(watcher)
        self._tell({watcher.name: self._status(watcher.name)})

    def _forget(self, watcher: _Watcher) -> None:
        with self._lock:
            self._watchers.discard(watcher)

    def _run_teller(self) -> None:
        while not self._closed.wait(_WATCH_PERIOD_S):
            with self._lock:
                names = {watcher.name for watcher in self._watchers}
            self._tell({name: self._status(name) for name in names})

    def _tell(self, states: Mapping[str, int]) -> None:
        with self._telling:
            with self._lock:
                watchers = [watcher for watcher in self._watchers if watcher.name in states]
            for watcher in watchers:
                # The check of a moment ago may have been overtaken by the drain.
                state = _NOT_SERVING if self._is_drained(watcher.name) else states[watcher.name]
                if state != watcher.told:
                    watcher.told = state
                    watcher.send(health_pb2.HealthCheckResponse(status=state))

    def _is_drained(self, name: str) -> bool:
        return self._draining.is_set() and name in self._checks and name != LIVENESS

    def _status(self, name: str) -> int:
        check = self._checks.get(name)
        if check is None:
            return _UNKNOWN
        return _SERVING if not self._is_drained(name) and check() else _NOT_SERVING


# Checks have threads of their own: a process whose threads all work is busy and does not hang.
_CHECKERS: Final = futures.ThreadPoolExecutor(_CHECK_THREADS, thread_name_prefix="health")
cast(Any, HealthServicer.Check).experimental_thread_pool = _CHECKERS
# Watch begins on them too, and then needs no thread: gRPC's way, as its own health service does it.
cast(Any, HealthServicer.Watch).experimental_thread_pool = _CHECKERS
cast(Any, HealthServicer.Watch).experimental_non_blocking = True

"""The gRPC server that every service runs in: registration, health, reflection, orderly drain."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent import futures
from typing import Any, cast

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from services.runtime.call_context import bind_call, release_call
from services.runtime.handlers import Handler, wrap_handlers
from services.runtime.health import Check, HealthServicer
from services.runtime.logging import get_logger
from services.runtime.peer import CheckPeer, admit_only
from services.runtime.transport import PLAIN, REQUEST_BYTES_MAX, Transport

THREAD_COUNT = 24
DRAIN_S = 8.0
OTHERS_S = 1.5
_REFLECTION_THREADS = 2

log = get_logger()


class _Collector:
    """Takes what a generated `add_XServicer_to_server` registers, so that it can be wrapped first."""

    def __init__(self) -> None:
        self.handlers: dict[str, dict[str, Handler]] = {}

    def add_generic_rpc_handlers(self, _handlers: object) -> None:
        """Ignore the second, older form of the same registration."""

    def add_registered_method_handlers(self, service: str, handlers: dict[str, Handler]) -> None:
        """Keep the handlers of one service."""
        self.handlers[service] = handlers


class Registry:
    """What a service's `build` fills: servicers, readiness checks and what to close at the end.

    Attributes:
        request_bytes_max: Greatest size of one request.
    """

    def __init__(self) -> None:
        self.request_bytes_max = REQUEST_BYTES_MAX
        self.services: dict[str, dict[str, Handler]] = {}
        self._checks: list[Check] = []
        self._checks_of_others: list[Check] = []
        self._asking_others = threading.Lock()
        self._others_answered_last = False
        self._others_have_answered = False
        self._reports: dict[str, Check] = {}
        self._check_peer: CheckPeer | None = None
        self._closers: list[Callable[[], None]] = []

    def add(self, add_servicer_to_server: Callable[[Any, Any], None], servicer: object) -> None:
        """Register a servicer through its generated `add_XServicer_to_server`."""
        collector = _Collector()
        add_servicer_to_server(servicer, collector)
        for service, handlers in collector.handlers.items():
            self.services[service] = wrap_handlers(service, handlers, self._check_peer)

    def admit_only(self, peers: Iterable[str]) -> None:
        """Serve what is added from now on to these services alone, known by their certificates."""
        self._check_peer = admit_only(peers)

    def ready_when(self, check: Check, *, of_another: bool = False) -> None:
        """Be ready only while `check` is true. It runs at every health check, so it must be quick; raising is false.

        Args:
            check: What must hold.
            of_another: It asks another process, such as storage, and has OTHERS_S; see `is_in_service`.
        """
        (self._checks_of_others if of_another else self._checks).append(check)

    def report(self, name: str, check: Check) -> None:
        """Let the health service answer for one more name, SERVING while `check` is true; raising is false."""
        self._reports[name] = lambda: _holds([check])

    def on_close(self, close: Callable[[], None]) -> None:
        """Run `close` after the last call has ended; later registrations run first."""
        self._closers.append(close)

    def is_ready(self) -> bool:
        """Run the readiness checks."""
        return self._is_well() and self._others_answer()

    def is_in_service(self) -> bool:
        """Whether calls should be sent here: as `is_ready`, but what others do counts only until they did it once.

        A process that has never reached storage is set up wrongly and should get no calls. When storage is away later,
        it is away for all processes of the service alike: without any of them callers would not even be refused.
        """
        return self._is_well() and (self._others_have_answered or self._others_answer())

    def checks(self, readiness: Check) -> dict[str, Check]:
        """Return what the health service answers for.

        Args:
            readiness: The state of "": `is_ready` or `is_in_service`.
        """
        return {"": readiness, **dict.fromkeys(self.services, readiness), **self._reports}

    def _is_well(self) -> bool:
        return _holds(self._checks)

    def _others_answer(self) -> bool:
        # One asks, whoever comes meanwhile is told what was so last: a service that hangs takes one thread, not all.
        if self._asking_others.acquire(blocking=False):
            bind_call("", OTHERS_S)
            try:
                self._others_answered_last = _holds(self._checks_of_others)
            finally:
                release_call()
                self._asking_others.release()
            self._others_have_answered |= self._others_answered_last
        return self._others_answered_last

    def close(self) -> None:
        """Run what `on_close` registered; a failure is logged and the rest still runs."""
        while self._closers:
            try:
                self._closers.pop()()
            except Exception as error:
                log.error("close_failed", exc_info=error)


def _holds(checks: Iterable[Check]) -> bool:
    try:
        return all(check() for check in checks)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong, the answer is "no"
        # Whoever asks is told; every second while a suite starts is nothing to be warned of.
        log.debug("readiness_check_failed", error=type(error).__name__)
        return False


class _Reflection(reflection.ReflectionServicer):
    """The standard service, on threads of its own: whoever leaves a stream open takes none from calls."""

    def ServerReflectionInfo(self, request_iterator: Any, context: Any) -> Any:  # noqa: N802 - the name is gRPC's
        """Answer what is asked."""
        return super().ServerReflectionInfo(request_iterator, context)


cast(Any, _Reflection.ServerReflectionInfo).experimental_thread_pool = futures.ThreadPoolExecutor(
    _REFLECTION_THREADS, thread_name_prefix="reflection"
)


class RunningServer:
    """A started server.

    Attributes:
        port: The bound TCP port; None for a Unix socket.
    """

    def __init__(
        self,
        registry: Registry,
        listen: str,
        *,
        transport: Transport = PLAIN,
        thread_count: int = THREAD_COUNT,
    ) -> None:
        """Bind `listen` and start.

        Args:
            registry: What to serve.
            listen: See `Transport.bind`.
            transport: What makes and binds the server.
            thread_count: Calls that run at once; more wait.

        Raises:
            CannotStart: The address cannot be bound.
        """
        self._registry = registry
        self._health = HealthServicer(registry.checks(registry.is_ready))
        self._server = transport.make_server(thread_count, registry.request_bytes_max)
        for service, handlers in registry.services.items():
            self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
            self._server.add_registered_method_handlers(service, handlers)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        health_name = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
        served = (*registry.services, health_name, reflection.SERVICE_NAME)
        cast(Any, reflection_pb2_grpc).add_ServerReflectionServicer_to_server(_Reflection(served), self._server)
        bound = transport.bind(self._server, listen)
        self.port = None if listen.startswith("unix:") else bound
        self._server.start()

    def announce_drain(self) -> None:
        """Report NOT_SERVING, so that callers go elsewhere, and go on serving."""
        self._health.drain()

    def drain(self, grace_s: float = DRAIN_S) -> None:
        """Stop: report NOT_SERVING, refuse new calls, give running ones `grace_s` seconds, then close everything."""
        self._health.drain()
        self._health.close()
        self._server.stop(grace_s).wait()
        self._registry.close()

"""The gRPC server that every service runs in: registration, health, reflection, orderly drain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from services.runtime.handlers import Handler, wrap_handlers
from services.runtime.health import HealthServicer
from services.runtime.logging import get_logger
from services.runtime.transport import PLAIN, Transport

THREAD_COUNT = 24
DRAIN_S = 8.0

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
    """What a service's `build` fills: servicers, readiness checks and what to close at the end."""

    def __init__(self) -> None:
        self.services: dict[str, dict[str, Handler]] = {}
        self._checks: list[Callable[[], bool]] = []
        self._closers: list[Callable[[], None]] = []

    def add(self, add_servicer_to_server: Callable[[Any, Any], None], servicer: object) -> None:
        """Register a servicer through its generated `add_XServicer_to_server`."""
        collector = _Collector()
        add_servicer_to_server(servicer, collector)
        for service, handlers in collector.handlers.items():
            self.services[service] = wrap_handlers(service, handlers)

    def ready_when(self, check: Callable[[], bool]) -> None:
        """Be ready only while `check` is true. It runs at every health check, so it must be quick; raising is false."""
        self._checks.append(check)

    def on_close(self, close: Callable[[], None]) -> None:
        """Run `close` after the last call has ended; later registrations run first."""
        self._closers.append(close)

    def is_ready(self) -> bool:
        """Run the readiness checks."""
        try:
            return all(check() for check in self._checks)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong, the answer is "not ready"
            log.warning("readiness_check_failed", error=type(error).__name__)
            return False

    def close(self) -> None:
        """Run what `on_close` registered; a failure is logged and the rest still runs."""
        while self._closers:
            try:
                self._closers.pop()()
            except Exception as error:
                log.error("close_failed", exc_info=error)


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
        self._health = HealthServicer(registry.is_ready)
        self._server = transport.make_server(thread_count)
        for service, handlers in registry.services.items():
            self._health.know(service)
            self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
            self._server.add_registered_method_handlers(service, handlers)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        health_name = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
        reflection.enable_server_reflection((*registry.services, health_name, reflection.SERVICE_NAME), self._server)
        bound = transport.bind(self._server, listen)
        self.port = None if listen.startswith("unix:") else bound
        self._server.start()

    def drain(self, grace_s: float = DRAIN_S) -> None:
        """Stop: report NOT_SERVING, refuse new calls, give running ones `grace_s` seconds, then close everything."""
        self._health.drain()
        self._server.stop(grace_s).wait()
        self._registry.close()

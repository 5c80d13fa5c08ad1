"""The gRPC server that every service runs in: registration, health, reflection, orderly drain.

A service's `__main__` is one call:

    def build(registry: Registry) -> None:
        store = open_store(...)
        registry.on_close(store.close)
        registry.ready_when(store.is_open)
        registry.add(storage_service_pb2_grpc.add_StorageServiceServicer_to_server, StorageServicer(store))

    sys.exit(serve("storage", build, listen=arguments.listen))
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from services.domain.errors import WaggleError
from services.runtime.channel import MESSAGE_BYTES_MAX
from services.runtime.handlers import Handler, wrap_handlers
from services.runtime.health import HealthServicer
from services.runtime.logging import configure_logging, get_logger

THREAD_COUNT = 24
DRAIN_S = 8.0
EXIT_CANNOT_START = 3
START_REPORT_VARIABLE = "WAGGLE_START_REPORT"

_SERVER_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    # Two servers on one port would share its calls without either noticing.
    ("grpc.so_reuseport", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
)

log = get_logger()


class CannotStart(Exception):
    """Raised by `build` when the process must not start; the message is for the operator.

    Attributes:
        exit_code: The code that the process ends with, from 1 to 125.
    """

    def __init__(self, message: str, exit_code: int = EXIT_CANNOT_START) -> None:
        super().__init__(message)
        self.exit_code = exit_code


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
    """A started server. `port` is the bound TCP port, or 1 for a Unix socket."""

    def __init__(self, registry: Registry, listen: str, *, thread_count: int = THREAD_COUNT) -> None:
        """Bind `listen` and start.

        Args:
            registry: What to serve.
            listen: `unix:/path.sock`, made with mode 0600, or `host:port`; port 0 picks a free one.
            thread_count: Calls that run at once; more wait.

        Raises:
            CannotStart: The address cannot be bound.
        """
        self._registry = registry
        self._health = HealthServicer(registry.is_ready)
        self._server = grpc.server(
            futures.ThreadPoolExecutor(thread_count, thread_name_prefix="rpc"), options=_SERVER_OPTIONS
        )
        for service, handlers in registry.services.items():
            self._health.know(service)
            self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
            self._server.add_registered_method_handlers(service, handlers)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        health_name = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
        reflection.enable_server_reflection((*registry.services, health_name, reflection.SERVICE_NAME), self._server)
        previous_mask = os.umask(0o077)
        try:
            self.port: int = self._server.add_insecure_port(listen)
        except RuntimeError as error:
            raise CannotStart(f"cannot listen on {listen}: {error}") from error
        finally:
            os.umask(previous_mask)
        self._server.start()

    def drain(self, grace_s: float = DRAIN_S) -> None:
        """Stop: report NOT_SERVING, refuse new calls, give running ones `grace_s` seconds, then close everything."""
        self._health.drain()
        self._server.stop(grace_s).wait()
        self._registry.close()


def report_cannot_start(error: CannotStart | WaggleError) -> int:
    """Log why the process does not start, hand the reason to the supervisor, and return the exit code.

    `WAGGLE_START_REPORT` names the file that the supervisor reads, so that the operator sees the sentence itself and
    need not look for it among the logs.
    """
    message = str(error) if isinstance(error, CannotStart) else error.message
    log.error("cannot_start", message=message)
    report = os.environ.get(START_REPORT_VARIABLE)
    if report:
        Path(report).write_text(message, encoding="utf-8")
    return error.exit_code if isinstance(error, CannotStart) else EXIT_CANNOT_START


def serve(name: str, build: Callable[[Registry], None], listen: str, *, thread_count: int = THREAD_COUNT) -> int:
    """Run a service until SIGTERM or SIGINT, then drain it.

    Args:
        name: The service, as it stands in logs.
        build: Fills the registry; raises CannotStart (or a WaggleError) with a message for the operator.
        listen: See RunningServer.
        thread_count: Calls that run at once; more wait.

    Returns:
        The exit code: 0 after a drain, else what CannotStart says.
    """
    configure_logging(name)
    # Signals are noted from the start: one that comes during a slow start must not be lost.
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())
    registry = Registry()
    try:
        build(registry)
        server = RunningServer(registry, listen, thread_count=thread_count)
    except (CannotStart, WaggleError) as error:
        registry.close()
        return report_cannot_start(error)
    log.info("listening", address=listen, port=server.port)
    stop.wait()
    log.info("draining")
    server.drain()
    log.info("stopped")
    return 0

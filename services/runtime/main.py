"""The main program that all processes of a suite have: read the command line, build, serve, drain on SIGTERM, log.

A service's `__main__` says only what is its own:

    def build(registry: Registry, process: Process) -> None:
        store = GrpcStore(read_settings(Settings, process.environment).storage_address, process.transport)
        registry.on_close(store.close)
        registry.add(memory_service_pb2_grpc.add_MemoryServiceServicer_to_server, MemoryServicer(store))

    def main(arguments: list[str] | None = None) -> int:
        return run_service("memory", build, arguments, description="The memory service.")
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final

from services.domain.errors import WaggleError
from services.runtime.health_listener import HealthListener, open_health_listener
from services.runtime.logging import configure_logging, get_logger
from services.runtime.metrics import BUILD, CERTIFICATE_END, MetricsSettings, serve_metrics
from services.runtime.server import Registry, RunningServer
from services.runtime.settings import IntegerVariable, read_settings
from services.runtime.start_failure import CannotStart, report_cannot_start
from services.runtime.tracing import NO_TRACING, Tracing, open_tracing
from services.runtime.transport import Transport, read_transport
from services.runtime.version import VERSION

DRAIN_NOTICE_VARIABLE: Final = "WAGGLE_DRAIN_NOTICE_MS"
SIGNAL_CHECK_S: Final = 0.5
"""A signal that the kernel gave to another thread is only handled once the main thread wakes."""
LISTEN_HELP = "unix:/path/to.sock or host:port"

log = get_logger()


@dataclass(frozen=True, slots=True)
class Process:
    """What one process was started with.

    Attributes:
        name: The service, as it stands in logs.
        listen: Where it serves.
        environment: Its variables.
        flags: The whole command line; `listen` is of all processes, the others are the service's own.
        transport: Its servers and channels come from here.
        tracing: How its calls are traced; those of its transport are already.
    """

    name: str
    listen: str
    environment: Mapping[str, str]
    flags: argparse.Namespace = field(default_factory=argparse.Namespace)
    transport: Transport = field(default_factory=Transport)
    tracing: Tracing = NO_TRACING


@dataclass(frozen=True, slots=True)
class DrainSettings:
    """How a process ends that others share their calls among.

    Attributes:
        notice_ms: From the word that it is about to leave to the end of its service: long enough for callers to hear
            it. Those that watch the name "calls" do at once; those that ask for health from time to time need longer.
    """

    notice_ms: Annotated[int, IntegerVariable(DRAIN_NOTICE_VARIABLE, least=0, greatest=60_000)] = 500


Build = Callable[[Registry, Process], None]
AddFlags = Callable[[argparse.ArgumentParser], None]


def run_process(
    name: str,
    run: Callable[[Process], int],
    arguments: list[str] | None,
    *,
    description: str,
    add_flags: AddFlags | None = None,
    listen_default: str | None = None,
    listen_help: str = LISTEN_HELP,
) -> int:
    """Read the command line, set up what every process has, and run it.

    Args:
        name: The service: `python -m services.<name>`.
        run: Serves until the process is told to stop, and returns its exit code.
        arguments: The command line without the program's name; None for that of the process.
        description: What the process is, for `--help`.
        add_flags: Adds the flags that only this service has.
        listen_default: Where it serves when `--listen` is not given; None when it must be.
        listen_help: What `--listen` takes.

    Returns:
        The exit code: that of `run`, or what CannotStart says.
    """
    parser = argparse.ArgumentParser(prog=f"python -m services.{name}", description=description)
    if add_flags is not None:
        add_flags(parser)
    parser.add_argument("--listen", required=listen_default is None, default=listen_default, help=listen_help)
    flags = parser.parse_args(arguments)
    configure_logging(name)
    try:
        with _tracing(name, os.environ) as tracing:
            transport = dataclasses.replace(
                read_transport(os.environ),
                server_interceptors=tracing.server_interceptors,
                channel_interceptors=tracing.channel_interceptors,
                async_channel_interceptors=tracing.async_channel_interceptors,
            )
            process = Process(name, flags.listen, os.environ, flags, transport, tracing)
            with _metrics(process):
                return run(process)
    except (CannotStart, WaggleError) as error:
        return report_cannot_start(error)


@contextlib.contextmanager
def _tracing(name: str, environment: Mapping[str, str]) -> Iterator[Tracing]:
    tracing = open_tracing(name, environment)
    try:
        yield tracing
    finally:
        tracing.close()


@contextlib.contextmanager
def _metrics(process: Process) -> Iterator[None]:
    """Serve the metrics of a process for as long as it runs, where an operator wants them."""
    BUILD.labels(process.name, VERSION).set(1)
    if (key_material := process.transport.key_material) is not None:
        CERTIFICATE_END.labels(process.name).set_function(lambda: key_material.newest().end_s)
    listen = read_settings(MetricsSettings, process.environment).listen
    if not listen:
        yield
        return
    server = serve_metrics(listen)
    log.info("metrics_listening", port=server.port)
    try:
        yield
    finally:
        server.close()


def run_service(
    name: str,
    build: Build,
    arguments: list[str] | None,
    *,
    description: str,
    add_flags: AddFlags | None = None,
    gives_notice: bool = True,
) -> int:
    """Run a gRPC service until SIGTERM or SIGINT, then drain it; see `run_process`.

    Args:
        build: Fills the registry; raises CannotStart (or a WaggleError) with a message for the operator.
        gives_notice: Other processes take over its calls, so that it goes on for a moment; see `DrainSettings`.
    """

    def run(process: Process) -> int:
        return _serve(build, process, read_settings(DrainSettings, process.environment).notice_ms * gives_notice)

    return run_process(name, run, arguments, description=description, add_flags=add_flags)


def _serve(build: Build, process: Process, notice_ms: int) -> int:
    # Signals are noted from the start: one that comes during a slow start must not be lost.
    stop, hurry = threading.Event(), threading.Event()

    def note_signal(_number: int, _frame: object) -> None:
        (hurry if stop.is_set() else stop).set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, note_signal)
    registry = Registry()
    try:
        build(registry, process)
        server = RunningServer(registry, process.listen, transport=process.transport)
        probes = _open_probes(registry, process, server)
    except (CannotStart, WaggleError):
        registry.close()
        raise
    port = {} if server.port is None else {"port": server.port}
    log.info("listening", address=process.listen, **port)
    while not stop.wait(SIGNAL_CHECK_S):
        pass
    log.info("draining")
    probes.drain()
    server.announce_drain()
    hurry.wait(notice_ms / 1000)
    server.drain()
    probes.close()
    log.info("stopped")
    return 0


def _open_probes(registry: Registry, process: Process, server: RunningServer) -> HealthListener:
    try:
        return open_health_listener(process.environment, registry.checks(registry.is_in_service))
    except CannotStart:
        server.drain(0)
        raise

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
import os
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from services.domain.errors import WaggleError
from services.runtime.logging import configure_logging, get_logger
from services.runtime.server import Registry, RunningServer
from services.runtime.start_failure import CannotStart, report_cannot_start
from services.runtime.transport import Transport

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
    """

    name: str
    listen: str
    environment: Mapping[str, str]
    flags: argparse.Namespace = field(default_factory=argparse.Namespace)
    transport: Transport = field(default_factory=Transport)


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
        return run(Process(name, flags.listen, os.environ, flags))
    except (CannotStart, WaggleError) as error:
        return report_cannot_start(error)


def run_service(
    name: str,
    build: Build,
    arguments: list[str] | None,
    *,
    description: str,
    add_flags: AddFlags | None = None,
) -> int:
    """Run a gRPC service until SIGTERM or SIGINT, then drain it; see `run_process`.

    Args:
        build: Fills the registry; raises CannotStart (or a WaggleError) with a message for the operator.
    """
    return run_process(
        name, lambda process: _serve(build, process), arguments, description=description, add_flags=add_flags
    )


def _serve(build: Build, process: Process) -> int:
    # Signals are noted from the start: one that comes during a slow start must not be lost.
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())
    registry = Registry()
    try:
        build(registry, process)
        server = RunningServer(registry, process.listen, transport=process.transport)
    except (CannotStart, WaggleError):
        registry.close()
        raise
    port = {} if server.port is None else {"port": server.port}
    log.info("listening", address=process.listen, **port)
    stop.wait()
    log.info("draining")
    server.drain()
    log.info("stopped")
    return 0

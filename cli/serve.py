"""`waggle serve`: the whole suite on one machine."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Annotated

import typer

from cli.console import EXIT_FILE_SYSTEM, fail, out
from cli.edge import (
    DEFAULT_EDGE_LISTEN,
    CertificateKeyOption,
    CertificateOption,
    EdgeListenOption,
    EnvoyOption,
    TranscoderListenOption,
    plan_edge,
)
from cli.liveness import INTERVAL_S
from cli.succession import FormerSuiteRemains, succeed_former
from cli.suite import RUN_DIRECTORY, AlreadyRunning, SuiteLayout, SupervisorLock, plan_layout
from cli.supervisor import StartFailed, Supervisor
from services.runtime.http_address import parse_http_address
from services.runtime.key_material import TLS_VARIABLES
from services.runtime.logging import configure_logging
from services.runtime.metrics import METRICS_VARIABLE

DEFAULT_LISTEN = "127.0.0.1:7474"
DEFAULT_DATA_DIRECTORY = Path("data")

EXIT_CANNOT_LISTEN = 69
EXIT_NO_STORE = 66
EXIT_HELD = 75

DataDirectory = Annotated[
    Path, typer.Option("--data-dir", envvar="WAGGLE_DATA_DIR", help="Directory of the store.", show_default=True)
]


def serve(
    data_dir: DataDirectory = DEFAULT_DATA_DIRECTORY,
    listen: Annotated[
        str, typer.Option(envvar="WAGGLE_LISTEN", help="Where HTTP is served, as HOST:PORT.")
    ] = DEFAULT_LISTEN,
    envoy: EnvoyOption = False,
    edge_listen: EdgeListenOption = DEFAULT_EDGE_LISTEN,
    transcoder_listen: TranscoderListenOption = "",
    certificate: CertificateOption = None,
    certificate_key: CertificateKeyOption = None,
    liveness_interval: Annotated[
        float,
        typer.Option(
            envvar="WAGGLE_LIVENESS_INTERVAL_S",
            min=0.0,
            metavar="SECONDS",
            help="How often each process is asked whether it lives; after three misses it is replaced. 0: never.",
        ),
    ] = INTERVAL_S,
    metrics_listen: Annotated[
        str,
        typer.Option(
            envvar=METRICS_VARIABLE,
            help="Where Prometheus reads storage's metrics, as HOST:PORT; each further process takes the next port.",
        ),
    ] = "",
) -> None:
    """Run all services on one machine until SIGTERM or Ctrl-C.

    Prints one line when everything is ready; logs are JSON lines on standard error.
    """
    configure_logging("supervisor")
    # Whatever the processes create holds memory or guards it.
    os.umask(0o077)
    host, port = parse_listen(listen)
    if any(os.environ.get(name) for name in TLS_VARIABLES):
        fail(
            "WAGGLE_TLS_* is for processes that are started one by one, each with its own certificate; those of "
            "`waggle serve` reach each other over sockets that only you may open. Unset it",
            2,
        )
    if not data_dir.is_dir():
        fail(f"{data_dir} is not there; make a store with: waggle admin create-store {data_dir}", EXIT_NO_STORE)
    try:
        edge = plan_edge(data_dir, edge_listen, transcoder_listen, certificate, certificate_key) if envoy else None
        metrics = parse_listen(metrics_listen, "--metrics-listen") if metrics_listen else None
        layout = plan_layout(data_dir, host, port, edge, metrics)
        lock = SupervisorLock(data_dir / RUN_DIRECTORY)
    except AlreadyRunning as error:
        fail(str(error), EXIT_HELD)
    except OSError as error:
        fail(f"{data_dir} cannot be used: {error}", EXIT_FILE_SYSTEM)
    try:
        with succeed_former(data_dir / RUN_DIRECTORY) as descriptor:
            require_free(host, port)
            if edge is not None:
                require_free(edge.host, edge.port, "--edge-listen")
            if metrics is not None:
                for index in range(len(layout.processes)):
                    require_free(metrics[0], metrics[1] + index, "--metrics-listen")
            supervisor = Supervisor(layout, descriptor, liveness_interval_s=liveness_interval)
            supervisor.run(on_ready=lambda: _announce(layout))
    except FormerSuiteRemains as error:
        fail(str(error), EXIT_HELD)
    except StartFailed as error:
        fail(str(error), error.exit_code)
    except TimeoutError as error:
        fail(str(error))
    finally:
        lock.close()


def _announce(layout: SuiteLayout) -> None:
    edge = "" if layout.edge is None else f" and {layout.edge.url} (certificate {layout.edge.certificate})"
    out.print(
        f"Waggle is ready at {layout.url}{edge} (data in {layout.data_directory}, pid {os.getpid()}, Ctrl-C stops it)",
        markup=False,
    )


def parse_listen(text: str, option: str = "--listen") -> tuple[str, int]:
    """Split HOST:PORT, with a port that others can be told; no host means this machine only."""
    try:
        host, port = parse_http_address(text)
    except ValueError:
        port = 0
    if not port:
        fail(f"{option} {text}: HOST:PORT is expected, for example {DEFAULT_LISTEN}", 2)
    return host or "127.0.0.1", port


def require_free(host: str, port: int, option: str = "--listen") -> None:
    """End with a clear message when nobody could listen on host and port now."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        fail(f"cannot listen on {host}:{port}: {error.strerror or error}; choose with {option}", EXIT_CANNOT_LISTEN)

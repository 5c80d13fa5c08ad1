"""Run the edge: `python -m services.edge`.

As it stands this is the deployed configuration, deploy/envoy/envoy.yaml, at its deployed places. `--listen` moves the
listeners, and variables such as WAGGLE_GATEWAY_ADDRESS what stands behind. SIGTERM drains: clients are told to leave,
running requests may finish, then Envoy ends.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from services.edge.configuration import (
    BadConfiguration,
    Bootstrap,
    Places,
    load_deployed,
    move,
    secret_documents,
    write_secrets,
)
from services.edge.envoy import Envoy, EnvoyMissing, find_envoy
from services.runtime.http_address import parse_http_address
from services.runtime.key_material import read_tls_files
from services.runtime.logging import get_logger
from services.runtime.main import Process, run_process
from services.runtime.settings import PathVariable, TextVariable, read_settings
from services.runtime.start_failure import CannotStart

ROOT: Final = Path(__file__).resolve().parents[2]
DESCRIPTOR_SET_PATH: Final = ROOT / "waggle" / "descriptor_set.binpb"
SOURCE_CONFIGURATION: Final = ROOT / "deploy" / "envoy" / "envoy.yaml"
DEPLOYED_TLS: Final = Path("/etc/waggle/edge-tls")
DRAIN_S: Final = 8.0
WATCH_S: Final = 0.1

log = get_logger()


@dataclass(frozen=True, slots=True)
class Settings:
    """Whom the edge passes requests on to, where that is not as deployed.

    Attributes:
        configuration: The deployed configuration of Envoy, where it is not in the source tree, as in an image.
    """

    configuration: Annotated[Path, PathVariable("WAGGLE_ENVOY_CONFIGURATION")] = SOURCE_CONFIGURATION
    gateway_address: Annotated[str, TextVariable("WAGGLE_GATEWAY_ADDRESS")] = ""
    identity_address: Annotated[str, TextVariable("WAGGLE_IDENTITY_ADDRESS")] = ""
    memory_address: Annotated[str, TextVariable("WAGGLE_MEMORY_ADDRESS")] = ""
    retrieval_address: Annotated[str, TextVariable("WAGGLE_RETRIEVAL_ADDRESS")] = ""
    consolidation_address: Annotated[str, TextVariable("WAGGLE_CONSOLIDATION_ADDRESS")] = ""

    def clusters(self) -> dict[str, str]:
        """Return cluster -> address, of those that are not as deployed."""
        names = ("gateway", "identity", "memory", "retrieval", "consolidation")
        return {name: address for name in names if (address := getattr(self, f"{name}_address"))}


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add what only the edge is told."""
    parser.add_argument("--transcoder-listen", default="", help="with --listen: HOST:PORT of the transcoder; else none")
    parser.add_argument("--certificate", type=Path, default=DEPLOYED_TLS / "tls.crt", help="PEM file, the whole chain")
    parser.add_argument("--key", type=Path, default=DEPLOYED_TLS / "tls.key", help="PEM file of its private key")
    parser.add_argument(
        "--run-directory", type=Path, help="for its sockets and files, private to it; a new one if not given"
    )
    parser.add_argument("--config", type=Path, help="the deployed configuration of Envoy, WAGGLE_ENVOY_CONFIGURATION")
    parser.add_argument("--envoy", default="", help="the program, when it is not `envoy` on PATH")
    parser.add_argument("--concurrency", type=int, default=1, help="worker threads of Envoy")


def run(process: Process) -> int:
    """Run Envoy until SIGTERM or SIGINT, or until it ends by itself.

    Returns:
        0, after a drain.

    Raises:
        CannotStart: There is no Envoy, a setting is malformed, a file cannot be used, or Envoy has ended by itself.
    """
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())
    with contextlib.ExitStack() as stack:
        directory = process.flags.run_directory
        if directory is None:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="waggle-edge-")))
        try:
            binary = find_envoy(process.flags.envoy)
            bootstrap = _configuration(process, directory)
            envoy = Envoy(binary, bootstrap, directory, concurrency=process.flags.concurrency)
        except (BadConfiguration, EnvoyMissing, OSError, ValueError) as error:
            raise CannotStart(str(error)) from error
        _serve(envoy, process, stop)
    return 0


def _serve(envoy: Envoy, process: Process, stop: threading.Event) -> None:
    log.info("listening", address=process.listen or "as deployed")
    while envoy.process.poll() is None and not stop.wait(WATCH_S):
        pass
    if not stop.is_set():
        raise CannotStart(f"Envoy ended with exit code {envoy.process.returncode}; its own words are in the log")
    log.info("draining")
    envoy.drain(DRAIN_S)
    envoy.stop()
    log.info("stopped")


def _configuration(process: Process, directory: Path) -> Bootstrap:
    flags = process.flags
    settings = read_settings(Settings, process.environment)
    listeners = None
    if process.listen:
        listeners = {"edge": parse_http_address(process.listen)}
        if flags.transcoder_listen:
            listeners["transcoder"] = parse_http_address(flags.transcoder_listen)
    for path in (flags.certificate, flags.key):
        if not os.access(path, os.R_OK):
            raise BadConfiguration(f"{path} cannot be read")
    internal_tls = read_tls_files(process.environment)
    secrets_directory = directory / "envoy-secrets"
    # Not resolved: Kubernetes renews a secret by pointing a link elsewhere, which must go on being followed.
    write_secrets(secret_documents(flags.certificate.absolute(), flags.key.absolute(), internal_tls), secrets_directory)
    places = Places(
        admin_socket=directory / "envoy.sock",
        secrets_directory=secrets_directory,
        descriptor_set=DESCRIPTOR_SET_PATH,
        listeners=listeners,
        clusters=settings.clusters(),
        internal_tls=internal_tls is not None,
    )
    return move(load_deployed(flags.config or settings.configuration), places)


def main(arguments: list[str] | None = None) -> int:
    """Serve until told to stop, and return the exit code; see `run_process` for the arguments."""
    return run_process(
        "edge",
        run,
        arguments,
        description="The edge: Envoy before the gateway and the services.",
        add_flags=add_flags,
        listen_default="",
        listen_help="HOST:PORT of HTTPS and gRPC, and no other listener; as deployed when it is not given",
    )


if __name__ == "__main__":
    sys.exit(main())

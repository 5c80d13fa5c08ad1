"""The options of `waggle serve` that concern the edge."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Annotated

import typer

from cli.console import fail
from cli.suite import EdgeLayout
from services.edge.certificate import ensure_certificate
from services.edge.envoy import EnvoyMissing, find_envoy
from services.runtime.http_address import parse_http_address

DEFAULT_EDGE_LISTEN = "127.0.0.1:7443"
EDGE_DIRECTORY = "edge"
EXIT_NO_ENVOY = 69
EXIT_NO_CERTIFICATE = 66

EnvoyOption = Annotated[
    bool, typer.Option("--envoy", envvar="WAGGLE_ENVOY", help="Serve HTTPS and gRPC through Envoy as well.")
]
EdgeListenOption = Annotated[
    str, typer.Option("--edge-listen", envvar="WAGGLE_EDGE_LISTEN", help="With --envoy: where it serves, HOST:PORT.")
]
TranscoderListenOption = Annotated[
    str,
    typer.Option(
        "--transcoder-listen",
        envvar="WAGGLE_TRANSCODER_LISTEN",
        help="With --envoy: where protobuf's standard JSON is served; nowhere by default.",
        show_default=False,
    ),
]
CertificateOption = Annotated[
    Path | None,
    typer.Option("--certificate", envvar="WAGGLE_EDGE_CERTIFICATE", help="With --envoy: PEM; self-made by default."),
]
CertificateKeyOption = Annotated[
    Path | None,
    typer.Option("--certificate-key", envvar="WAGGLE_EDGE_KEY", help="With --envoy: PEM of the certificate's key."),
]


def plan_edge(
    data_directory: Path, listen: str, transcoder_listen: str, certificate: Path | None, key: Path | None
) -> EdgeLayout:
    """Decide where the edge serves and with which certificate; a self-made one is kept in the data directory.

    Ends the command with a message when there is no Envoy, or an option cannot be used.
    """
    try:
        envoy = find_envoy()
        host, port = parse_http_address(listen)
        if transcoder_listen:
            parse_http_address(transcoder_listen)
    except EnvoyMissing as error:
        fail(str(error), EXIT_NO_ENVOY)
    except ValueError as error:
        fail(f"{error}, as in {DEFAULT_EDGE_LISTEN}", 2)
    if (certificate is None) != (key is None):
        fail("--certificate and --certificate-key are given together, or neither", 2)
    host = host or "127.0.0.1"
    try:
        if certificate is None or key is None:
            now = datetime.datetime.now(datetime.UTC)
            certificate, key = ensure_certificate(data_directory / EDGE_DIRECTORY, host, now=now)
        for path in (certificate, key):
            path.open("rb").close()
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}", EXIT_NO_CERTIFICATE)
    return EdgeLayout(host, port, certificate.resolve(), key.resolve(), transcoder_listen, str(envoy))

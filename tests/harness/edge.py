"""The deployed Envoy configuration on a real Envoy, before whatever a test wants behind it."""

from __future__ import annotations

import datetime
import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from services.edge.certificate import ensure_certificate
from services.edge.configuration import Places, load_deployed, move, secret_documents, write_secrets
from services.edge.envoy import Envoy, find_envoy
from services.gateway.descriptors import DESCRIPTOR_SET_PATH
from services.runtime.key_material import TlsFiles
from tests.harness.raw_http import Door
from tests.harness.suite import wait_until

ENVOY_YAML = Path(__file__).resolve().parents[2] / "deploy" / "envoy" / "envoy.yaml"
EDGE_SERVICES = ("gateway", "identity", "memory", "retrieval", "consolidation")
LISTENERS = ("edge", "transcoder", "operations")
# Nobody listens here: port 1 is never given out.
NOWHERE = "127.0.0.1:1"

Tweak = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Edge:
    """A running edge.

    Attributes:
        envoy: The process.
        ports: Listener -> port.
        certificate: PEM file that clients trust.
        log: Its access log and its own words, JSON lines.
    """

    envoy: Envoy
    ports: dict[str, int]
    certificate: Path
    log: Path

    @property
    def door(self) -> Door:
        """The main listener, for HTTP/1.1."""
        return Door(self.ports["edge"], self.tls())

    def tls(self, *protocols: str) -> ssl.SSLContext:
        """A client's context that trusts this edge alone and offers protocols, http/1.1 when none is named."""
        return trusting(self.certificate, *protocols)

    def renewals(self) -> int:
        """How often key material for connections inside of the suite was read again."""
        _, body = self.envoy.ask("GET", "/stats?format=json&filter=client_ssl_socket_factory.ssl_context_update_by_sds")
        return sum(int(entry.get("value", 0)) for entry in json.loads(body)["stats"])

    def access(self, request_id: str) -> dict[str, Any]:
        """The line of one request in the access log, once it is written."""
        wait_until(lambda: any(line["request_id"] == request_id for line in self._access()), "the request is logged")
        (found,) = [line for line in self._access() if line["request_id"] == request_id]
        return found

    def _access(self) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines() if line.endswith("}")]
        return [line for line in lines if line["event"] == "http"]


def trusting(certificate: Path, *protocols: str) -> ssl.SSLContext:
    """A client's TLS context that trusts one certificate."""
    context = ssl.create_default_context(cafile=str(certificate))
    context.set_alpn_protocols(list(protocols) or ["http/1.1"])
    return context


def http_manager(bootstrap: dict[str, Any], listener: str = "edge") -> dict[str, Any]:
    """The connection manager of a listener's first filter chain, for tests that shorten a time-out."""
    (found,) = [entry for entry in bootstrap["static_resources"]["listeners"] if entry["name"] == listener]
    manager: dict[str, Any] = found["filter_chains"][0]["filters"][0]["typed_config"]
    return manager


def suit_tests(bootstrap: dict[str, Any]) -> None:
    """Let refused connections end sooner, and ask for health only once, so that a test can count requests."""
    http_manager(bootstrap)["delayed_close_timeout"] = "0.3s"
    for cluster in bootstrap["static_resources"]["clusters"]:
        for check in cluster.get("health_checks", []):
            check["interval"] = check["no_traffic_interval"] = "3600s"


@contextmanager
def running_edge(
    directory: Path, tweak: Tweak | None = None, *, internal_tls: TlsFiles | None = None, **clusters: str
) -> Iterator[Edge]:
    """Run Envoy with the deployed configuration.

    Args:
        directory: For its files; also of its admin socket, so not too deep.
        tweak: Changes the configuration in place, for time-outs that a test does not want to wait for.
        internal_tls: How it shows itself to what stands behind, where that speaks TLS.
        clusters: Cluster -> address; those that are not named lead nowhere.
    """
    certificate, key = ensure_certificate(directory / "tls", "127.0.0.1", now=datetime.datetime.now(datetime.UTC))
    write_secrets(secret_documents(certificate, key, internal_tls), directory / "secrets")
    places = Places(
        listeners=dict.fromkeys(LISTENERS, ("127.0.0.1", 0)),
        clusters={name: clusters.get(name, NOWHERE) for name in EDGE_SERVICES},
        admin_socket=directory / "admin.sock",
        secrets_directory=directory / "secrets",
        descriptor_set=DESCRIPTOR_SET_PATH,
        internal_tls=internal_tls is not None,
    )
    bootstrap = move(load_deployed(ENVOY_YAML), places)
    if tweak is not None:
        tweak(bootstrap)
    log_path = directory / "envoy.log"
    with log_path.open("w", encoding="utf-8") as log:
        envoy = Envoy(find_envoy(), bootstrap, directory, log=log)
    try:
        wait_until(lambda: envoy.is_ready() or envoy.process.poll() is not None, "Envoy is ready")
        assert envoy.process.poll() is None, log_path.read_text(encoding="utf-8")
        yield Edge(envoy, envoy.ports(), certificate, log_path)
    finally:
        envoy.stop()

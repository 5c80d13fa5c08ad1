"""The deployed configuration of Envoy, moved to other addresses, ports and files. Pure but for `load_deployed`.

Routes, limits, time-outs and replies stay what they are in deploy/envoy/envoy.yaml; only places are replaced. So what
runs on a laptop and in the tests is what runs in production.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

ADMIN_CLUSTER: Final = "admin"
GATEWAY_CLUSTER: Final = "gateway"

Bootstrap = dict[str, Any]
HostAndPort = tuple[str, int]

_TLS_TYPES = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3"


class BadConfiguration(Exception):
    """The configuration is not one that can be moved. The message says what is missing."""


@dataclass(frozen=True, slots=True)
class InternalTls:
    """How the edge shows itself to the services, and whom it trusts among them. PEM files.

    Attributes:
        certificate, key: Of the edge.
        authority: Signer of all certificates inside the suite.
    """

    certificate: Path
    key: Path
    authority: Path


@dataclass(frozen=True, slots=True)
class Places:
    """Where one Envoy listens, whom it reaches, and where its files are.

    Attributes:
        admin_socket: Unix socket of the admin interface.
        certificate_file: What `certificate_document` gives, as a file.
        descriptor_set: The file waggle/descriptor_set.binpb.
        listeners: Listener -> host and port; port 0 picks a free one. A listener that is not named is left out. None
            leaves all where they are.
        clusters: Cluster -> `host:port` or `unix:/path`; a cluster that is not named stays where it is.
        internal_tls: For connections to the gRPC services; None for plain ones.
    """

    admin_socket: Path
    certificate_file: Path
    descriptor_set: Path
    listeners: Mapping[str, HostAndPort] | None = None
    clusters: Mapping[str, str] = field(default_factory=dict)
    internal_tls: InternalTls | None = None


def load_deployed(path: Path) -> Bootstrap:
    """Read the deployed configuration.

    Raises:
        BadConfiguration: It is not there, or no configuration.
    """
    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadConfiguration(f"{path} cannot be read: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise BadConfiguration(f"{path} is no YAML: {error}") from error
    if not isinstance(loaded, dict) or "static_resources" not in loaded:
        raise BadConfiguration(f"{path} is no configuration of Envoy")
    return loaded


def move(deployed: Bootstrap, places: Places) -> Bootstrap:
    """Return the configuration at other places; the argument stays as it is.

    Raises:
        BadConfiguration: A place is given for a listener or cluster that it does not have.
    """
    bootstrap = copy.deepcopy(deployed)
    bootstrap["admin"]["address"] = _address(f"unix:{places.admin_socket}")
    resources = bootstrap["static_resources"]
    if places.listeners is not None:
        _check_names("listener", places.listeners, resources["listeners"])
        resources["listeners"] = [
            listener | {"address": _listening_address(*places.listeners[listener["name"]])}
            for listener in resources["listeners"]
            if listener["name"] in places.listeners
        ]
    _check_names("cluster", places.clusters, resources["clusters"])
    addresses = {**places.clusters, ADMIN_CLUSTER: f"unix:{places.admin_socket}"}
    for cluster in resources["clusters"]:
        if cluster["name"] in addresses:
            _move_cluster(cluster, addresses[cluster["name"]])
        if places.internal_tls is not None and cluster["name"] not in (ADMIN_CLUSTER, GATEWAY_CLUSTER):
            cluster["transport_socket"] = _internal_tls_socket(places.internal_tls, cluster["name"])
    _replace_values(resources, "path_config_source", {"path": str(places.certificate_file)})
    _replace_values(resources, "proto_descriptor", str(places.descriptor_set))
    return bootstrap


def certificate_document(certificate: Path, key: Path) -> dict[str, Any]:
    """The same as deploy/envoy/certificate.yaml for other files: read anew when the certificate's directory changes."""
    return {
        "resources": [
            {
                "@type": f"{_TLS_TYPES}.Secret",
                "name": "edge",
                "tls_certificate": {
                    "certificate_chain": {"filename": str(certificate)},
                    "private_key": {"filename": str(key)},
                    "watched_directory": {"path": str(certificate.parent)},
                },
            }
        ]
    }


def _check_names(kind: str, given: Iterable[str], known: Iterable[dict[str, Any]]) -> None:
    if unknown := set(given) - {entry["name"] for entry in known}:
        raise BadConfiguration(f"no {kind} {', '.join(sorted(unknown))} in the configuration")


def _move_cluster(cluster: dict[str, Any], address: str) -> None:
    # A name is resolved again and again while Envoy runs; a socket or an address stays what it is.
    address = address.removeprefix("dns:///")
    cluster["type"] = "STATIC" if address.startswith("unix:") or _is_numeric(address) else "STRICT_DNS"
    cluster["load_assignment"]["endpoints"] = [{"lb_endpoints": [{"endpoint": {"address": _address(address)}}]}]


def _internal_tls_socket(tls: InternalTls, service: str) -> dict[str, Any]:
    # Whoever answers must be this very service: its certificate says so in a URI, as all inside the suite do.
    name = {"san_type": "URI", "matcher": {"exact": f"waggle://service/{service}"}}
    return {
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": f"{_TLS_TYPES}.UpstreamTlsContext",
            "common_tls_context": {
                "alpn_protocols": ["h2"],
                "tls_params": {"tls_minimum_protocol_version": "TLSv1_2"},
                "tls_certificates": [
                    {
                        "certificate_chain": {"filename": str(tls.certificate)},
                        "private_key": {"filename": str(tls.key)},
                    }
                ],
                "validation_context": {
                    "trusted_ca": {"filename": str(tls.authority)},
                    "match_typed_subject_alt_names": [name],
                },
            },
        },
    }


def _listening_address(host: str, port: int) -> dict[str, Any]:
    return {"socket_address": {"address": host, "port_value": port}}


def _address(address: str) -> dict[str, Any]:
    if address.startswith("unix:"):
        return {"pipe": {"path": address.removeprefix("unix:")}}
    host, _, port = address.rpartition(":")
    return {"socket_address": {"address": host.strip("[]"), "port_value": int(port)}}


def _is_numeric(address: str) -> bool:
    host = address.rpartition(":")[0]
    return ":" in host or host.replace(".", "").isdecimal()


def _replace_values(document: Any, name: str, value: Any) -> None:
    """Replace the value of every member of this name, however deep."""
    if isinstance(document, list):
        for item in document:
            _replace_values(item, name, value)
    elif isinstance(document, dict):
        for key in document:
            if key == name:
                document[key] = value
            else:
                _replace_values(document[key], name, value)

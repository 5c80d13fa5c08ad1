"""The deployed configuration of Envoy, moved to other addresses, ports and files.

Routes, limits, time-outs and replies stay what they are in deploy/envoy/envoy.yaml; only places are replaced. So what
runs on a laptop and in the tests is what runs in production.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from services.runtime.key_material import TlsFiles
from services.runtime.peer import service_uri

ADMIN_CLUSTER: Final = "admin"
GATEWAY_CLUSTER: Final = "gateway"
EDGE_SECRET: Final = "edge"  # noqa: S105 - a name
INTERNAL_SECRET: Final = "internal"  # noqa: S105 - a name
AUTHORITY_SECRET: Final = "authority"  # noqa: S105 - a name

Bootstrap = dict[str, Any]
HostAndPort = tuple[str, int]

_TLS_TYPES = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3"


class BadConfiguration(Exception):
    """The configuration is not one that can be moved. The message says what is missing."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where one Envoy listens, whom it reaches, and where its files are.

    Attributes:
        admin_socket: Unix socket of the admin interface.
        secrets_directory: Where what `secret_documents` gives is, each as `<name>.json`.
        descriptor_set: The file waggle/descriptor_set.binpb.
        listeners: Listener -> host and port; port 0 picks a free one. A listener that is not named is left out. None
            leaves all where they are.
        clusters: Cluster -> `host:port`, `unix:/path`, or another target of gRPC such as `ipv4:host:port,host:port`; a
            cluster that is not named stays where it is.
        internal_tls: Whether connections to the gateway and the services are mutual TLS; see `secret_documents`.
    """

    admin_socket: Path
    secrets_directory: Path
    descriptor_set: Path
    listeners: Mapping[str, HostAndPort] | None = None
    clusters: Mapping[str, str] = field(default_factory=dict)
    internal_tls: bool = False


def load_deployed(path: Path) -> Bootstrap:
    """Read the deployed configuration.

    Raises:
        BadConfiguration: It is not there, or no configuration.
    """
    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadConfiguration(
            f"{path} cannot be read: {error.strerror}; WAGGLE_ENVOY_CONFIGURATION names another envoy.yaml"
        ) from error
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
        if places.internal_tls and cluster["name"] != ADMIN_CLUSTER:
            cluster["transport_socket"] = _internal_tls_socket(cluster["name"])
    _place_secrets(resources, places.secrets_directory)
    for entry in _objects(resources):
        if "proto_descriptor" in entry:
            entry["proto_descriptor"] = str(places.descriptor_set)
    return bootstrap


def secret_documents(certificate: Path, key: Path, internal: TlsFiles | None = None) -> dict[str, dict[str, Any]]:
    """Name -> the file of a secret, as deploy/envoy/certificate.yaml is one.

    Each is read anew when something changes in the directory of its files.

    Args:
        certificate, key: What clients are shown. PEM.
        internal: How the edge shows itself to gateway and services, where those speak TLS.
    """
    secrets = [_certificate_secret(EDGE_SECRET, certificate, key)]
    if internal is not None:
        authority = {"trusted_ca": {"filename": str(internal.authority)}, **_watched(internal.authority)}
        secrets += [
            _certificate_secret(INTERNAL_SECRET, internal.certificate, internal.key),
            {"@type": f"{_TLS_TYPES}.Secret", "name": AUTHORITY_SECRET, "validation_context": authority},
        ]
    return {secret["name"]: {"resources": [secret]} for secret in secrets}


def write_secrets(documents: Mapping[str, Mapping[str, Any]], directory: Path) -> None:
    """Write each document as `<name>.json`; they hold paths, no keys. Raises OSError where that is not possible."""
    directory.mkdir(mode=0o700, exist_ok=True)
    for name, document in documents.items():
        (directory / f"{name}.json").write_text(json.dumps(document), encoding="utf-8")


def _certificate_secret(name: str, certificate: Path, key: Path) -> dict[str, Any]:
    files = {"certificate_chain": {"filename": str(certificate)}, "private_key": {"filename": str(key)}}
    return {"@type": f"{_TLS_TYPES}.Secret", "name": name, "tls_certificate": files | _watched(certificate)}


def _watched(file: Path) -> dict[str, Any]:
    return {"watched_directory": {"path": str(file.parent)}}


def _check_names(kind: str, given: Iterable[str], known: Iterable[dict[str, Any]]) -> None:
    if unknown := set(given) - {entry["name"] for entry in known}:
        raise BadConfiguration(f"no {kind} {', '.join(sorted(unknown))} in the configuration")


def _move_cluster(cluster: dict[str, Any], address: str) -> None:
    # gRPC's own ways to write an address: the services are told the same ones.
    scheme, colon, places = address.partition(":")
    several = places.split(",") if colon and scheme in ("ipv4", "ipv6") else [address.removeprefix("dns:///")]
    # A name is resolved again and again while Envoy runs; a socket or an address stays what it is.
    is_fixed = all(place.startswith("unix:") or _is_numeric(place) for place in several)
    cluster["type"] = "STATIC" if is_fixed else "STRICT_DNS"
    endpoints = [{"endpoint": {"address": _address(place)}} for place in several]
    cluster["load_assignment"]["endpoints"] = [{"lb_endpoints": endpoints}]


def _internal_tls_socket(service: str) -> dict[str, Any]:
    # Whoever answers must be this very service: its certificate says so in a URI, as all inside the suite do.
    name = {"san_type": "URI", "matcher": {"exact": service_uri(service)}}
    return {
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": f"{_TLS_TYPES}.UpstreamTlsContext",
            "common_tls_context": {
                "alpn_protocols": ["http/1.1" if service == GATEWAY_CLUSTER else "h2"],
                "tls_params": {"tls_minimum_protocol_version": "TLSv1_2"},
                "tls_certificate_sds_secret_configs": [{"name": INTERNAL_SECRET, "sds_config": {}}],
                "combined_validation_context": {
                    "default_validation_context": {"match_typed_subject_alt_names": [name]},
                    "validation_context_sds_secret_config": {"name": AUTHORITY_SECRET, "sds_config": {}},
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


def _place_secrets(document: Any, directory: Path) -> None:
    """Let every reference to a secret, however deep, lead to its file in the directory."""
    for entry in _objects(document):
        if "sds_config" in entry:
            entry["sds_config"] = {"path_config_source": {"path": str(directory / f"{entry['name']}.json")}}


def _objects(document: Any) -> Iterator[dict[str, Any]]:
    """Every object of a document, outer ones first."""
    if isinstance(document, dict):
        yield document
        document = list(document.values())
    if isinstance(document, list):
        for item in document:
            yield from _objects(item)

"""Moving the deployed configuration: only places change, and a wrong place is said."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from services.edge.configuration import BadConfiguration, Places, load_deployed, move, secret_documents
from services.runtime.key_material import TlsFiles
from tests.harness.edge import ENVOY_YAML

PLACES = Places(Path("/run/admin.sock"), Path("/run/secrets"), Path("/lib/descriptor_set.binpb"))


@pytest.fixture
def deployed() -> dict[str, Any]:
    return load_deployed(ENVOY_YAML)


def cluster(bootstrap: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [entry for entry in bootstrap["static_resources"]["clusters"] if entry["name"] == name]
    return found


def endpoint(bootstrap: dict[str, Any], name: str) -> dict[str, Any]:
    found = cluster(bootstrap, name)["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]["address"]
    return dict(found)


def test_the_argument_stays_as_it_was(deployed: dict[str, Any]) -> None:
    """One loaded file can be moved to several places."""
    before = copy.deepcopy(deployed)
    move(deployed, replace(PLACES, listeners={"edge": ("::1", 7443)}, clusters={"memory": "unix:/m.sock"}))
    assert before == deployed


def test_without_places_for_them_listeners_and_clusters_stay(deployed: dict[str, Any]) -> None:
    """Deployed means deployed; only files and the admin socket are this machine's."""
    moved = move(deployed, PLACES)
    assert {"pipe": {"path": "/run/admin.sock"}} == moved["admin"]["address"] == endpoint(moved, "admin")
    assert [entry["address"] for entry in deployed["static_resources"]["listeners"]] == [
        entry["address"] for entry in moved["static_resources"]["listeners"]
    ]
    assert cluster(deployed, "memory") == cluster(moved, "memory")
    text = str(moved)
    assert "/etc/waggle" not in text
    assert "/lib/descriptor_set.binpb" in text


def test_only_named_listeners_are_kept(deployed: dict[str, Any]) -> None:
    """A laptop gets no port that nobody asked for."""
    (listener,) = move(deployed, replace(PLACES, listeners={"edge": ("::1", 7443)}))["static_resources"]["listeners"]
    assert {"socket_address": {"address": "::1", "port_value": 7443}} == listener["address"]


@pytest.mark.parametrize(
    ("address", "kind", "place"),
    [
        ("unix:/run/m.sock", "STATIC", {"pipe": {"path": "/run/m.sock"}}),
        ("127.0.0.1:7472", "STATIC", {"socket_address": {"address": "127.0.0.1", "port_value": 7472}}),
        ("[::1]:7472", "STATIC", {"socket_address": {"address": "::1", "port_value": 7472}}),
        ("memory.test:7472", "STRICT_DNS", {"socket_address": {"address": "memory.test", "port_value": 7472}}),
        ("dns:///memory:7472", "STRICT_DNS", {"socket_address": {"address": "memory", "port_value": 7472}}),
    ],
)
def test_an_address_is_what_the_services_call_it(
    deployed: dict[str, Any], address: str, kind: str, place: dict[str, Any]
) -> None:
    """Sockets, addresses and names, in the spelling of the services' own variables."""
    moved = move(deployed, replace(PLACES, clusters={"memory": address}))
    assert (kind, place) == (cluster(moved, "memory")["type"], endpoint(moved, "memory"))
    assert "STRICT_DNS" == cluster(moved, "identity")["type"]


@pytest.mark.parametrize(
    ("address", "kind", "places"),
    [
        ("ipv4:10.0.0.1:7472,10.0.0.2:7473", "STATIC", [("10.0.0.1", 7472), ("10.0.0.2", 7473)]),
        ("ipv6:[::1]:7472,[::2]:7473", "STATIC", [("::1", 7472), ("::2", 7473)]),
    ],
)
def test_several_processes_are_several_endpoints(
    deployed: dict[str, Any], address: str, kind: str, places: list[tuple[str, int]]
) -> None:
    """As gRPC writes them, so that edge and services are told the same."""
    moved = cluster(move(deployed, replace(PLACES, clusters={"memory": address})), "memory")
    (group,) = moved["load_assignment"]["endpoints"]
    found = [entry["endpoint"]["address"]["socket_address"] for entry in group["lb_endpoints"]]
    assert (kind, places) == (moved["type"], [(entry["address"], entry["port_value"]) for entry in found])


@pytest.mark.parametrize("wrong", [{"listeners": {"edgy": ("::1", 1)}}, {"clusters": {"storage": "unix:/s.sock"}}])
def test_a_place_for_what_is_not_there_is_refused(deployed: dict[str, Any], wrong: dict[str, Any]) -> None:
    """A misspelt name must not leave a cluster where it was, and storage is none."""
    with pytest.raises(BadConfiguration, match=r"edgy|storage"):
        move(deployed, replace(PLACES, **wrong))


def test_each_cluster_is_trusted_by_its_name_alone(deployed: dict[str, Any]) -> None:
    """With certificates inside the suite, memory's does not pass for identity's; the admin socket stays plain."""
    moved = move(deployed, replace(PLACES, internal_tls=True))
    for name in ("gateway", "identity", "memory", "retrieval", "consolidation"):
        common = cluster(moved, name)["transport_socket"]["typed_config"]["common_tls_context"]
        validation = common["combined_validation_context"]
        (wanted,) = validation["default_validation_context"]["match_typed_subject_alt_names"]
        assert {"exact": f"waggle://service/{name}"} == wanted["matcher"]
        for secret in (
            validation["validation_context_sds_secret_config"],
            *common["tls_certificate_sds_secret_configs"],
        ):
            assert f"/run/secrets/{secret['name']}.json" == secret["sds_config"]["path_config_source"]["path"]
    assert "transport_socket" not in cluster(moved, "admin")


def test_key_material_is_watched_where_it_lies() -> None:
    """Certificates are renewed by replacing files, the authority's with them."""
    internal = TlsFiles(Path("/tls/tls.crt"), Path("/tls/tls.key"), Path("/tls/ca.crt"))
    documents = secret_documents(Path("/edge/c"), Path("/edge/k"), internal)
    edge, own, authority = (document["resources"][0] for document in documents.values())
    assert ("edge", {"path": "/edge"}) == (edge["name"], edge["tls_certificate"]["watched_directory"])
    assert {"filename": "/tls/tls.crt"} == own["tls_certificate"]["certificate_chain"]
    assert {"filename": "/tls/ca.crt"} == authority["validation_context"]["trusted_ca"]
    assert {"path": "/tls"} == authority["validation_context"]["watched_directory"]


@pytest.mark.parametrize("text", ["", "[]", "a: 1", "a: [", None])
def test_a_file_that_is_no_configuration_is_said(tmp_path: Path, text: str | None) -> None:
    """Missing, malformed or something else: named with its path."""
    path = tmp_path / "envoy.yaml"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(BadConfiguration, match=r"envoy\.yaml"):
        load_deployed(path)

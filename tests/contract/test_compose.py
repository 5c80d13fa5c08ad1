"""The suite on one machine is the suite of the manifests: same processes, same configuration, same limits."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from services.runtime.main import DrainSettings
from services.runtime.server import DRAIN_S
from services.runtime.settings import read_settings
from services.runtime.version import VERSION
from tests.harness.deployment import (
    CONFIGURATION,
    DEPLOY,
    KUBERNETES,
    base_documents,
    byte_count,
    documents,
    read_env,
    workloads,
)

PROCESSES = workloads(base_documents())
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]


def test_every_process_is_there_by_the_name_that_others_call() -> None:
    """And nothing else, but for the commands of administration, which nothing starts by itself."""
    assert {f"waggle-{name}" for name in PROCESSES} | {"admin"} == set(SERVICES)
    assert ["admin"] == [name for name, service in SERVICES.items() if "profiles" in service]


@pytest.mark.parametrize("name", sorted(PROCESSES))
def test_a_process_runs_as_in_the_cluster(name: str) -> None:
    """Command line, configuration, image, memory and the time to drain."""
    service, process = SERVICES[f"waggle-{name}"], PROCESSES[name]
    assert process.container.get("args") == service.get("command")
    assert f"{process.container['image']}:{VERSION}" == service["image"]
    assert [CONFIGURATION.relative_to(DEPLOY).as_posix()] == service["env_file"]
    assert process.memory("limits") == byte_count(service["mem_limit"])
    notice_s = read_settings(DrainSettings, read_env(CONFIGURATION)).notice_ms / 1000
    assert notice_s + DRAIN_S < int(service["stop_grace_period"].removesuffix("s"))
    places = {re.fullmatch(r".*:(/[^:]+)(?::ro)?", volume).group(1) for volume in service["volumes"]}
    mounted = {mount["mountPath"] for mount in process.container["volumeMounts"]}
    assert mounted - {"/tmp"} == places


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_every_container_is_shut_in(name: str) -> None:
    """Nothing to write but volumes and /tmp, no capability, no way to more rights."""
    service = SERVICES[name]
    assert (True, ["ALL"], ["no-new-privileges:true"]) == (
        service["read_only"],
        service["cap_drop"],
        service["security_opt"],
    )
    assert ["/tmp"] == [place.partition(":")[0] for place in service["tmpfs"]]


def test_only_the_edge_is_published() -> None:
    """All others are on a network without a way in or out."""
    assert ["waggle-edge"] == [name for name, service in SERVICES.items() if "ports" in service]
    assert ["waggle-edge"] == [name for name, service in SERVICES.items() if "outside" in service.get("networks", ())]
    assert COMPOSE["networks"]["inside"]["internal"] is True
    (port,) = SERVICES["waggle-edge"]["ports"]
    assert PROCESSES["edge"].ports["https"] == int(port.rpartition(":")[2])


@pytest.mark.parametrize("name", sorted(PROCESSES))
def test_health_is_asked_where_it_is_answered(name: str) -> None:
    """Readiness, as the cluster's probes ask for it."""
    (*command, address) = SERVICES[f"waggle-{name}"]["healthcheck"]["test"]
    assert ["CMD", "python", "-m", "services.runtime.probe"] == command
    ports = PROCESSES[name].ports
    wanted = f"http://127.0.0.1:{ports['platform']}/ready" if name == "edge" else f"127.0.0.1:{ports['health']}"
    assert wanted == address


def test_the_store_is_made_by_an_explicit_command() -> None:
    """On the same volumes, with the key where every process looks for it, and without a network."""
    admin, storage = SERVICES["admin"], SERVICES["waggle-storage"]
    assert ["waggle", "admin"] == admin["entrypoint"]
    assert "none" == admin["network_mode"]
    assert set(storage["volumes"]) < set(admin["volumes"])
    (pod,) = workloads(documents(KUBERNETES / "admin" / "admin-pod.yaml")).values()
    assert {item["name"]: item["value"] for item in pod.container["env"]} == admin["environment"]
    assert {"data", "verifier"} == set(COMPOSE["volumes"])

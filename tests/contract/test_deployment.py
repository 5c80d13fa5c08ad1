"""Manifests, images, Envoy's configuration and code agree: addresses, names, settings, memory, time, certificates.

That Envoy's routes and limits are the gateway's is held by tests/unit/edge.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest

from cli.internal_authority import CALLERS as CALLING_CERTIFICATES
from cli.internal_authority import SERVERS as SERVING_CERTIFICATES
from scripts.dockerfile import lineage, read_stages
from services.edge.__main__ import DRAIN_S as EDGE_DRAIN_S
from services.edge.configuration import load_deployed
from services.edge.envoy import ADMIN_TIMEOUT_S
from services.gateway.settings import HttpLimits
from services.identity.password_workers import WORKER_COUNT
from services.identity.passwords import MEMORY_KIB
from services.runtime.health_names import LIVENESS
from services.runtime.key_material import TlsFiles
from services.runtime.main import DrainSettings
from services.runtime.peer import server_name, service_uri
from services.runtime.server import DRAIN_S
from services.runtime.settings import read_settings
from services.storage.__main__ import CALLERS as CALLERS_OF_STORAGE
from tests.harness.deployment import (
    BASE,
    CONFIGURATION,
    DEPLOY,
    KUBERNETES,
    MEBIBYTE,
    NAME_LABEL,
    OVERLAYS,
    Workload,
    base_documents,
    byte_count,
    documents,
    port_of,
    read_env,
    render,
    services,
    workloads,
)
from tests.harness.edge import ENVOY_YAML
from tests.harness.settings import PLAIN_VARIABLES, address_variables, all_settings, settings_kinds

PROCESSES = workloads(base_documents())
PROGRAMS = sorted(PROCESSES)
PYTHON = sorted(set(PROCESSES) - {"edge"})
VARIABLES = read_env(CONFIGURATION)

# Resident MiB, measured: idle, and while 9,000 memories with vectors were imported and searched.
IDLE_MIB = {"storage": 48, "identity": 49, "memory": 61, "retrieval": 63, "consolidation": 61, "gateway": 69}
BUSY_MIB = {"storage": 139, "memory": 103, "retrieval": 130}

# How long it may take until nobody is sent to a pod that is leaving: the name server's answer is kept for 5 s, and the
# edge asks for it every 5 s.
NAMES_ARE_OLD_S = 10


def envoy() -> dict[str, Any]:
    return load_deployed(ENVOY_YAML)


def listening_port(listener: dict[str, Any]) -> int:
    port: int = listener["address"]["socket_address"]["port_value"]
    return port


def flag(workload: Workload, name: str) -> str:
    arguments = workload.container["args"]
    value: str = arguments[arguments.index(name) + 1]
    return value


def probes(workload: Workload) -> dict[str, dict[str, Any]]:
    return {kind: workload.container[f"{kind}Probe"] for kind in ("startup", "readiness", "liveness")}


@pytest.mark.parametrize("name", PYTHON)
def test_a_process_is_where_the_others_look_for_it(name: str) -> None:
    """Module, and port of the command line, the pod, the Service and the address variable, are those of one service."""
    process = PROCESSES[name]
    assert f"services.{name}" == process.container["args"][0]
    assert find_spec(f"services.{name}.__main__") is not None
    (door,) = set(process.ports) - {"health", "metrics"}
    port = port_of(flag(process, "--listen"))
    assert port == process.ports[door]
    (published,) = services()[name]["ports"]
    assert (port, door) == (published["port"], published["targetPort"])
    # Callers see each pod, and spread their calls over them.
    assert "None" == services()[name]["clusterIP"]
    if name != "gateway":
        assert f"dns:///{server_name(name)}:{port}" == VARIABLES[f"WAGGLE_{name.upper()}_ADDRESS"]


@pytest.mark.parametrize("name", PYTHON)
def test_probes_ask_for_names_that_the_health_service_knows(name: str) -> None:
    """Live from the start on while the process works; ready as the process says; both on the plain listener."""
    port = port_of(VARIABLES["WAGGLE_HEALTH_LISTEN"])
    assert port == PROCESSES[name].ports["health"]
    asked = {
        kind: (probe["grpc"]["port"], probe["grpc"].get("service", ""))
        for kind, probe in probes(PROCESSES[name]).items()
    }
    assert {"startup": (port, LIVENESS), "readiness": (port, ""), "liveness": (port, LIVENESS)} == asked


@pytest.mark.parametrize("name", PROGRAMS)
def test_metrics_are_where_the_configuration_says(name: str) -> None:
    """So that one rule for Prometheus reads all pods."""
    assert port_of(VARIABLES["WAGGLE_METRICS_LISTEN"]) == PROCESSES[name].ports["metrics"]


def test_the_edge_listens_where_its_pod_says() -> None:
    """Each listener of Envoy is a port of the pod, clients reach the main one, and probes ask for a page it serves."""
    edge = PROCESSES["edge"]
    names = {"edge": "https", "transcoder": "transcoder", "operations": "platform"}
    listeners = {names[item["name"]]: item for item in envoy()["static_resources"]["listeners"]}
    assert {**{name: listening_port(item) for name, item in listeners.items()}, "metrics": 9464} == edge.ports
    (published,) = services()["edge"]["ports"]
    assert (443, "https") == (published["port"], published["targetPort"])
    assert {("/ready", "platform")} == {
        (probe["httpGet"]["path"], probe["httpGet"]["port"]) for probe in probes(edge).values()
    }
    assert '"/ready"' in str(listeners["platform"]).replace("'", '"')
    assert "args" not in edge.container


def test_envoy_finds_every_process_that_clients_may_call() -> None:
    """The clusters are the gateway and the services of its routes, each by the name and the port of its Service."""
    found = {}
    for cluster in envoy()["static_resources"]["clusters"]:
        ((endpoint,),) = [each["lb_endpoints"] for each in cluster["load_assignment"]["endpoints"]]
        found[cluster["name"]] = endpoint["endpoint"]["address"]["socket_address"]
    assert "127.0.0.1" == found.pop("admin")["address"]
    assert {"gateway", *address_variables()} == set(found)
    for name, address in found.items():
        assert (server_name(name), services()[name]["ports"][0]["port"]) == (address["address"], address["port_value"])


def test_names_are_looked_up_before_a_pod_is_gone() -> None:
    """What the notice below counts on: the edge keeps to Envoy's period, 5 s, and looks names up itself."""
    clusters = {item["name"]: item for item in envoy()["static_resources"]["clusters"] if item["name"] != "admin"}
    assert {("STRICT_DNS", None)} == {(item["type"], item.get("dns_refresh_rate")) for item in clusters.values()}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_process_may_drain_before_it_is_killed(name: str) -> None:
    """The platform waits longer than its own delay, the notice and the drain take together."""
    pod, container = PROCESSES[name].pod, PROCESSES[name].container
    before_s = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
    # Storage has no second pod that could take over, so waiting would only make its absence longer.
    assert (name == "storage") == (before_s == 0)
    assert name == "storage" or before_s > NAMES_ARE_OLD_S
    drain_s = {"gateway": HttpLimits().drain_s, "edge": EDGE_DRAIN_S + ADMIN_TIMEOUT_S}.get(name, DRAIN_S)
    notice_s = read_settings(DrainSettings, VARIABLES).notice_ms / 1000
    assert pod["terminationGracePeriodSeconds"] > before_s + notice_s + drain_s


def test_every_variable_is_one_that_the_code_reads() -> None:
    """A misspelt name in the configuration would be without effect, in silence."""
    known = set(all_settings()) | PLAIN_VARIABLES | set(address_variables().values())
    assert set() == set(VARIABLES) - known
    overlay = OVERLAYS / "production" / "mutual-tls.env"
    assert set() == set(read_env(overlay)) - known


def test_every_setting_can_be_read_from_the_configuration() -> None:
    """What must be set is set, and every value is within its bounds; certificates come with production."""
    for kind in settings_kinds():
        if kind is not TlsFiles:
            read_settings(kind, VARIABLES)
    assert set(address_variables().values()) <= set(VARIABLES)
    read_settings(TlsFiles, read_env(OVERLAYS / "production" / "mutual-tls.env"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_process_has_the_one_configuration(name: str) -> None:
    """And no variable of its own beside it."""
    container = PROCESSES[name].container
    assert [{"configMapRef": {"name": "waggle-configuration"}}] == container["envFrom"]
    assert "env" not in container


@pytest.mark.parametrize("name", PROGRAMS)
def test_files_are_mounted_where_they_are_looked_for(name: str) -> None:
    """The verifier key for those who authorize, the data for storage, the certificate of the edge for the edge."""
    mounts = {mount["name"]: mount["mountPath"] for mount in PROCESSES[name].container["volumeMounts"]}
    key_directory = VARIABLES["WAGGLE_VERIFIER_KEY_FILE"].rpartition("/")[0]
    assert (key_directory if name not in ("storage", "gateway", "edge") else None) == mounts.get("verifier")
    assert ("/data" if name == "storage" else None) == mounts.get("data")
    assert ("/etc/waggle/edge-tls" if name == "edge" else None) == mounts.get("certificate")
    if name == "storage":
        assert mounts["data"] == flag(PROCESSES[name], "--data-dir")


@pytest.mark.parametrize("name", PYTHON)
def test_memory_is_what_was_measured_and_more(name: str) -> None:
    """Requested: what the process has in ordinary work. Limit: twice its busiest, and volumes in memory with it."""
    process = PROCESSES[name]
    needed = IDLE_MIB[name] * MEBIBYTE
    if name == "retrieval":
        needed += int(VARIABLES["WAGGLE_REPLICA_MEMORY_BYTES"])
    if name == "identity":
        needed += WORKER_COUNT * MEMORY_KIB * 1024
    assert process.memory("requests") > max(needed, BUSY_MIB.get(name, 0) * MEBIBYTE)
    in_memory = sum(
        byte_count(volume["emptyDir"]["sizeLimit"])
        for volume in process.pod["volumes"]
        if volume.get("emptyDir", {}).get("medium") == "Memory"
    )
    busy = max(needed, 2 * BUSY_MIB.get(name, IDLE_MIB[name]) * MEBIBYTE)
    assert process.memory("limits") > busy + in_memory
    # Processor time is shared, not cut off: one that waits for its next slice holds everybody up.
    assert {"memory"} == set(process.container["resources"]["limits"])


def test_envoy_refuses_work_before_its_container_is_killed() -> None:
    """The heap that it allows itself is a good deal below the limit, which counts code and buffers too."""
    monitors = {item["name"]: item["typed_config"] for item in envoy()["overload_manager"]["resource_monitors"]}
    heap: int = monitors["envoy.resource_monitors.fixed_heap"]["max_heap_size_bytes"]
    assert PROCESSES["edge"].memory("limits") >= 1.25 * heap


def test_operators_reach_what_the_suite_serves() -> None:
    """The addresses in the operator's pod are those of the configuration, under the same names."""
    (operator,) = workloads(documents(KUBERNETES / "operator" / "operator-pod.yaml")).values()
    own = {item["name"]: item["value"] for item in operator.container["env"]}
    assert own == {name: VARIABLES[name] for name in own}
    (backup,) = workloads(documents(KUBERNETES / "backup" / "backup-cron-job.yaml")).values()
    assert VARIABLES.items() >= {
        (item["name"], item["value"]) for item in backup.container["env"] if item["name"] in all_settings()
    }
    # Whom the policies let through to storage.
    assert operator.labels[NAME_LABEL] == backup.labels[NAME_LABEL]
    (admin,) = workloads(documents(KUBERNETES / "admin" / "admin-pod.yaml")).values()
    (key,) = admin.container["env"]
    assert VARIABLES[key["name"]] == key["value"]


def test_certificates_are_those_of_the_processes() -> None:
    """One for each, with the names by which processes know each other, as `waggle admin certificates` makes them."""
    found = {}
    for document in documents(OVERLAYS / "production" / "certificates.yaml"):
        if document["kind"] == "Certificate" and not document["spec"].get("isCA"):
            found[document["metadata"]["name"].removeprefix("waggle-")] = document["spec"]
    assert {*SERVING_CERTIFICATES, *CALLING_CERTIFICATES} == set(found)
    assert set(CALLERS_OF_STORAGE) <= set(found)
    for name, spec in found.items():
        assert ([server_name(name)], [service_uri(name)]) == (spec["dnsNames"], spec["uris"])
        assert f"waggle-{name}-internal-tls" == spec["secretName"]
        assert ("server auth" in spec["usages"]) == (name in SERVING_CERTIFICATES)
        assert "client auth" in spec["usages"]


def test_every_process_of_production_has_its_own_certificate() -> None:
    """Mounted where its variables say; operators' is the one of "admin"."""
    variables = read_env(OVERLAYS / "production" / "mutual-tls.env")
    callers = ("operator", "backup")
    production = OVERLAYS / "production"
    found = workloads([*render(production), *(each for name in callers for each in render(production / name))])
    assert {*PROGRAMS, *callers} == set(found)
    for name, workload in found.items():
        (volume,) = [each for each in workload.pod["volumes"] if each["name"] == "internal-tls"]
        owner = "admin" if name in callers else name
        assert f"waggle-{owner}-internal-tls" == volume["secret"]["secretName"]
        (mount,) = [each for each in workload.container["volumeMounts"] if each["name"] == "internal-tls"]
        assert {mount["mountPath"]} == {value.rpartition("/")[0] for value in variables.values()}
    for name in callers:
        own = {item["name"]: item["value"] for item in found[name].container["env"]}
        assert variables == {variable: own[variable] for variable in variables}


@pytest.mark.parametrize(("target", "names"), [("suite", PYTHON), ("edge", ["edge"])])
def test_images_name_the_ports_of_their_processes(target: str, names: list[str]) -> None:
    """EXPOSE is only a word to the reader, and so a true one."""
    stages = read_stages((DEPLOY / "Dockerfile").read_text(encoding="utf-8"))
    exposed = [step for stage in lineage(stages, target) if (step := stage.last("EXPOSE"))]
    assert {port for name in names for port in PROCESSES[name].ports.values()} == set(map(int, exposed[-1].words()))


def test_the_edges_image_holds_the_configuration_where_it_looks_for_it() -> None:
    """The variable of the image names a file that a step copies there."""
    stage = read_stages((DEPLOY / "Dockerfile").read_text(encoding="utf-8"))["edge"]
    variables = [step.assignments() for step in stage.steps if step.instruction == "ENV"]
    (path,) = {each["WAGGLE_ENVOY_CONFIGURATION"] for each in variables}
    copies = {words[-1]: words[0] for step in stage.steps if step.instruction == "COPY" and (words := step.words())}
    directory, _, file = path.rpartition("/")
    assert (DEPLOY.parent / copies[directory] / file).is_file()
    assert "WAGGLE_ENVOY_CONFIGURATION" in all_settings()


def test_the_base_has_nothing_but_the_processes() -> None:
    """Each file of a process is named after it."""
    assert all((BASE / f"{name}.yaml").is_file() for name in PROGRAMS)
    assert set(SERVING_CERTIFICATES) | {"edge"} == set(PROGRAMS)

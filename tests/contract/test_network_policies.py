"""Who may open a connection to whom in the cluster: the arrows of docs/ARCHITECTURE.md and no other."""

from __future__ import annotations

from itertools import product
from typing import Any

from services.edge.configuration import load_deployed
from services.storage.__main__ import CALLERS as CALLERS_OF_STORAGE
from tests.harness.deployment import (
    KUBERNETES,
    NAME_LABEL,
    PART_OF,
    base_documents,
    documents,
    of_kind,
    workloads,
)
from tests.harness.edge import ENVOY_YAML
from tests.harness.settings import address_variables

CLIENT_SERVICES = ("identity", "memory", "retrieval", "consolidation")
# Who calls, whom, by which port of the callee.
ARROWS = {
    ("edge", "gateway", "http"),
    *(("edge", service, "grpc") for service in CLIENT_SERVICES),
    *(("gateway", service, "grpc") for service in CLIENT_SERVICES),
    *((service, "storage", "grpc") for service in CLIENT_SERVICES),
    # Operators' commands: backup and verify, verify with the replica, import.
    ("operator", "storage", "grpc"),
    ("operator", "retrieval", "grpc"),
    ("operator", "memory", "grpc"),
    # From elsewhere.
    ("clients", "edge", "https"),
    *(("clients that speak gRPC", service, "grpc") for service in CLIENT_SERVICES),
    ("clients that speak gRPC", "edge", "https"),
    ("monitoring", "edge", "https"),
}

Labels = dict[str, str]
# Pod and namespace labels of who is not part of the suite.
OUTSIDERS: dict[str, tuple[Labels, Labels]] = {
    "clients": ({}, {"kubernetes.io/metadata.name": "anything"}),
    "clients that speak gRPC": ({}, {"waggle.dev/grpc-client": "true"}),
    "monitoring": ({}, {"kubernetes.io/metadata.name": "monitoring"}),
}
OWN_NAMESPACE: Labels = {"kubernetes.io/metadata.name": "waggle"}

POLICIES = list(of_kind(base_documents(), "NetworkPolicy"))
RUNNING = workloads(base_documents())
OPERATOR = workloads(documents(KUBERNETES / "operator" / "operator-pod.yaml"))["operator"]
ADMIN = workloads(documents(KUBERNETES / "admin" / "admin-pod.yaml"))["admin"]
PODS = {**RUNNING, "operator": OPERATOR, "admin": ADMIN}


def selects(selector: dict[str, Any], labels: Labels) -> bool:
    """Whether a label selector fits."""
    assert set(selector) <= {"matchLabels", "matchExpressions"}
    expressions = selector.get("matchExpressions", ())
    assert {"In"} >= {expression["operator"] for expression in expressions}
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        labels.get(expression["key"]) in expression["values"] for expression in expressions
    )


def peer_fits(peer: dict[str, Any], pod: Labels, namespace: Labels) -> bool:
    """Whether who is at the other end fits one entry of `from` or `to`."""
    if "ipBlock" in peer:
        return False  # of a single address, that of a name server
    in_namespace = (
        selects(peer["namespaceSelector"], namespace) if "namespaceSelector" in peer else namespace == OWN_NAMESPACE
    )
    return in_namespace and selects(peer.get("podSelector", {}), pod)


def lets_through(direction: str, own: Labels, other: tuple[Labels, Labels], port: int) -> bool:
    """Whether the policies of one end let a connection through, as Kubernetes judges them: one that fits is enough."""
    word, end = ("ingress", "from") if direction == "Ingress" else ("egress", "to")
    chosen = [
        policy["spec"]
        for policy in POLICIES
        if direction in policy["spec"]["policyTypes"] and selects(policy["spec"]["podSelector"], own)
    ]
    assert chosen, "a pod that no policy selects would be open"
    return any(
        (end not in rule or any(peer_fits(peer, *other) for peer in rule[end]))
        and ("ports" not in rule or port in {each["port"] for each in rule["ports"]})
        for policy in chosen
        for rule in policy.get(word, ())
    )


def labels_of(name: str) -> Labels:
    return {NAME_LABEL: f"waggle-{name}", **PART_OF}


def allowed_arrows() -> set[tuple[str, str, str]]:
    """Every connection to a named port that the policies allow, metrics and probes aside."""
    callers = {**{name: (labels_of(name), OWN_NAMESPACE) for name in PODS}, **OUTSIDERS}
    found = set()
    for (caller, ends), (callee, workload) in product(callers.items(), PODS.items()):
        for port_name, port in workload.ports.items():
            leaves = caller in OUTSIDERS or lets_through("Egress", ends[0], (labels_of(callee), OWN_NAMESPACE), port)
            if caller != callee and leaves and lets_through("Ingress", labels_of(callee), ends, port):
                found.add((caller, callee, port_name))
    return found


def test_only_the_arrows_of_the_architecture_are_let_through() -> None:
    """Storage is reached by those that work on it, the gateway by the edge, and clients reach the edge."""
    arrows = {arrow for arrow in allowed_arrows() if arrow[2] not in ("metrics", "platform")}
    assert arrows == ARROWS


def test_metrics_are_read_from_the_namespace_of_monitoring_alone() -> None:
    """Envoy's own as well; nobody else learns how the suite is doing."""
    arrows = {arrow for arrow in allowed_arrows() if arrow[2] in ("metrics", "platform")}
    assert arrows == {("monitoring", name, "metrics") for name in RUNNING} | {("monitoring", "edge", "platform")}


def test_the_arrows_are_those_that_the_code_draws() -> None:
    """Routes of the gateway, clusters of the edge and the callers that storage admits, each from its own source."""
    assert set(address_variables()) == {callee for caller, callee, _ in ARROWS if caller == "gateway"}
    clusters = {cluster["name"] for cluster in load_deployed(ENVOY_YAML)["static_resources"]["clusters"]}
    assert clusters - {"admin"} == {callee for caller, callee, _ in ARROWS if caller == "edge"}
    names = {"operator": "admin"}  # the operator's pod shows the certificate of "admin"
    assert set(CALLERS_OF_STORAGE) == {names.get(caller, caller) for caller, callee, _ in ARROWS if callee == "storage"}


def test_pods_ask_name_servers_and_collectors_and_nobody_else_outside() -> None:
    """No process of the suite has a reason to call the internet, so none can."""
    leaving = []
    for policy in POLICIES:
        for rule in policy["spec"].get("egress", ()):
            outside = [peer for peer in rule["to"] if "podSelector" not in peer]
            leaving += [(policy["metadata"]["name"], each["port"]) for each in rule["ports"] if outside]
    assert [("waggle-name-resolution", 53), ("waggle-name-resolution", 53), ("waggle-traces", 4317)] == leaving


def test_the_administration_pod_reaches_nobody_and_is_reached_by_nobody() -> None:
    """It works on the data at rest; the policy for everything fits it as well."""
    assert not {arrow for arrow in allowed_arrows() if "admin" in arrow[:2]}
    assert any(
        selects(policy["spec"]["podSelector"], labels_of("admin"))
        and {"Ingress", "Egress"} <= set(policy["spec"]["policyTypes"])
        for policy in POLICIES
    )

"""A suite under mutual TLS as several machines would run it: processes of their own on TCP, several of each service.

The edge before them is the deployed one.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from grpc_health.v1 import health_pb2, health_pb2_grpc

from services.edge.envoy import Envoy
from services.runtime.channel import open_channel
from services.runtime.main import DRAIN_NOTICE_VARIABLE
from tests.harness.certificates import Certificates, issued_certificates
from tests.harness.edge import EDGE_SERVICES, Edge, Tweak, running_edge
from tests.harness.ports import free_port
from tests.harness.suite import POLL_S, START_S, STOP_S, make_suite, wait_until
from tests.harness.workload import NO_BUSY_SLOTS

STATELESS = ("identity", "memory", "retrieval", "consolidation", "gateway")
# A notice is not waited for: a second signal ends it once the edge has heard.
_NOTICE_MS = "60000"


@dataclass
class Member:
    """One process of the suite, which keeps its ports over restarts.

    Attributes:
        name: The service.
        port: Where it serves.
        probes: Where it answers probes, `host:port`.
    """

    name: str
    port: int
    probes: str
    process: subprocess.Popen[bytes] | None = None

    def is_in_service(self) -> bool:
        """Whether a probe would let callers come."""
        with open_channel(self.probes) as channel:
            check = health_pb2_grpc.HealthStub(channel).Check
            request = health_pb2.HealthCheckRequest()
            status = check(request, timeout=START_S, wait_for_ready=True).status
        return bool(status == health_pb2.HealthCheckResponse.SERVING)


class ReplicatedSuite:
    """Processes of every service; see the module.

    Args:
        directory: For store, certificates and logs.
        copies: How many processes of a stateless service there are, 1 where it is not named.
    """

    def __init__(self, directory: Path, copies: Mapping[str, int]) -> None:
        self.directory = directory
        self.certificates: Certificates = issued_certificates(directory / "tls")
        self.store = make_suite(directory)
        self.storage = self._member("storage")
        self.members = [self._member(name) for name in STATELESS for _ in range(copies.get(name, 1))]

    @staticmethod
    def _member(name: str) -> Member:
        return Member(name, free_port(), f"127.0.0.1:{free_port()}")

    def address(self, name: str) -> str:
        """The address of all processes of a service."""
        places = [f"127.0.0.1:{member.port}" for member in (self.storage, *self.members) if member.name == name]
        return f"ipv4:{','.join(places)}"

    def log_of(self, member: Member) -> Path:
        """Where a process writes its log."""
        return self.directory / f"{member.name}-{member.port}.log"

    def start(self, member: Member) -> None:
        """Start a process."""
        arguments = ["--listen", f"127.0.0.1:{member.port}"]
        if member is self.storage:
            arguments += ["--data-dir", str(self.store.data_directory)]
        environment = {
            **{f"WAGGLE_{name.upper()}_ADDRESS": self.address(name) for name in ("storage", *STATELESS[:-1])},
            **self.certificates.environment(member.name),
            **NO_BUSY_SLOTS,
            "WAGGLE_VERIFIER_KEY_FILE": str(self.store.data_directory / "verifier.key"),
            "WAGGLE_HEALTH_LISTEN": member.probes,
            DRAIN_NOTICE_VARIABLE: _NOTICE_MS,
        }
        with self.log_of(member).open("a", encoding="utf-8") as log:
            member.process = subprocess.Popen(
                [sys.executable, "-m", f"services.{member.name}", *arguments],
                env={**os.environ, **environment},
                stderr=log,
            )

    def start_all(self) -> None:
        """Start every process and wait until all are in service."""
        everyone = (self.storage, *self.members)
        for member in everyone:
            self.start(member)
        for member in everyone:
            wait_until(member.is_in_service, f"{member.name} is in service")

    def restart(self, member: Member, envoy: Envoy, go_on: Callable[[], None]) -> None:
        """Let a process leave as a rollout does, and start another one at its place.

        Args:
            member: The process.
            envoy: The edge.
            go_on: Returns once every client has had answers to requests that it began since.
        """
        process = member.process
        assert process is not None
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: not is_healthy(envoy, member), f"the edge knows that a {member.name} leaves")
        # The edge's threads hear from one another in order: who answers a later request has heard of this too.
        go_on()
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_S) == 0
        self.start(member)
        wait_until(member.is_in_service, f"the new {member.name} is in service")
        wait_until(lambda: is_healthy(envoy, member), f"the edge knows the new {member.name}")

    def stop(self) -> None:
        """Kill what runs."""
        for member in (*self.members, self.storage):
            if member.process is not None:
                member.process.kill()
                member.process.wait()

    def client(self, edge: Edge, key: str) -> httpx.Client:
        """An HTTP client of the edge."""
        url = f"https://127.0.0.1:{edge.ports['edge']}"
        headers = {"Authorization": f"Bearer {key}"}
        return httpx.Client(base_url=url, headers=headers, timeout=30.0, verify=edge.tls(), trust_env=False)


def is_healthy(envoy: Envoy, member: Member) -> bool:
    """Whether the edge sends requests to a process."""
    clusters = json.loads(envoy.ask("GET", "/clusters?format=json")[1])["cluster_statuses"]
    (cluster,) = [cluster for cluster in clusters if cluster["name"] == member.name]
    (host,) = [
        host for host in cluster["host_statuses"] if host["address"]["socket_address"]["port_value"] == member.port
    ]
    return bool({"eds_health_status": "HEALTHY"} == host["health_status"])


def quick_checks(bootstrap: dict[str, object]) -> None:
    """Let the edge ask for health often, so that a test need not wait."""
    for cluster in bootstrap["static_resources"]["clusters"]:  # type: ignore[index]
        for check in cluster.get("health_checks", []):
            check["interval"] = check["no_traffic_interval"] = f"{4 * POLL_S}s"


@contextmanager
def running_replicas(
    directory: Path, copies: Mapping[str, int], tweak: Tweak | None = quick_checks
) -> Iterator[tuple[ReplicatedSuite, Edge]]:
    """Run a suite and the edge before it."""
    suite = ReplicatedSuite(directory, copies)
    edge_directory = directory / "edge"
    edge_directory.mkdir()
    try:
        suite.start_all()
        addresses = {name: suite.address(name) for name in EDGE_SERVICES}
        internal = suite.certificates.files("edge")
        with running_edge(edge_directory, tweak, internal_tls=internal, **addresses) as edge:
            for member in suite.members:
                wait_until(lambda member=member: is_healthy(edge.envoy, member), f"the edge knows {member.name}")
            yield suite, edge
    finally:
        suite.stop()

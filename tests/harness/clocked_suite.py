"""A whole suite whose clock stands still until a test moves it.

Storage and every service run in this process, on one real socket, with a real gateway before them; so a test can put
the server's clock at the very millisecond that matters, and hold a commit while time passes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from services.consolidation.access import JobAccess
from services.consolidation.servicer import ConsolidationServicer
from services.consolidation.servicer_supervision import SupervisionServicer
from services.gateway.settings import HttpLimits
from services.identity.authority import Authority
from services.identity.bootstrap import bootstrap_tenant
from services.identity.servicer import IdentityServicer
from services.identity.verifier_key import create_verifier_key
from services.memory.__main__ import register_servicers as register_memory
from services.memory.access import PartitionAccess
from services.retrieval.__main__ import register_servicers as register_retrieval
from services.retrieval.settings import Settings
from services.runtime.admission import AdmissionPool
from services.runtime.server import Registry, RunningServer
from services.workspace.company_access import CompanyAccess
from tests.harness.interposed_store import InterposedStore
from tests.harness.memory_world import ManualClock
from tests.harness.running_gateway import running_gateway
from tests.harness.suite import COMPANY, EVERY_SCOPE
from waggle.consolidation.v1 import consolidation_service_pb2_grpc, supervision_service_pb2_grpc
from waggle.identity.v1 import identity_service_pb2_grpc

DIMENSIONS_MAX = 64


class ClockedSuite:
    """The suite; has what `BothWays` and `Api` need of a suite.

    Attributes:
        clock: The host's clock: `ms` is the present.
        store: The store, as a test can act on it; see `InterposedStore`.
        url: Of the gateway.
        verify: What httpx is told about certificates.
    """

    verify = True

    def __init__(self, address: str, key_file: Path) -> None:
        self._address = address
        self.url = ""
        self.clock = ManualClock()
        self.store = InterposedStore(self.clock)
        key = create_verifier_key(key_file)
        self.admin_key = bootstrap_tenant(self.store, key, tenant_id=COMPANY, subject_id="administrator")["secret"]
        self.writer_key = ""
        self.registry = Registry()
        authority, slots = Authority(key), AdmissionPool(8)
        company = CompanyAccess(self.store, authority, slots)
        memory = PartitionAccess(self.store, authority, slots)
        register_memory(self.registry, memory, company, dimensions_max=DIMENSIONS_MAX, cursor_key=key)
        settings = Settings(max_embedding_dimensions=DIMENSIONS_MAX)
        register_retrieval(self.registry, self.store, authority, settings)
        add: list[tuple[Callable[..., Any], Any]] = [
            (
                consolidation_service_pb2_grpc.add_ConsolidationServiceServicer_to_server,
                ConsolidationServicer(JobAccess(self.store, authority, slots)),
            ),
            (
                supervision_service_pb2_grpc.add_SupervisionServiceServicer_to_server,
                SupervisionServicer(company),
            ),
            (
                identity_service_pb2_grpc.add_IdentityServiceServicer_to_server,
                IdentityServicer(self.store, key, version="clocked"),
            ),
        ]
        for register, servicer in add:
            self.registry.add(register, servicer)

    def address(self, _name: str) -> str:
        """Where every service listens."""
        return self._address

    def client(self, key: str | None = None) -> httpx.Client:
        """An HTTP client with a key, the writer's by default."""
        headers = {"Authorization": f"Bearer {self.writer_key if key is None else key}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=30.0, trust_env=False)

    def issue(self, subject: str, capabilities: list[str], **members: Any) -> str:
        """Issue a credential for every scope through the gateway and return its secret."""
        spec = {"subject_id": subject, "capabilities": capabilities, "grants": [], "scope_policy": EVERY_SCOPE}
        with self.client(self.admin_key) as client:
            response = client.post("/api/v1/credentials", json={"contract_version": 1, "spec": {**spec, **members}})
        assert response.status_code == 201, response.text
        secret: str = response.json()["secret"]
        return secret


@contextmanager
def running_clocked_suite() -> Iterator[ClockedSuite]:
    """Run one; everything ends with the context."""
    with tempfile.TemporaryDirectory(prefix="waggle-") as directory:
        suite = ClockedSuite(f"unix:{directory}/suite.sock", Path(directory) / "verifier.key")
        server = RunningServer(suite.registry, suite.address(""))
        try:
            with running_gateway(suite.address(""), HttpLimits()) as port:
                suite.url = f"http://127.0.0.1:{port}"
                suite.writer_key = suite.issue("writer", ["memory_read", "memory_write", "memory_review"])
                yield suite
        finally:
            server.drain(1.0)
            suite.store.close()

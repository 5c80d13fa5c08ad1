"""A rollout: certificates and processes are replaced, one after the other, and no request of any client fails."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from services.runtime.transport import PLAIN, Transport
from tests.harness import builders
from tests.harness.api import Api
from tests.harness.certificates import issued_certificates
from tests.harness.edge import Edge
from tests.harness.replicated_suite import STATELESS, ReplicatedSuite, running_replicas
from tests.harness.suite import EVERY_SCOPE, START_S, wait_until
from waggle.identity.v1 import identity_service_pb2, identity_service_pb2_grpc

WRITER = ["memory_read", "memory_write", "memory_review", "memory_checkpoint"]
CLIENTS = 2
ROUNDS = 2


class Load:
    """Clients that write, search, read and look at jobs through the edge all the time, and one that speaks gRPC.

    Attributes:
        failures: What went otherwise than documented success.
        written: Texts of acknowledged records, by id.
        rounds: Of each client, how often it has done everything.
    """

    def __init__(self, suite: ReplicatedSuite, edge: Edge, key: str) -> None:
        self.suite, self.edge, self.key = suite, edge, key
        self.scope = builders.scope_json("rollout")
        self.failures: list[str] = []
        self.written: dict[str, str] = {}
        self.rounds = [0] * (CLIENTS + 1)
        self._stop = threading.Event()

    @contextmanager
    def running(self) -> Iterator[Load]:
        clients: list[Callable[[int], None]] = [self._speak_json] * CLIENTS + [self._speak_grpc]
        threads = [threading.Thread(target=client, args=(index,)) for index, client in enumerate(clients)]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()

    def go_on(self) -> None:
        """Wait until every client has done everything a few times more."""
        aims = [count + ROUNDS for count in self.rounds]
        wait_until(
            lambda: self.failures or all(count >= aim for count, aim in zip(self.rounds, aims, strict=True)),
            "every client goes on",
        )

    def _speak_json(self, index: int) -> None:
        with self.suite.client(self.edge, self.key) as client:
            api = Api(client, self.scope)
            while not self._stop.is_set():
                try:
                    self._round(api, f"client {index} round {self.rounds[index]}")
                except (AssertionError, httpx.HTTPError) as error:
                    self.failures.append(repr(error))
                self.rounds[index] += 1

    def _round(self, api: Api, text: str) -> None:
        record = api.create(text)
        self.written[record["record_id"]] = text
        assert 200 == api.get(record["record_id"]).status_code
        api.expect("memory/search/lexical", {"mode": "lexical", "query": {"text": text, "limit": 1}})
        api.expect("memory/consolidation/query", {"query": {"limit": 1, "scan_limit": 10}})
        identity = api.client.get("/api/v1/identity")
        assert 200 == identity.status_code, identity.text

    def _speak_grpc(self, index: int) -> None:
        credentials = grpc.ssl_channel_credentials(self.edge.certificate.read_bytes())
        metadata = (("authorization", f"Bearer {self.key}"),)
        with grpc.secure_channel(f"127.0.0.1:{self.edge.ports['edge']}", credentials) as channel:
            stub: Any = identity_service_pb2_grpc.IdentityServiceStub(channel)
            while not self._stop.is_set():
                try:
                    stub.GetIdentity(identity_service_pb2.GetIdentityRequest(), metadata=metadata, timeout=30)
                except grpc.RpcError as error:
                    self.failures.append(repr(error))
                self.rounds[index] += 1


def check_strangers(suite: ReplicatedSuite) -> None:
    """Storage refuses the gateway's certificate and one of another authority; no process speaks plain text."""
    foreign = issued_certificates(suite.directory / "foreign")
    status = "/waggle.storage.v1.StorageService/Status"
    refusals = [
        code_of(suite.certificates.transport("gateway"), suite.address("storage"), "storage", status),
        code_of(foreign.transport("memory"), suite.address("storage"), "storage", status),
    ]
    refusals += [code_of(PLAIN, suite.address(name), name, status) for name in ("storage", *STATELESS[:-1])]
    assert [grpc.StatusCode.PERMISSION_DENIED, *[grpc.StatusCode.UNAVAILABLE] * 6] == refusals
    assert grpc.StatusCode.OK == code_of(
        suite.certificates.transport("admin"), suite.address("storage"), "storage", status
    )


def code_of(transport: Transport, address: str, service: str, method: str) -> grpc.StatusCode:
    with transport.open_channel(address, service) as channel:
        try:
            channel.unary_unary(method)(b"", timeout=START_S)
        except grpc.RpcError as error:
            return error.code()  # type: ignore[attr-defined, no-any-return]
    return grpc.StatusCode.OK


def renew(suite: ReplicatedSuite, load: Load) -> None:
    """Issue all certificates anew, and see every process take its own up while the load goes on."""
    suite.certificates.renew()
    for member in (suite.storage, *suite.members):
        log = suite.log_of(member)
        wait_until(
            lambda log=log: load.failures or "key_material_reloaded" in log.read_text(encoding="utf-8"),
            f"{member.name} takes up its new certificate",
        )
    load.go_on()
    assert [] == load.failures


def roll(directory: Path, names: tuple[str, ...], each: int) -> None:
    """Replace so many of the two processes of each of these services under load: nothing fails, nothing is lost."""
    with running_replicas(directory, dict.fromkeys(names, 2)) as (suite, edge):
        spec = {"subject_id": "writer", "capabilities": WRITER, "grants": [], "scope_policy": EVERY_SCOPE}
        with suite.client(edge, suite.store.admin_key) as admin:
            issued = admin.post("/api/v1/credentials", json={"contract_version": 1, "spec": spec})
        assert issued.status_code == 201, issued.text
        key = issued.json()["secret"]
        check_strangers(suite)
        with Load(suite, edge, key).running() as load:
            load.go_on()
            assert [] == load.failures
            renew(suite, load)
            for name in names:
                for member in [member for member in suite.members if member.name == name][:each]:
                    suite.restart(member, edge.envoy, load.go_on)
                    load.go_on()
                    assert [] == load.failures, name
        with suite.client(edge, key) as client:
            api = Api(client, load.scope)
            found = {
                record_id: api.get(record_id).json()["record"]["payload"]["content"]["primary"]
                for record_id in load.written
            }
        assert load.written == found


def test_a_gateway_and_a_memory_are_replaced_without_a_failed_request(tmp_path: Path) -> None:
    """Writes, searches, reads, jobs and identity, in JSON and gRPC, under mutual TLS."""
    roll(tmp_path, ("memory", "gateway"), each=1)


@pytest.mark.deep
@pytest.mark.fault
def test_every_stateless_service_is_replaced_without_a_failed_request(tmp_path: Path) -> None:
    """The same for all of them."""
    roll(tmp_path, STATELESS, each=2)

"""The edge inside a suite of mutual TLS: it shows its own certificate, and believes each service for its name alone."""

from __future__ import annotations

import datetime
import ssl
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from services.edge.certificate import VALID_FOR, ensure_certificate
from services.runtime.health import HealthServicer
from tests.harness.certificates import Certificates, issued_certificates
from tests.harness.edge import running_edge
from tests.harness.raw_http import RawConnection, request_bytes
from tests.harness.suite import wait_until

METHOD = "/waggle.identity.v1.IdentityService/GetIdentity"
EDGE_URI = b"waggle://service/edge"


class Recorder(grpc.GenericRpcHandler):
    """A service that answers every call with nothing, and notes what the caller's certificate says."""

    def __init__(self) -> None:
        self.callers: list[bytes] = []

    def service(self, call: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        """Take whatever is not health."""
        if call.method.startswith("/grpc.health"):
            return None
        return grpc.unary_unary_rpc_method_handler(self._answer)

    def _answer(self, _request: bytes, context: grpc.ServicerContext) -> bytes:
        self.callers += context.auth_context()["peer_uri"]  # type: ignore[attr-defined]
        return b""


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return issued_certificates(tmp_path / "certificates")


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def address(request: pytest.FixtureRequest, certificates: Certificates, recorder: Recorder) -> Iterator[str]:
    """A server that shows the certificate of the service that the test names."""
    transport = certificates.transport(request.param)
    server = transport.make_server(4)
    health_pb2_grpc.add_HealthServicer_to_server(HealthServicer({}), server)
    server.add_generic_rpc_handlers((recorder,))
    port = transport.bind(server, "127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(0).wait()


def call(edge_port: int, certificate: Path) -> grpc.StatusCode:
    """Call through the edge with a new connection; the status."""
    credentials = grpc.ssl_channel_credentials(certificate.read_bytes())
    with grpc.secure_channel(f"127.0.0.1:{edge_port}", credentials) as channel:
        try:
            channel.unary_unary(METHOD)(b"", timeout=20)
        except grpc.RpcError as error:
            return error.code()  # type: ignore[attr-defined, no-any-return]
    return grpc.StatusCode.OK


@pytest.mark.parametrize("address", ["identity"], indirect=True)
def test_the_edge_shows_itself_and_goes_on_after_a_renewal(
    tmp_path: Path, certificates: Certificates, recorder: Recorder, address: str
) -> None:
    """Health and calls pass; with all certificates new, so do those of new connections, without a restart."""
    (tmp_path / "edge").mkdir()
    with running_edge(tmp_path / "edge", internal_tls=certificates.files("edge"), identity=address) as edge:
        assert grpc.StatusCode.OK == call(edge.door.port, edge.certificate)
        before = edge.renewals()
        certificates.renew()
        wait_until(lambda: edge.renewals() > before, "Envoy has read its key material anew")
        assert grpc.StatusCode.OK == call(edge.door.port, edge.certificate)
    assert {EDGE_URI} == set(recorder.callers)


@pytest.mark.parametrize("address", ["memory"], indirect=True)
def test_a_service_does_not_pass_for_another(
    tmp_path: Path, certificates: Certificates, recorder: Recorder, address: str
) -> None:
    """A good certificate of the suite with the wrong name is no identity service: not a byte of a call reaches it."""
    (tmp_path / "edge").mkdir()
    with running_edge(tmp_path / "edge", internal_tls=certificates.files("edge"), identity=address) as edge:
        assert grpc.StatusCode.UNAVAILABLE == call(edge.door.port, edge.certificate)
    assert [] == recorder.callers


def test_clients_are_shown_a_renewed_certificate_without_a_restart(tmp_path: Path) -> None:
    """The next connection has it; the one that is open goes on."""
    with running_edge(tmp_path) as edge:
        former = ssl.get_server_certificate(("127.0.0.1", edge.door.port))
        with RawConnection(edge.door) as connection:
            later = datetime.datetime.now(datetime.UTC) + VALID_FOR - datetime.timedelta(days=1)
            ensure_certificate(edge.certificate.parent, "127.0.0.1", now=later)
            wait_until(
                lambda: ssl.get_server_certificate(("127.0.0.1", edge.door.port)) != former, "the new one is shown"
            )
            connection.send(request_bytes("GET", "/nope"))
            assert 404 == connection.receive().status


def test_health_is_spoken_on_the_name_that_the_edge_asks_for() -> None:
    """The name in the deployed file is one that every process answers for."""
    servicer = HealthServicer({})
    answer = servicer.Check(health_pb2.HealthCheckRequest(service="calls"), None)  # type: ignore[arg-type]
    assert health_pb2.HealthCheckResponse.SERVING == answer.status

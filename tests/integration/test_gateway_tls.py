"""The gateway under mutual TLS: the hop from the edge."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.gateway.settings import HttpLimits
from services.runtime.key_material import CHECK_PERIOD_MS, ReloadedKeyMaterial, TlsFiles
from services.runtime.start_failure import CannotStart
from tests.harness.certificates import Certificates, issued_certificates
from tests.harness.clock import FakeClock
from tests.harness.raw_http import Door, RawConnection, request_bytes
from tests.harness.running_gateway import ScriptedBackend, running_gateway

TIMEOUT_S = 20.0
LIMITS = HttpLimits(linger_s=20.0)
HEALTH = request_bytes("GET", "/health")


class Named:
    """What a client shows and whom it believes; stands in for `raw_http.Door`."""

    def __init__(self, port: int, authority: Path, own: TlsFiles | None) -> None:
        self.port = port
        self.context = ssl.create_default_context(cafile=str(authority))
        if own is not None:
            self.context.load_cert_chain(own.certificate, own.key)

    def connect(self) -> socket.socket:
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=TIMEOUT_S)
        try:
            return self.context.wrap_socket(plain, server_hostname="waggle-gateway")
        except BaseException:
            plain.close()
            raise


class Served:
    """A gateway, its certificates and the clock by which it looks at them."""

    def __init__(self, port: int, certificates: Certificates, clock: FakeClock) -> None:
        self.port = port
        self.certificates = certificates
        self.clock = clock

    def door(self, name: str | None = "edge", *, of: Certificates | None = None) -> Named:
        """How a process connects; None for one without a certificate."""
        own = None if name is None else (of or self.certificates).files(name)
        return Named(self.port, self.certificates.files("edge").authority, own)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A gateway under TLS before a scripted backend."""
    certificates, clock = issued_certificates(tmp_path / "tls"), FakeClock()
    backend = ScriptedBackend(tmp_path)
    try:
        material = ReloadedKeyMaterial(certificates.files("gateway"), clock)
        with running_gateway(backend.address, LIMITS, material) as port:
            yield Served(port, certificates, clock)
    finally:
        backend.stop()


def health(door: Named | Door) -> int:
    """Status of GET /health. A refused certificate may show at the handshake or, as TLS 1.3 has it, after it."""
    with RawConnection(door) as connection:  # type: ignore[arg-type]
        connection.send(HEALTH)
        return connection.receive().status


def test_the_edge_is_served(served: Served) -> None:
    """With its certificate, and the name that it expects."""
    assert 200 == health(served.door())


def test_others_are_refused(served: Served, tmp_path: Path) -> None:
    """Without a certificate, with one of a foreign authority, and in plain text."""
    foreign = issued_certificates(tmp_path / "foreign")
    for door in (served.door(None), served.door(of=foreign)):
        with pytest.raises((ssl.SSLError, ConnectionError, EOFError)):
            health(door)
    with pytest.raises((ConnectionError, EOFError)):
        health(Door(served.port))


def test_renewal_is_taken_up_without_a_restart(served: Served) -> None:
    """New connections see the new certificate, and one that was open goes on."""
    with RawConnection(served.door()) as kept:  # type: ignore[arg-type]
        served.certificates.renew()
        served.clock.advance(CHECK_PERIOD_MS)
        with served.door().connect() as connection:
            assert isinstance(connection, ssl.SSLSocket)
            shown = connection.getpeercert(binary_form=True)
        kept.send(HEALTH)
        assert 200 == kept.receive().status
    assert shown is not None
    assert served.certificates.files("gateway").certificate.read_text() == ssl.DER_cert_to_PEM_cert(shown)


def test_an_authority_that_was_taken_away_is_believed_no_more(served: Served, tmp_path: Path) -> None:
    """What is believed is replaced, not added to."""
    foreign = issued_certificates(tmp_path / "foreign")
    assert 200 == health(served.door())
    served.certificates.files("gateway").authority.write_bytes(foreign.files("edge").authority.read_bytes())
    served.clock.advance(CHECK_PERIOD_MS)
    with pytest.raises((ssl.SSLError, ConnectionError, EOFError)):
        health(served.door())
    assert 200 == health(served.door(of=foreign))


def test_an_early_refusal_is_read_while_the_body_is_still_sent(served: Served) -> None:
    """Under TLS too the answer does not get lost in a reset."""
    head = (
        b"POST /api/v1/memory/query HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    )
    with RawConnection(served.door()) as connection:  # type: ignore[arg-type]
        connection.send(head % (1 << 22))
        for _ in range(64):
            connection.send(b" " * (1 << 16))
        response = connection.receive()
    assert (413, "invalid_request", "close") == (response.status, response.code, response.headers["connection"])


def test_files_that_are_no_certificate_keep_it_from_starting(tmp_path: Path) -> None:
    """The message names the file."""
    certificates = issued_certificates(tmp_path / "tls")
    certificates.files("gateway").key.write_text("nothing")
    with pytest.raises(CannotStart, match=r"gateway/tls\.key"):
        ReloadedKeyMaterial(certificates.files("gateway"))

"""Mutual TLS between real servers and channels: who is refused, and that renewal ends no call."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest

from services.runtime.key_material import CHECK_PERIOD_MS
from services.runtime.server import Registry, RunningServer
from services.runtime.transport import PLAIN, Transport
from services.storage.__main__ import CALLERS
from tests.harness.certificates import Certificates, issued_certificates
from tests.harness.clock import FakeClock
from tests.harness.suite import wait_until
from waggle.storage.v1 import storage_service_pb2 as pb
from waggle.storage.v1 import storage_service_pb2_grpc as pb_grpc

CALL_S = 20.0
REFUSED_S = 2.0
SERVICES = ("storage", "identity", "memory", "retrieval", "consolidation", "gateway", "edge", "admin")


class Storage(pb_grpc.StorageServiceServicer):
    """Answers reads at once; streams a page, and the rest once it may."""

    def __init__(self) -> None:
        self.may_go_on = threading.Event()

    def Read(self, request: Any, context: grpc.ServicerContext) -> Any:
        return pb.ReadResponse(sequence=7)

    def ChangedSince(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        yield pb.ChangedSinceResponse()
        self.may_go_on.wait(CALL_S)
        yield pb.ChangedSinceResponse(last=True)


class Served:
    """A server with the certificate of storage, and callers with those of others."""

    def __init__(self, directory: Path, *, admitted: tuple[str, ...] | None = None) -> None:
        self.certificates = issued_certificates(directory / "tls")
        self.clock = FakeClock()
        self.servicer = Storage()
        registry = Registry()
        if admitted is not None:
            registry.admit_only(admitted)
        registry.add(pb_grpc.add_StorageServiceServicer_to_server, self.servicer)
        server = RunningServer(registry, "127.0.0.1:0", transport=self.transport("storage"))
        self.stop: Callable[[], None] = lambda: server.drain(1.0)
        self.address = f"127.0.0.1:{server.port}"

    def transport(self, name: str) -> Transport:
        return self.certificates.transport(name, self.clock)

    def renew(self) -> None:
        """Issue all certificates anew, and let the time pass after which that is seen."""
        self.certificates.renew()
        self.clock.advance(CHECK_PERIOD_MS)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A server that admits whoever has a certificate."""
    running = Served(tmp_path)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that admits whom storage admits. Tests leave its certificates alone."""
    running = Served(tmp_path_factory.mktemp("storage"), admitted=CALLERS)
    yield running
    running.stop()


def read(channel: grpc.Channel, timeout_s: float = CALL_S) -> int:
    response: Any = pb_grpc.StorageServiceStub(channel).Read(pb.ReadRequest(), timeout=timeout_s)
    return int(response.sequence)


def code_of(channel: grpc.Channel) -> grpc.StatusCode:
    """The status that a read fails with."""
    with channel, pytest.raises(grpc.RpcError) as caught:
        read(channel, REFUSED_S)
    code: grpc.StatusCode = caught.value.code()
    return code


@pytest.mark.parametrize("name", SERVICES)
def test_storage_serves_those_who_need_it_and_no_one_else(storage: Served, name: str) -> None:
    """The gateway and the edge have certificates of the authority, and reach nothing of storage with them."""
    with storage.transport(name).open_channel(storage.address, "storage") as channel:
        if name in CALLERS:
            assert 7 == read(channel)
        else:
            assert grpc.StatusCode.PERMISSION_DENIED == code_of(channel)


def test_a_refused_peer_learns_nothing_of_its_request(storage: Served) -> None:
    """Peers are judged before what they send: malformed bytes are refused like any others."""
    with storage.transport("gateway").open_channel(storage.address, "storage") as channel:
        call: Any = channel.unary_unary("/waggle.storage.v1.StorageService/Read")
        with pytest.raises(grpc.RpcError) as caught:
            call(b"\xff\xff", timeout=CALL_S)
    assert grpc.StatusCode.PERMISSION_DENIED == caught.value.code()


def test_who_shows_no_certificate_is_refused(storage: Served) -> None:
    """In plain text, and under TLS without a certificate of its own."""
    authority = storage.certificates.files("storage").authority.read_bytes()
    name = ("grpc.ssl_target_name_override", "waggle-storage")
    nameless = grpc.secure_channel(storage.address, grpc.ssl_channel_credentials(authority), options=[name])
    channels = [PLAIN.open_channel(storage.address, "storage"), nameless]
    assert [grpc.StatusCode.UNAVAILABLE] * 2 == [code_of(channel) for channel in channels]


def test_a_foreign_authority_is_refused_by_both_ends(storage: Served, tmp_path: Path) -> None:
    """A certificate that says "memory" is nothing when somebody else has signed it; nor is such a server believed."""
    foreign = issued_certificates(tmp_path / "foreign")
    believer = tmp_path / "believer"
    believer.mkdir()
    files = foreign.files("memory")
    for path in (files.certificate, files.key):
        (believer / path.name).write_bytes(path.read_bytes())
    (believer / "ca.crt").write_bytes(storage.certificates.files("memory").authority.read_bytes())
    transports = [foreign.transport("memory"), Certificates(tmp_path).transport("believer")]
    codes = [code_of(transport.open_channel(storage.address, "storage")) for transport in transports]
    assert [grpc.StatusCode.UNAVAILABLE] * 2 == codes


@pytest.mark.parametrize("expected", ["memory", "identity", "gateway"])
def test_callers_speak_to_the_service_that_they_mean(storage: Served, expected: str) -> None:
    """Whoever answers at the address of another service is not taken for it, though the authority has signed it."""
    channel = storage.transport("memory").open_channel(storage.address, expected)
    assert grpc.StatusCode.UNAVAILABLE == code_of(channel)


def test_a_socket_of_this_machine_is_no_way_around(tmp_path: Path) -> None:
    """The same certificates over a Unix socket, whose address is no name."""
    certificates = issued_certificates(tmp_path / "tls")
    address = f"unix:{tmp_path}/s.sock"
    registry = Registry()
    registry.add(pb_grpc.add_StorageServiceServicer_to_server, Storage())
    server = RunningServer(registry, address, transport=certificates.transport("storage"))
    try:
        with certificates.transport("memory").open_channel(address, "storage") as channel:
            assert 7 == read(channel)
        assert grpc.StatusCode.UNAVAILABLE == code_of(PLAIN.open_channel(address, "storage"))
    finally:
        server.drain(1.0)


def test_renewal_reaches_both_ends_and_ends_no_call(served: Served) -> None:
    """Many renewals under load: no call fails, and calls end up with certificates that were not there at the start."""
    stop, failures, counts = threading.Event(), [], [0] * 4

    def call_on(index: int, channel: grpc.Channel) -> None:
        while not stop.is_set():
            try:
                counts[index] += read(channel) == 7
            except grpc.RpcError as error:
                failures.append(error)

    with served.transport("memory").open_channel(served.address, "storage") as channel:
        threads = [threading.Thread(target=call_on, args=(index, channel)) for index in range(4)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(5):
                aims = [count + 5 for count in counts]
                served.renew()
                wait_until(partial(have_reached, counts, aims), "calls went on")
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    assert [] == failures
    assert certificate_of(served) == served.certificates.files("storage").certificate.read_bytes()


def have_reached(counts: list[int], aims: list[int]) -> bool:
    return all(count > aim for count, aim in zip(counts, aims, strict=True))


def certificate_of(served: Served) -> bytes:
    """The certificate that the server shows now, PEM."""
    files = served.certificates.files("memory")
    context = ssl.create_default_context(cafile=str(files.authority))
    context.load_cert_chain(files.certificate, files.key)
    context.set_alpn_protocols(["h2"])
    host, port = served.address.split(":")
    with (
        socket.create_connection((host, int(port)), timeout=CALL_S) as plain,
        context.wrap_socket(plain, server_hostname="waggle-storage") as connection,
    ):
        shown = connection.getpeercert(binary_form=True)
    assert shown is not None
    return ssl.DER_cert_to_PEM_cert(shown).encode("ascii")


def test_a_stream_outlives_the_certificate_that_it_began_with(served: Served) -> None:
    """It goes on over its own connection, while later calls use the new certificate."""
    with served.transport("memory").open_channel(served.address, "storage") as channel:
        stream: Any = pb_grpc.StorageServiceStub(channel).ChangedSince(pb.ChangedSinceRequest(), timeout=CALL_S)
        first = next(stream)
        served.renew()
        assert 7 == read(channel)
        served.servicer.may_go_on.set()
        assert [False, True] == [first.last, next(stream).last]
        with pytest.raises(StopIteration):
            next(stream)
        future = pb_grpc.StorageServiceStub(channel).Read.future(pb.ReadRequest(), timeout=CALL_S)
        assert 7 == future.result().sequence


def test_a_caller_whose_authority_was_taken_away_is_refused(served: Served, tmp_path: Path) -> None:
    """What the server believes changes with its file as well, for connections that begin afterwards."""
    with served.transport("memory").open_channel(served.address, "storage") as channel:
        assert 7 == read(channel)
    another = issued_certificates(tmp_path / "another").files("storage").authority
    served.certificates.files("storage").authority.write_bytes(another.read_bytes())
    served.clock.advance(CHECK_PERIOD_MS)
    assert grpc.StatusCode.UNAVAILABLE == code_of(served.transport("memory").open_channel(served.address, "storage"))


def test_renewal_reaches_calls_of_an_event_loop(served: Served) -> None:
    """The gateway's channels too: none of its calls fails, whichever certificate it began with."""

    async def run() -> list[int]:
        async with served.transport("memory").open_async_channel(served.address, "storage") as channel:
            call: Any = pb_grpc.StorageServiceStub(channel).Read
            answers = []
            for _ in range(3):
                before = [call(pb.ReadRequest(), timeout=CALL_S) for _ in range(20)]
                served.renew()
                after = [call(pb.ReadRequest(), timeout=CALL_S) for _ in range(20)]
                answers += await asyncio.gather(*before, *after)
            return [answer.sequence for answer in answers]

    assert [7] * 120 == asyncio.run(run())

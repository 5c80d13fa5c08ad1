"""What Envoy itself answers in JSON, and what it adds to an answer or keeps from it, as deployed, over TLS."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from services.gateway.settings import HttpLimits
from tests.harness.edge import EDGE_SERVICES, ENVOY_YAML, NOWHERE, Edge, http_manager, running_edge, suit_tests
from tests.harness.half_sent import HalfSent
from tests.harness.plain_http import PlainRequest, PlainServer, Reply, json_reply, plain_server, raw_reply
from tests.harness.raw_http import Door, RawConnection, RawResponse, request_bytes
from tests.harness.running_gateway import ScriptedBackend, running_gateway
from tests.harness.suite import wait_until

READ = "/api/v1/identity"
COMMAND = "/api/v1/memory/commands"
SEARCH = "/api/v1/memory/search"
SECRET = "marmalade-7741"
MIB = 1024 * 1024
ALERTS = ENVOY_YAML.parents[1] / "monitoring" / "alerts.yaml"
EDGE_FIGURE = re.compile(r"\benvoy_[a-z_]+\b(?=[{\[])")


class Scripted:
    """A gateway that answers health well, and anything else as a test says."""

    def __init__(self) -> None:
        self.answer: Callable[[PlainRequest], Reply] = lambda _request: json_reply({"fine": True})
        self.server: PlainServer | None = None

    def __call__(self, request: PlainRequest) -> Reply:
        return json_reply({"status": "healthy"}) if request.path == "/health" else self.answer(request)

    def seen(self) -> list[PlainRequest]:
        """Requests other than for health."""
        assert self.server is not None
        return [request for request in self.server.requests if request.path != "/health"]


@pytest.fixture(scope="module")
def scripted() -> Iterator[Scripted]:
    gateway = Scripted()
    with plain_server(gateway) as server:
        gateway.server = server
        yield gateway


@pytest.fixture
def gateway(scripted: Scripted) -> Scripted:
    """The scripted gateway with nothing seen yet."""
    assert scripted.server is not None
    scripted.server.requests.clear()
    scripted.answer = lambda _request: json_reply({"fine": True})
    return scripted


def address_of(scripted: Scripted) -> str:
    assert scripted.server is not None
    return scripted.server.url.removeprefix("http://")


def impatient(bootstrap: dict[str, Any]) -> None:
    """Every time-out of the deployed file in tenths of a second; nothing else is changed."""
    suit_tests(bootstrap)
    manager = http_manager(bootstrap)
    manager["request_headers_timeout"] = "0.4s"
    manager["drain_timeout"] = "0.1s"
    manager["common_http_protocol_options"]["idle_timeout"] = "0.8s"
    for route in manager["route_config"]["virtual_hosts"][0]["routes"]:
        if route.get("route", {}).get("cluster") == "gateway":
            route["route"]["timeout"] = "0.5s"
            route["route"]["max_stream_duration"] = {"max_stream_duration": "0.6s"}


def without_checks(bootstrap: dict[str, Any]) -> None:
    """Every gateway is taken for well, whatever it does."""
    for name in ("health_checks", "outlier_detection"):
        del bootstrap["static_resources"]["clusters"][0][name]


def with_heap(size: int) -> Callable[[dict[str, Any]], None]:
    """Less memory than is deployed, and more patience, so that nothing but want of memory ends anything."""

    def tweak(bootstrap: dict[str, Any]) -> None:
        suit_tests(bootstrap)
        http_manager(bootstrap)["stream_idle_timeout"] = "300s"
        monitor = bootstrap["overload_manager"]["resource_monitors"][0]
        monitor["typed_config"]["max_heap_size_bytes"] = size

    return tweak


def without_room(bootstrap: dict[str, Any]) -> None:
    """A circuit breaker that is open from the start."""
    suit_tests(bootstrap)
    gateway = bootstrap["static_resources"]["clusters"][0]
    gateway["circuit_breakers"] = {"thresholds": [{"max_pending_requests": 0}]}


@pytest.fixture(scope="module")
def edge(scripted: Scripted, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    with running_edge(tmp_path_factory.mktemp("edge"), suit_tests, gateway=address_of(scripted)) as running:
        yield running


@pytest.fixture(scope="module")
def hasty(scripted: Scripted, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    """The same with time-outs that a test can wait for."""
    with running_edge(tmp_path_factory.mktemp("hasty"), impatient, gateway=address_of(scripted)) as running:
        yield running


def ask(door: Door, method: str, path: str, body: bytes | None = None, headers: tuple[str, ...] = ()) -> RawResponse:
    """One request on a connection of its own."""
    with RawConnection(door) as connection:
        connection.send(request_bytes(method, path, body, headers=headers))
        return connection.receive()


def assert_refused(response: RawResponse, status: int, code: str) -> None:
    """The documented envelope with no-store, and no word about the software."""
    assert (status, code) == (response.status, response.code)
    assert "no-store" == response.headers["cache-control"]
    assert "application/json" == response.headers["content-type"]
    assert_unnamed(response.headers)


def assert_unnamed(headers: dict[str, str]) -> None:
    assert not [name for name in headers if name in ("server", "via", "retry-after") or name.startswith("x-envoy")]


def test_an_unknown_route_is_not_found_at_the_edge(edge: Edge, gateway: Scripted) -> None:
    """The gateway is not asked; the answer has the id of the request."""
    response = ask(edge.door, "GET", "/api/v1/nope", headers=("X-Request-Id: mine",))
    assert_refused(response, 404, "not_found")
    assert "mine" == response.headers["x-request-id"]
    assert [] == gateway.seen()


@pytest.mark.parametrize("protocol", ["http/1.1", "h2"])
def test_both_versions_of_http_are_spoken(edge: Edge, gateway: Scripted, protocol: str) -> None:
    """The client chooses in the TLS handshake; answers and refusals are the same."""
    context = edge.tls(*(["h2", "http/1.1"] if protocol == "h2" else []))
    url = f"https://127.0.0.1:{edge.door.port}"
    with httpx.Client(base_url=url, verify=context, http1=protocol != "h2", http2=protocol == "h2") as client:
        answers = [
            client.get(READ),
            client.post(COMMAND, content=bytes(65_536), headers={"content-type": "application/json"}),
            client.post(COMMAND, content=bytes(65_537), headers={"content-type": "application/json"}),
            client.post(COMMAND, content=iter([bytes(65_537)]), headers={"content-type": "application/json"}),
            client.get("/nope"),
        ]
    assert {"HTTP/2" if protocol == "h2" else "HTTP/1.1"} == {answer.http_version for answer in answers}
    assert [200, 200, 413, 413, 404] == [answer.status_code for answer in answers]
    assert {"no-store"} == {answer.headers["cache-control"] for answer in answers}
    assert ["invalid_request", "invalid_request", "not_found"] == [
        answer.json()["error"]["code"] for answer in answers[2:]
    ]
    assert [READ, COMMAND] == [request.path for request in gateway.seen()]
    for answer in answers:
        assert_unnamed(dict(answer.headers))


def test_a_client_that_reads_while_it_sends_is_told_early(edge: Edge, gateway: Scripted) -> None:
    """Of an endless body no more is sent than until the refusal is there."""
    head = request_bytes("POST", SEARCH, headers=("Transfer-Encoding: chunked", "Content-Type: application/json"))
    with RawConnection(edge.door) as connection:
        connection.send(head)
        sent = connection.send_until_answered(b"10000\r\n" + bytes(0x10000) + b"\r\n")
        assert_refused(connection.receive(), 413, "invalid_request")
    assert 2_097_152 < sent < 16_000_000
    assert [] == gateway.seen()


@pytest.mark.parametrize(("method", "path"), [("GET", READ), ("POST", COMMAND)])
def test_without_a_gateway_it_is_busy(tmp_path: Path, method: str, path: str) -> None:
    """Nothing was begun, and 503 says so, after a few more attempts."""
    with running_edge(tmp_path, suit_tests) as alone:
        response = ask(alone.door, method, path, b"{}" if method == "POST" else None)
        assert_refused(response, 503, "retrieval_busy")
        assert 5 == alone.access(response.headers["x-request-id"])["attempts"]


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/health", 200), ("POST", COMMAND, 400)])
def test_what_one_gateway_refuses_goes_to_the_other(tmp_path: Path, method: str, path: str, status: int) -> None:
    """Also when health checks have not seen yet that it is gone, and many clients move the edge's turns about."""
    backend = ScriptedBackend(tmp_path)
    with (
        running_gateway(backend.address, HttpLimits()) as port,
        running_edge(tmp_path, without_checks, gateway=f"ipv4:{NOWHERE},127.0.0.1:{port}") as pair,
    ):

        def attempts(number: int) -> tuple[int, int]:
            headers = (f"X-Request-Id: turn-{number}",)
            response = ask(pair.door, method, path, b"{}" if method == "POST" else None, headers)
            return response.status, pair.access(f"turn-{number}")["attempts"]

        with ThreadPoolExecutor(8) as threads:
            found = set(threads.map(attempts, range(48)))
    backend.stop()
    assert {(status, 1), (status, 2)} == found


def test_without_room_it_is_busy(scripted: Scripted, tmp_path: Path) -> None:
    """An open circuit breaker refuses what it does not begin."""
    with running_edge(tmp_path, without_room, gateway=address_of(scripted)) as full:
        assert_refused(ask(full.door, "POST", COMMAND, b"{}"), 503, "retrieval_busy")


def test_without_memory_it_is_busy(scripted: Scripted, tmp_path: Path) -> None:
    """Refused before any route is looked for."""
    with running_edge(tmp_path, with_heap(1), gateway=address_of(scripted)) as full:
        wait_until(lambda: ask(full.door, "GET", READ).status != 200, "the edge has seen how much it uses")
        assert_refused(ask(full.door, "GET", READ), 503, "retrieval_busy")


@pytest.mark.parametrize("content_type", ["application/json", "application/grpc"])
def test_who_sends_much_and_never_finishes_keeps_nobody_out(
    scripted: Scripted, tmp_path: Path, content_type: str
) -> None:
    """Nobody asks for its key before the request is whole, so the requests that hold most end when room runs out."""
    path = SEARCH if content_type == "application/json" else "/waggle.identity.v1.IdentityService/GetIdentity"
    with running_edge(tmp_path, with_heap(64 * MIB), gateway=address_of(scripted)) as small:
        clients = [HalfSent(Door(small.ports["edge"], small.tls("h2"))) for _ in range(2)]
        for number in range(80):
            clients[number % 2].send(path, content_type, 2 * MIB - 1)
        wait_until(lambda: ask(small.door, "GET", READ).status == 200, "others are served")
        assert sum(client.ended for client in clients) >= 1
        for client in clients:
            client.close()


def test_who_does_not_read_keeps_nobody_out(gateway: Scripted, tmp_path: Path) -> None:
    """Answers that nobody takes are not kept for long when room runs out."""
    gateway.answer = lambda _request: raw_reply(bytes(MIB // 2), "Connection: close")
    with running_edge(tmp_path, with_heap(64 * MIB), gateway=address_of(gateway)) as small:
        clients = [HalfSent(Door(small.ports["edge"], small.tls("h2")), reads=False) for _ in range(2)]
        for client in clients:
            for _ in range(90):
                client.ask(READ)
        wait_until(lambda: ask(small.door, "GET", "/health").status == 503, "there is no room")
        wait_until(lambda: ask(small.door, "GET", "/health").status == 200, "others are served")
        for client in clients:
            client.close()


def test_silent_bodies_of_http_1_are_not_waited_for_long(scripted: Scripted, tmp_path: Path) -> None:
    """The same over connections of their own: with little memory left, silence ends a request within seconds."""
    head = request_bytes("POST", SEARCH, headers=(f"Content-Length: {2 * MIB}", "Content-Type: application/json"))
    with running_edge(tmp_path, with_heap(64 * MIB), gateway=address_of(scripted)) as small, ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(RawConnection(small.door)).send(head + bytes(2 * MIB - 1))
        wait_until(lambda: ask(small.door, "GET", READ).status == 503, "there is no room")
        wait_until(lambda: ask(small.door, "GET", READ).status == 200, "others are served")


def test_a_gateway_that_does_not_answer_is_given_up(hasty: Edge, gateway: Scripted) -> None:
    """504: the effect of a command is not known then."""
    gateway.answer = lambda _request: None
    assert_refused(ask(hasty.door, "POST", COMMAND, b"{}"), 504, "internal_error")
    assert 1 == len(gateway.seen())


@pytest.mark.parametrize("reply", [b"", b"marmalade\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n"])
def test_a_command_that_was_sent_is_never_sent_again(edge: Edge, gateway: Scripted, reply: bytes) -> None:
    """The connection is lost after it, or what comes back is no HTTP: 500, and one command."""
    gateway.answer = lambda _request: reply
    assert_refused(ask(edge.door, "POST", COMMAND, b"{}"), 500, "internal_error")
    assert 1 == len(gateway.seen())


def test_a_read_is_tried_again(edge: Edge, gateway: Scripted) -> None:
    """It has no effect, so a lost connection is no answer yet."""
    gateway.answer = lambda _request: b"" if len(gateway.seen()) < 3 else json_reply({"fine": True})
    assert 200 == ask(edge.door, "GET", READ).status
    assert 3 == len(gateway.seen())


@pytest.mark.parametrize("status", [500, 503])
def test_documented_failures_are_passed_on_as_they_are(edge: Edge, gateway: Scripted, status: int) -> None:
    """The gateway has answered: no second attempt, and not a word of the answer is changed."""
    document = {"contract_version": 1, "error": {"code": "retrieval_busy", "message": "as the gateway says"}}
    gateway.answer = lambda _request: json_reply(document, status=status)
    response = ask(edge.door, "GET", READ)
    assert (status, document) == (response.status, response.json)
    assert 1 == len(gateway.seen())


def test_answers_name_no_software_and_are_not_stored(edge: Edge, gateway: Scripted) -> None:
    """Whatever stands behind may forget it."""
    gateway.answer = lambda _request: raw_reply(b"{}", cache_control=None)
    response = ask(edge.door, "GET", READ)
    assert "no-store" == response.headers["cache-control"]
    assert_unnamed(response.headers)


def test_a_clients_words_to_envoy_are_not_heard(edge: Edge, gateway: Scripted) -> None:
    """Nobody outside chooses retries or time-outs, whatever address it comes from; the gateway sees none of it."""
    gateway.answer = lambda _request: b""
    words = ("X-Envoy-Retry-On: 5xx,reset", "X-Envoy-Max-Retries: 9", "X-Envoy-Upstream-Rq-Timeout-Ms: 1")
    assert_refused(ask(edge.door, "POST", COMMAND, b"{}", words), 500, "internal_error")
    (request,) = gateway.seen()
    assert not [name for name in request.headers if name.startswith("x-envoy")]


def test_a_request_has_one_id_everywhere(edge: Edge, gateway: Scripted) -> None:
    """The client's own, letter for letter, or a new one: at the gateway, and in the log of the edge."""
    for given in ("0190c42e-1c1b-7abc-8def-000000000000", "order:7/a", None):
        ask(edge.door, "GET", READ, headers=() if given is None else (f"X-Request-Id: {given}",))
        seen = gateway.seen()[-1].headers["x-request-id"]
        assert given in (None, seen)
        assert READ == edge.access(seen)["route"]


def test_plain_http_is_told_of_tls(edge: Edge, gateway: Scripted) -> None:
    """A forgotten "s" is not a mystery, and a key that was sent in the clear goes no further."""
    for method, path in (("GET", READ), ("POST", COMMAND), ("GET", "/nope")):
        body = b"{}" if method == "POST" else None
        response = ask(Door(edge.door.port), method, path, body, (f"Authorization: Bearer {SECRET}",))
        assert_refused(response, 400, "invalid_request")
        assert "https" in response.json["error"]["message"]
    assert [] == gateway.seen()


def test_old_tls_is_not_spoken(edge: Edge) -> None:
    """1.2 is the least."""
    context = edge.tls()
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        context.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(OSError, match=r"(?i)ssl|tls|reset"):
        Door(edge.door.port, context).connect()


def test_a_slow_header_is_refused(hasty: Edge, gateway: Scripted) -> None:
    """The time is counted from its beginning, not from its last byte."""
    with RawConnection(hasty.door) as slow:
        slow.send(b"GET /health HTTP/1.1\r\nHost: g\r\n")
        assert_refused(slow.receive(), 400, "invalid_request")
        assert slow.is_closed_by_server()


@pytest.mark.parametrize("framing", ["Content-Length: 1000", "Transfer-Encoding: chunked"])
def test_a_slow_body_is_refused_and_was_never_seen_behind(hasty: Edge, gateway: Scripted, framing: str) -> None:
    """A request reaches the gateway whole or not at all."""
    with RawConnection(hasty.door) as slow:
        slow.send(request_bytes("POST", COMMAND, headers=(framing, "Content-Type: application/json")) + b"5\r\n{   ")
        assert_refused(slow.receive(), 400, "invalid_request")
        assert slow.is_closed_by_server()
    assert [] == gateway.seen()


def test_an_idle_connection_is_closed_without_a_word(hasty: Edge) -> None:
    """Before its first request as after one."""
    with RawConnection(hasty.door) as idle:
        assert idle.is_closed_by_server()
    with RawConnection(hasty.door) as idle:
        idle.send(request_bytes("GET", READ))
        assert 200 == idle.receive().status
        assert idle.is_closed_by_server()


def test_the_log_holds_no_secret(edge: Edge, gateway: Scripted) -> None:
    """Wherever a client puts it: header, path, query, body, method, or what is no HTTP at all."""
    bearer = (f"Authorization: Bearer {SECRET}", f"Cookie: {SECRET}", f"User-Agent: {SECRET}", f"Referer: {SECRET}")
    sent = [
        ask(edge.door, "POST", COMMAND, f'"{SECRET}"'.encode(), bearer),
        ask(edge.door, "GET", f"{READ}?key={SECRET}", headers=bearer),
        ask(edge.door, "GET", f"/api/v1/credentials/{SECRET}"),
        ask(edge.door, "GET", f"/{SECRET}/%41"),
        ask(edge.door, "POST", f"/{SECRET}", SECRET.encode()),
    ]
    with RawConnection(edge.door) as garbage:
        garbage.send(f"GET / HTTP/1.1\r\nHost: g\r\n{SECRET}\r\n\r\n".encode())
        assert_refused(garbage.receive(), 400, "invalid_request")
    ids = [request.headers["x-request-id"] for request in gateway.seen()]
    ids += [response.headers["x-request-id"] for response in sent if "x-request-id" in response.headers]
    assert [COMMAND, READ, "/api/v1/credentials/{credential_id}", "escaped", "unknown"] == [
        edge.access(request_id)["route"] for request_id in ids
    ]
    assert SECRET not in edge.log.read_text(encoding="utf-8")


def test_the_platform_sees_readiness_and_figures_only(edge: Edge) -> None:
    """Neither the configuration nor a way to stop the process leads out of it."""
    door = Door(edge.ports["operations"])
    assert 200 == ask(door, "GET", "/ready").status
    for method, path in (("GET", "/config_dump"), ("POST", "/quitquitquit"), ("POST", "/ready"), ("GET", "/")):
        assert 404 == ask(door, method, path).status, path


def test_the_alerts_ask_for_what_the_edge_has(edge: Edge) -> None:
    """Names of figures are Envoy's own, and of some only where something has happened: not of these."""
    rules = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"][0]["rules"]
    asked = {found for rule in rules for found in EDGE_FIGURE.findall(rule["expr"])}
    figures = edge.envoy.ask("GET", "/stats/prometheus")[1].decode("utf-8")
    assert asked
    for name in asked:
        labels = set(re.findall(rf"^{name}\{{(.*)\}} \d+$", figures, re.MULTILINE))
        assert labels, name
        if name.startswith("envoy_cluster_"):
            assert {f'envoy_cluster_name="{cluster}"' for cluster in (*EDGE_SERVICES, "admin")} == labels, name

"""HTTP at the gateway's door, byte by byte: headers, routes, time-outs. With and without Envoy before it."""

from __future__ import annotations

import json

import pytest

from tests.harness.gateway_requests import (
    BODY,
    DOCUMENTS,
    QUERY,
    assert_refused,
    assert_serves,
)
from tests.harness.raw_http import Door, RawConnection, request_bytes
from tests.harness.running_gateway import ScriptedBackend


def test_a_connection_is_kept_for_further_requests(connection: RawConnection, backend: ScriptedBackend) -> None:
    """Success and refusals alike leave a whole request's connection open; nothing names the server's software."""
    for _ in range(3):
        connection.send(request_bytes("POST", QUERY, BODY))
        response = connection.receive()
        assert (response.status, response.headers["cache-control"]) == (200, "no-store")
        assert not {"server", "connection", "transfer-encoding"} & set(response.headers)
        connection.send(request_bytes("POST", QUERY, b"{}"))
        assert_refused(connection.receive(), 400, "invalid_request")
    assert len(backend.requests) == 3


def test_pipelined_requests_are_answered_in_order(connection: RawConnection) -> None:
    """Two requests in one packet give two answers in their order."""
    connection.send(request_bytes("POST", QUERY, BODY) + request_bytes("GET", "/health"))
    assert "page" in connection.receive().json
    assert connection.receive().json["status"] == "healthy"


def test_two_authorization_headers_are_401(door: Door, connection: RawConnection, backend: ScriptedBackend) -> None:
    """Equal or not, in any case of the name, on GET and POST."""
    twice = ("Authorization: Bearer a", "AUTHORIZATION: Bearer a")
    connection.send(request_bytes("GET", "/api/v1/identity", headers=twice))
    assert_refused(connection.receive(), 401, "unauthorized")
    connection.send(request_bytes("POST", QUERY, BODY, headers=twice))
    assert_refused(connection.receive(), 401, "unauthorized")
    assert backend.requests == []


@pytest.mark.parametrize("value", ["Bearer \xe9", "Bearer " + "x" * 5000])
def test_an_authorization_that_cannot_be_a_credential_is_401(connection: RawConnection, value: str) -> None:
    """Bytes outside visible ASCII and absurd lengths are not passed on."""
    connection.send(request_bytes("GET", "/api/v1/identity", headers=(f"Authorization: {value}",)))
    assert_refused(connection.receive(), 401, "unauthorized")


@pytest.mark.parametrize("around", ["", " ", "\t", " \t "])
def test_white_space_around_an_authorization_is_no_part_of_it(
    connection: RawConnection, backend: ScriptedBackend, around: str
) -> None:
    """As RFC 9110 says of every value."""
    connection.send(request_bytes("GET", "/api/v1/identity", headers=(f"Authorization:{around}Bearer key{around}",)))
    assert 200 == connection.receive().status
    assert "Bearer key" == backend.metadata["authorization"]


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/", 404, "not_found"),
        ("GET", "/api/v1/nope", 404, "not_found"),
        ("GET", "/health/", 404, "not_found"),
        ("GET", "/%68ealth%00", 404, "not_found"),
        ("GET", "/api/v1/memory/records/", 404, "not_found"),
        ("POST", "/health", 405, "method_not_allowed"),
        ("OPTIONS", "/health", 405, "method_not_allowed"),
        ("DELETE", "/api/v1/credentials/x", 405, "method_not_allowed"),
        ("PATCH", "/openapi.json", 405, "method_not_allowed"),
        ("GET", QUERY, 405, "method_not_allowed"),
    ],
)
def test_unknown_routes_and_methods_have_the_envelope(
    connection: RawConnection, method: str, path: str, status: int, code: str
) -> None:
    """404 for a path that no route has, 405 with Allow for one that has another method; the connection stays."""
    connection.send(request_bytes(method, path))
    response = connection.receive()
    assert_refused(response, status, code)
    allowed = response.headers.get("allow", "")
    assert (status == 405) == bool(allowed)
    assert (allowed or "GET /openapi.json") in response.json["error"]["message"]
    connection.send(request_bytes("GET", "/health"))
    assert connection.receive().status == 200


def test_a_review_with_its_version_outside_is_told_where_it_belongs(connection: RawConnection) -> None:
    """The one route whose contract_version stands inside of the command says so."""
    body = json.dumps({"contract_version": 1, "scope": DOCUMENTS[QUERY]["scope"], "command": {}}).encode()
    connection.send(request_bytes("POST", "/api/v1/memory/reviews", body))
    response = connection.receive()
    assert_refused(response, 400, "invalid_request")
    assert "contract_version: unknown member; it belongs in command" == response.json["error"]["message"]


def test_a_head_request_is_405_without_a_body(connection: RawConnection) -> None:
    """As HTTP wants it: the header of the refusal, no body."""
    connection.send(request_bytes("HEAD", "/health") + request_bytes("GET", "/health"))
    assert connection.receive(has_body=False).status == 405
    assert connection.receive().status == 200


def test_a_query_on_another_route_names_the_parameter(connection: RawConnection) -> None:
    """Unknown parameters are refused, on public routes as well."""
    connection.send(request_bytes("GET", "/health?verbose=1"))
    response = connection.receive()
    assert_refused(response, 400, "invalid_request")
    assert "verbose" in response.json["error"]["message"]


def test_escaped_paths_are_the_same_paths(connection: RawConnection) -> None:
    """/%68ealth is /health."""
    connection.send(request_bytes("GET", "/%68ealth"))
    assert connection.receive().status == 200


@pytest.mark.parametrize(
    "data",
    [
        b"hello\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /health HTTP/1.1\r\nHost g\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: g\r\nBad Name: x\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: g\r\nX: a\x00b\r\n\r\n",
        b"GET /health HTTP/1.1\r\n\r\n",
        b"GET /hea lth HTTP/1.1\r\nHost: g\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: g\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"CONNECT example.org:443 HTTP/1.1\r\nHost: g\r\n\r\n",
        b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\nHost: g\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: g\r\nX: " + b"a" * 40_000 + b"\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: g\r\n" + b"X: a\r\n" * 101 + b"\r\n",
    ],
)
def test_what_is_not_http_is_400_and_closed(door: Door, connection: RawConnection, data: bytes) -> None:
    """Malformed, ambiguous or oversized headers."""
    connection.send(data)
    response = connection.receive()
    assert_refused(response, 400, "invalid_request")
    assert response.headers["connection"] == "close"
    assert connection.is_closed_by_server()
    assert_serves(door)


@pytest.mark.parametrize("data", [b"GET /health\r\n\r\n", b"GET /health HTTP/9.9\r\nHost: g\r\n\r\n"])
def test_another_version_of_http_is_no_second_way_in(door: Door, connection: RawConnection, data: bytes) -> None:
    """The gateway refuses it; Envoy takes it for HTTP/1.0. One request a connection, either way."""
    connection.send(data + b"GET /health HTTP/1.1\r\nHost: g\r\n\r\n")
    response = connection.receive()
    assert response.status == (400 if door.tls is None else 200)
    assert response.headers["connection"] == "close"
    assert connection.is_closed_by_server()


def test_two_hosts_are_400(connection: RawConnection, backend: ScriptedBackend) -> None:
    """Which of them was meant nobody can say."""
    connection.send(b"GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
    assert_refused(connection.receive(), 400, "invalid_request")
    assert backend.requests == []


def test_an_endless_header_is_cut_off(connection: RawConnection) -> None:
    """The limit holds before the header is whole, also inside one field."""
    connection.send(b"GET /health HTTP/1.1\r\nHost: g\r\nX: ")
    for _ in range(10):
        connection.send(b"a" * 40_000)
    assert_refused(connection.receive(), 400, "invalid_request")


def test_a_slow_header_is_cut_off(impatient_door: Door) -> None:
    """A header that does not end in time is refused with the envelope."""
    with RawConnection(impatient_door) as slow:
        slow.send(b"GET /health HTTP/1.1\r\nHost: g\r\n")
        assert_refused(slow.receive(), 400, "invalid_request")
        assert slow.is_closed_by_server()


def test_an_idle_connection_is_closed_without_a_word(impatient_door: Door) -> None:
    """Before the first request, after blank lines, and after an answered request."""
    for data in (b"", b"\r\n\r\n"):
        with RawConnection(impatient_door) as connection:
            connection.send(data)
            assert connection.is_closed_by_server()
    with RawConnection(impatient_door) as connection:
        connection.send(request_bytes("GET", "/health"))
        connection.receive()
        assert connection.is_closed_by_server()


def test_an_http_1_0_client_is_served_and_closed(connection: RawConnection) -> None:
    """Without Host and without keep-alive."""
    connection.send(b"GET /health HTTP/1.0\r\n\r\n")
    response = connection.receive()
    assert (response.status, response.headers["connection"]) == (200, "close")
    assert connection.is_closed_by_server()


def test_an_upgrade_is_ignored(connection: RawConnection) -> None:
    """Clients that offer h2c get their answer in HTTP/1.1, bodies included."""
    offer = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__")
    connection.send(request_bytes("GET", "/health", headers=offer))
    assert connection.receive().status == 200
    connection.send(request_bytes("POST", QUERY, BODY, headers=offer))
    assert connection.receive().status == 200


def test_the_description_is_public_json(connection: RawConnection) -> None:
    """No credential is needed; it is not stored either."""
    connection.send(request_bytes("GET", "/openapi.json"))
    response = connection.receive()
    assert (response.status, response.json["openapi"]) == (200, "3.1.0")
    assert response.headers["cache-control"] == "no-store"

"""HTTP at the gateway's door, byte by byte: framing, limits, time-outs, refusals. Real sockets, a scripted backend."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator

import pytest

from services.gateway.settings import HttpLimits
from tests.harness.edge import running_edge, suit_tests
from tests.harness.raw_http import Door, RawConnection, RawResponse, chunked_bytes, request_bytes
from tests.harness.running_gateway import ScriptedBackend, running_gateway

LIMITS = HttpLimits(linger_s=15.0, drain_s=2.0)
IMPATIENT = HttpLimits(header_timeout_s=0.4, body_timeout_s=0.4, idle_timeout_s=0.6, drain_s=2.0)

QUERY = "/api/v1/memory/query"
SEARCH = "/api/v1/memory/search"
DOCUMENTS = {
    QUERY: {
        "contract_version": 1,
        "scope": {"project_id": "p", "agent_id": "a", "visibility": "shared"},
        "filter": {"limit": 1},
    },
    SEARCH: {
        "contract_version": 1,
        "scope": {"project_id": "p", "agent_id": "a", "visibility": "shared"},
        "query": {
            "space": {"provider": "p", "model": "m", "revision": "1", "dimensions": 2},
            "vector": [0.5, 1],
            "limit": 1,
        },
    },
}
BYTES_MAX = {QUERY: 65_536, SEARCH: 2_097_152}
BODY = json.dumps(DOCUMENTS[QUERY]).encode()


def padded(path: str, size: int) -> bytes:
    """A valid body of exactly this size, padded with blanks."""
    return json.dumps(DOCUMENTS[path]).encode().ljust(size)


@pytest.fixture(scope="module")
def module_backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedBackend]:
    backend = ScriptedBackend(tmp_path_factory.mktemp("backend"))
    yield backend
    backend.stop()


@pytest.fixture(scope="module", params=["gateway", "envoy"])
def door(
    request: pytest.FixtureRequest, module_backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Door]:
    """The gateway alone, and the deployed edge before it."""
    with running_gateway(module_backend.address, LIMITS) as bound:
        if request.param == "gateway":
            yield Door(bound)
            return
        with running_edge(tmp_path_factory.mktemp("edge"), suit_tests, gateway=f"127.0.0.1:{bound}") as edge:
            yield edge.door


@pytest.fixture
def gateway_door(module_backend: ScriptedBackend) -> Iterator[Door]:
    """The gateway alone, for what Envoy does otherwise."""
    with running_gateway(module_backend.address, LIMITS) as bound:
        yield Door(bound)


@pytest.fixture
def impatient_door(module_backend: ScriptedBackend) -> Iterator[Door]:
    """A gateway whose time-outs end soon, for the tests that wait for them."""
    with running_gateway(module_backend.address, IMPATIENT) as bound:
        yield Door(bound)


@pytest.fixture
def backend(module_backend: ScriptedBackend) -> ScriptedBackend:
    """The backend with nothing received yet."""
    module_backend.requests.clear()
    return module_backend


@pytest.fixture
def connection(door: Door) -> Iterator[RawConnection]:
    with RawConnection(door) as opened:
        yield opened


def assert_refused(response: RawResponse, status: int, code: str) -> None:
    """The documented envelope with no-store."""
    assert (response.status, response.code) == (status, code)
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["content-type"] == "application/json"


def assert_serves(door: Door) -> None:
    """After each case an ordinary request succeeds."""
    with RawConnection(door) as fresh:
        fresh.send(request_bytes("POST", QUERY, BODY))
        assert fresh.receive().status == 200


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


@pytest.mark.parametrize("path", [QUERY, SEARCH])
@pytest.mark.parametrize("chunk_bytes", [None, 1, 65_536])
def test_a_body_exactly_at_the_limit_is_accepted(
    connection: RawConnection, backend: ScriptedBackend, path: str, chunk_bytes: int | None
) -> None:
    """The whole body counts, blanks included, in every framing."""
    if path == SEARCH and chunk_bytes == 1:
        chunk_bytes = 1000  # two million chunks of a byte say nothing new
    body = padded(path, BYTES_MAX[path])
    if chunk_bytes is None:
        connection.send(request_bytes("POST", path, body))
    else:
        head = request_bytes("POST", path, headers=("Transfer-Encoding: chunked", "Content-Type: application/json"))
        connection.send(head + chunked_bytes(body, chunk_bytes))
    assert connection.receive().status == 200
    assert len(backend.requests) == 1


@pytest.mark.parametrize("path", [QUERY, SEARCH])
@pytest.mark.parametrize("chunk_bytes", [None, 1, 65_536])
def test_one_byte_more_is_413_and_never_a_reset(
    door: Door, connection: RawConnection, backend: ScriptedBackend, path: str, chunk_bytes: int | None
) -> None:
    """The client that sends everything before it reads still gets the envelope."""
    if path == SEARCH and chunk_bytes == 1:
        chunk_bytes = 1000
    body = padded(path, BYTES_MAX[path] + 1)
    if chunk_bytes is None:
        connection.send(request_bytes("POST", path, body))
    else:
        head = request_bytes("POST", path, headers=("Transfer-Encoding: chunked", "Content-Type: application/json"))
        connection.send(head + chunked_bytes(body, chunk_bytes))
    response = connection.receive()
    assert_refused(response, 413, "invalid_request")
    assert response.headers["connection"] == "close"
    assert connection.is_closed_by_server()
    assert backend.requests == []
    assert_serves(door)


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_body_far_over_the_limit_is_413_and_never_a_broken_pipe(gateway_door: Door, is_chunked: bool) -> None:
    """An ordinary client sends all of its 30 MB before it reads, and sees the answer then; Envoy has less patience."""
    body = bytes(30_000_000)
    with RawConnection(gateway_door) as ordinary:
        if is_chunked:
            head = request_bytes(
                "POST", SEARCH, headers=("Transfer-Encoding: chunked", "Content-Type: application/json")
            )
            ordinary.send(head + chunked_bytes(body, 1_000_000))
        else:
            ordinary.send(request_bytes("POST", SEARCH, body))
        assert_refused(ordinary.receive(), 413, "invalid_request")
        assert ordinary.is_closed_by_server()
    assert_serves(gateway_door)


def test_an_endless_body_is_not_read_for_ever(door: Door) -> None:
    """What is thrown away is bounded: a client that never stops sending is cut off."""
    with RawConnection(door) as endless:
        endless.send(request_bytes("POST", QUERY, headers=("Content-Length: 99999999999",)))
        with pytest.raises(OSError):
            endless.send(bytes(200_000_000))
    assert_serves(door)


def test_a_declared_length_over_the_limit_is_refused_before_the_body(connection: RawConnection) -> None:
    """Nothing of the body has to arrive."""
    connection.send(
        b"POST %s HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n"
        % QUERY.encode()
    )
    assert_refused(connection.receive(), 413, "invalid_request")


def test_chunks_are_refused_before_the_rest_is_sent(connection: RawConnection) -> None:
    """An endless body is answered as soon as it passes the limit."""
    head = request_bytes("POST", QUERY, headers=("Transfer-Encoding: chunked", "Content-Type: application/json"))
    connection.send(head + b"%x\r\n" % (1 << 30) + b" " * (65_536 + 1))
    assert_refused(connection.receive(), 413, "invalid_request")


def test_expect_continue_is_answered_only_when_the_body_is_wanted(door: Door, backend: ScriptedBackend) -> None:
    """Within the limit: 100, then the answer. Over it, or without a route: the refusal alone."""
    expect = "Expect: 100-continue"
    with RawConnection(door) as wanted:
        head, body = request_bytes("POST", QUERY, BODY, headers=(expect,)).split(b"\r\n\r\n", 1)
        wanted.send(head + b"\r\n\r\n")
        assert wanted.receive().status == 100
        wanted.send(body)
        assert wanted.receive().status == 200
    for path, length, status in ((QUERY, 65_537, 413), ("/nope", 10, 404), ("/health", 10, 405)):
        with RawConnection(door) as unwanted:
            unwanted.send(
                f"POST {path} HTTP/1.1\r\nHost: g\r\n{expect}\r\nContent-Type: application/json\r\n"
                f"Content-Length: {length}\r\n\r\n".encode()
            )
            assert unwanted.receive().status == status
    assert len(backend.requests) == 1


@pytest.mark.parametrize(
    "framing",
    [
        b"Content-Length: 5\r\nContent-Length: 5\r\n\r\n{   }",
        b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n{   }",
        b"Content-Length: 5, 5\r\n\r\n{   }",
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"Transfer-Encoding: gzip\r\n\r\n{}",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}xx0\r\n\r\n",
        b"Content-Length: -1\r\n\r\n",
        b"Content-Length: +5\r\n\r\n{   }",
        b"Content-Length: 0x5\r\n\r\n{   }",
        b"Content-Length: 99999999999999999999999\r\n\r\n",
        b"Content-Length : 5\r\n\r\n{   }",
    ],
)
def test_ambiguous_or_broken_framing_is_400_and_closed(
    door: Door, connection: RawConnection, backend: ScriptedBackend, framing: bytes
) -> None:
    """Two readers of the request could see two bodies: refused, and the connection is not trusted any further."""
    connection.send(b"POST %s HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\n" % QUERY.encode() + framing)
    response = connection.receive()
    assert_refused(response, 400, "invalid_request")
    assert response.headers["connection"] == "close"
    assert connection.is_closed_by_server()
    assert backend.requests == []
    assert_serves(door)


def test_a_body_longer_than_declared_never_becomes_a_second_answer_first(
    door: Door, connection: RawConnection, backend: ScriptedBackend
) -> None:
    """What follows a whole request and is no request ends the connection after the request's own answer."""
    connection.send(request_bytes("POST", QUERY, BODY) + b"garbage that is no request\r\n\r\n")
    response = connection.receive()
    assert response.status == 200
    if door.tls is not None:  # Envoy answers the garbage as well
        response = connection.receive()
        assert_refused(response, 400, "invalid_request")
    assert response.headers["connection"] == "close"
    assert connection.is_closed_by_server()
    assert len(backend.requests) == 1


def test_a_body_shorter_than_declared_is_never_used(door: Door, impatient_door: Door, backend: ScriptedBackend) -> None:
    """A client that stops is told so in the end; one that leaves is forgotten. The service sees neither."""
    head = request_bytes("POST", QUERY, headers=("Content-Type: application/json", f"Content-Length: {len(BODY) + 1}"))
    with RawConnection(impatient_door) as stalled:
        stalled.send(head + BODY)
        assert_refused(stalled.receive(), 400, "invalid_request")
        assert stalled.is_closed_by_server()
    with RawConnection(door) as leaving:
        leaving.send(head + BODY)
    assert_serves(door)
    assert len(backend.requests) == 1


@pytest.mark.parametrize("encoding", ["gzip", "br", "identity, gzip", "chunked"])
def test_an_encoded_body_is_refused(connection: RawConnection, backend: ScriptedBackend, encoding: str) -> None:
    """Compressed bodies are never expanded, so none can grow past the limit."""
    connection.send(request_bytes("POST", QUERY, gzip.compress(BODY), headers=(f"Content-Encoding: {encoding}",)))
    assert_refused(connection.receive(), 400, "invalid_request")
    assert backend.requests == []


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "application/json; charset=utf-8", 'Application/JSON;charset="UTF-8"', " application/json "],
)
def test_json_content_types_are_accepted(connection: RawConnection, content_type: str) -> None:
    """With or without the charset, in any case."""
    connection.send(request_bytes("POST", QUERY, BODY, content_type=content_type))
    assert connection.receive().status == 200


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "",
        "text/plain",
        "application/jsonp",
        "application/json; charset=latin-1",
        "application/json, text/plain",
        "application/x-www-form-urlencoded",
        "application/json\r\nContent-Type: application/json",
    ],
)
def test_another_content_type_is_refused(
    connection: RawConnection, backend: ScriptedBackend, content_type: str | None
) -> None:
    """Missing, wrong or repeated."""
    connection.send(request_bytes("POST", QUERY, BODY, content_type=content_type))
    assert_refused(connection.receive(), 400, "invalid_request")
    assert backend.requests == []


@pytest.mark.parametrize("body", [None, b"", b" ", b"\xef\xbb\xbf{}", b"\xff", b"[" * 60_000, b"{}{}"])
def test_a_body_that_is_no_json_document_is_refused(connection: RawConnection, body: bytes | None) -> None:
    """Also an empty one, with or without a length."""
    connection.send(request_bytes("POST", QUERY, body))
    assert_refused(connection.receive(), 400, "invalid_request")


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


def test_a_get_with_a_body_is_refused(connection: RawConnection, backend: ScriptedBackend) -> None:
    """An announced empty body is none."""
    connection.send(request_bytes("GET", "/health", b"", content_type=None))
    assert connection.receive().status == 200
    connection.send(request_bytes("GET", "/health", b"{}"))
    assert_refused(connection.receive(), 400, "invalid_request")
    assert backend.method_names == ["GetHealth"]


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


def test_a_trailer_is_no_header(connection: RawConnection, backend: ScriptedBackend) -> None:
    """A credential that comes after the body is not one."""
    head = request_bytes("POST", QUERY, headers=("Transfer-Encoding: chunked", "Content-Type: application/json"))
    body = chunked_bytes(BODY, 65_536).removesuffix(b"\r\n") + b"Authorization: Bearer smuggled\r\n\r\n"
    connection.send(head + body)
    assert connection.receive().status == 200
    assert "authorization" not in backend.metadata


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

"""Bodies at the gateway's door, byte by byte: limits, framing, content types. With and without Envoy before it."""

from __future__ import annotations

import gzip

import pytest

from tests.harness.gateway_requests import (
    BODY,
    BYTES_MAX,
    QUERY,
    SEARCH,
    assert_refused,
    assert_serves,
    padded,
)
from tests.harness.raw_http import Door, RawConnection, chunked_bytes, request_bytes
from tests.harness.running_gateway import ScriptedBackend


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


def test_a_get_with_a_body_is_refused(connection: RawConnection, backend: ScriptedBackend) -> None:
    """An announced empty body is none."""
    connection.send(request_bytes("GET", "/health", b"", content_type=None))
    assert connection.receive().status == 200
    connection.send(request_bytes("GET", "/health", b"{}"))
    assert_refused(connection.receive(), 400, "invalid_request")
    assert backend.method_names == ["GetHealth"]


def test_a_trailer_is_no_header(connection: RawConnection, backend: ScriptedBackend) -> None:
    """A credential that comes after the body is not one."""
    head = request_bytes("POST", QUERY, headers=("Transfer-Encoding: chunked", "Content-Type: application/json"))
    body = chunked_bytes(BODY, 65_536).removesuffix(b"\r\n") + b"Authorization: Bearer smuggled\r\n\r\n"
    connection.send(head + body)
    assert connection.receive().status == 200
    assert "authorization" not in backend.metadata

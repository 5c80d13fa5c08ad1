"""C10: bodies at their limits and requests that lie about their length, through the whole suite."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.harness import builders
from tests.harness.api import Api
from tests.harness.raw_http import RawConnection, RawResponse, chunked_bytes, request_bytes
from tests.harness.suite import Suite
from tests.harness.untouched import dump, untouched

pytestmark = [pytest.mark.usefixtures("left_sound"), pytest.mark.both_entrances(edge_in_depth=True)]

JSON_TYPE = "Content-Type: application/json"
ORDINARY, VECTOR = 65_536, 2_097_152


def create(api: Api) -> dict[str, Any]:
    return builders.create_body(api.scope, "a body of a certain size")


def attach(api: Api) -> dict[str, Any]:
    return builders.attach_body(api.scope, api.create("bound")["record_id"], [1.0, 2.0, 3.0])


def search(api: Api) -> dict[str, Any]:
    query = {"space": builders.SPACE, "vector": [1.0, 2.0, 3.0], "limit": 1}
    return {"contract_version": 1, "scope": api.scope, "query": query}


def hybrid(api: Api) -> dict[str, Any]:
    query = {**search(api)["query"], "text": "hive", "ranking_version": "weighted_rrf_v1"}
    return {"contract_version": 1, "scope": api.scope, "mode": "hybrid", "query": query}


def graph(api: Api) -> dict[str, Any]:
    query = {"ranking_version": "typed_path_balanced_v1", "seed": {"mode": "lexical", "text": "hive"}, "limit": 1}
    return {"contract_version": 1, "scope": api.scope, "query": query}


def lexical(api: Api) -> dict[str, Any]:
    return {"contract_version": 1, "scope": api.scope, "mode": "lexical", "query": {"text": "hive", "limit": 1}}


def jobs(api: Api) -> dict[str, Any]:
    return {"contract_version": 1, "scope": api.scope, "query": {"limit": 1, "scan_limit": 1}}


ROUTES: dict[str, tuple[Callable[[Api], dict[str, Any]], int]] = {
    "memory/commands": (create, ORDINARY),
    "memory/search/lexical": (lexical, ORDINARY),
    "memory/consolidation/query": (jobs, ORDINARY),
    "memory/embeddings": (attach, VECTOR),
    "memory/search": (search, VECTOR),
    "memory/search/hybrid": (hybrid, VECTOR),
    "memory/search/graph": (graph, VECTOR),
}
# None is Content-Length; two million chunks of one byte are for the deep run.
FRAMED = [(path, chunk_bytes) for path in ROUTES for chunk_bytes in (None, 65_536)]
FRAMED += [(path, 1 if limit == ORDINARY else 257) for path, (_, limit) in ROUTES.items()]


def authorized(suite: Suite) -> str:
    return f"Authorization: Bearer {suite.writer_key}"


def padded(api: Api, path: str, size: int) -> bytes:
    """A good body of exactly this size."""
    text = json.dumps(ROUTES[path][0](api)).encode()
    return text[:-1] + b" " * (size - len(text)) + b"}"


def framed(suite: Suite, path: str, body: bytes, chunk_bytes: int | None) -> bytes:
    url, headers = f"/api/v1/{path}", (authorized(suite),)
    if chunk_bytes is None:
        return request_bytes("POST", url, body, headers=headers)
    head = request_bytes("POST", url, headers=(*headers, "Transfer-Encoding: chunked", JSON_TYPE))
    return head + chunked_bytes(body, chunk_bytes)


def fetch(suite: Suite, data: bytes) -> RawResponse:
    with RawConnection(suite.door) as connection:
        connection.send(data)
        return connection.receive()


def assert_refused(response: RawResponse, status: int, code: str = "invalid_request") -> None:
    assert (status, code) == (response.status, response.code)
    assert ("no-store", "application/json") == (response.headers["cache-control"], response.headers["content-type"])


@pytest.mark.parametrize(
    ("path", "chunk_bytes"), [*FRAMED, pytest.param("memory/embeddings", 1, marks=pytest.mark.deep)]
)
def test_the_limit_is_the_same_in_every_framing(suite: Suite, api: Api, path: str, chunk_bytes: int | None) -> None:
    """Exactly as many bytes are served, one more is 413 and has no effect, although the client sends all of it."""
    limit = ROUTES[path][1]
    fits, exceeds = padded(api, path, limit), padded(api, path, limit + 1)
    assert limit == len(fits)
    with untouched(suite, api.scope):
        refused = fetch(suite, framed(suite, path, exceeds, chunk_bytes))
        assert_refused(refused, 413)
        assert "close" == refused.headers["connection"]
    assert 200 == fetch(suite, framed(suite, path, fits, chunk_bytes)).status


@pytest.mark.parametrize(
    "framing",
    [
        b"Content-Length: %(less)d\r\n\r\n%(body)s",
        b"Content-Length: %(size)d\r\nContent-Length: %(size)d\r\n\r\n%(body)s",
        b"Content-Length: %(size)d\r\nContent-Length: %(less)d\r\n\r\n%(body)s",
        b"Content-Length: %(size)d, %(size)d\r\n\r\n%(body)s",
        b"Content-Length: %(size)d\r\nTransfer-Encoding: chunked\r\n\r\n%(hex)s\r\n%(body)s\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: %(size)d\r\n\r\n%(hex)s\r\n%(body)s\r\n0\r\n\r\n",
        b"Transfer-Encoding: identity, chunked\r\n\r\n%(hex)s\r\n%(body)s\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n-%(hex)s\r\n%(body)s\r\n0\r\n\r\n",
        b"Content-Encoding: gzip\r\nContent-Length: %(size)d\r\n\r\n%(body)s",
    ],
)
def test_a_write_with_a_doubtful_length_is_not_carried_out(suite: Suite, api: Api, framing: bytes) -> None:
    """Two readers could see two bodies: 400, the connection closed, and nothing written."""
    body = json.dumps(create(api)).encode()
    values = {b"size": len(body), b"less": len(body) - 1, b"body": body, b"hex": b"%x" % len(body)}
    head = f"POST /api/v1/memory/commands HTTP/1.1\r\nHost: g\r\n{authorized(suite)}\r\n{JSON_TYPE}\r\n".encode()
    with untouched(suite, api.scope), RawConnection(suite.door) as connection:
        connection.send(head + framing % values)
        response = connection.receive()
        assert (400, "invalid_request") == (response.status, response.code)
        assert "no-store" == response.headers["cache-control"]
        # The length itself is clear in the first and in the last.
        if b"gzip" not in framing and (b"less" not in framing or framing.count(b"Content-Length") > 1):
            assert connection.is_closed_by_server()


def test_a_compressed_body_is_never_expanded(suite: Suite, api: Api) -> None:
    """A small gzip of a large body is refused for its encoding, not read."""
    packed = gzip.compress(padded(api, "memory/commands", ORDINARY * 64))
    assert len(packed) < ORDINARY
    data = request_bytes(
        "POST", "/api/v1/memory/commands", packed, headers=(authorized(suite), "Content-Encoding: gzip")
    )
    with untouched(suite, api.scope):
        assert_refused(fetch(suite, data), 400)


def test_a_client_that_waits_for_leave_is_refused_before_it_sends(suite: Suite, api: Api) -> None:
    """With Expect: 100-continue the 413 comes instead of the 100; within the limit the 100 comes and the write is."""
    for length, status in ((ORDINARY + 1, 413), (None, 100)):
        body = json.dumps(create(api)).encode()
        head = request_bytes(
            "POST",
            "/api/v1/memory/commands",
            headers=(
                authorized(suite), "Expect: 100-continue", JSON_TYPE, f"Content-Length: {length or len(body)}"
            ),
        )  # fmt: skip
        before = dump(suite, api.scope)
        with RawConnection(suite.door) as connection:
            connection.send(head)
            assert status == connection.receive(has_body=status != 100).status
            if status == 100:
                connection.send(body)
                assert 200 == connection.receive().status
        assert (status == 413) == (before == dump(suite, api.scope))


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize("size", [10, ORDINARY + 1])
def test_a_wrong_method_is_told_whatever_it_carries(suite: Suite, api: Api, method: str, size: int) -> None:
    """405 with the envelope, small body or large."""
    body = padded(api, "memory/commands", size) if size > 100 else b"{}"
    data = request_bytes(method, "/api/v1/memory/commands", body, headers=(authorized(suite),))
    with untouched(suite, api.scope):
        response = fetch(suite, data)
    assert (405, "method_not_allowed") == (response.status, response.code)
    assert "no-store" == response.headers["cache-control"]

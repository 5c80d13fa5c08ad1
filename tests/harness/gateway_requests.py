"""Requests at the gateway's door, and how its refusals look."""

from __future__ import annotations

import json

from tests.harness.raw_http import Door, RawConnection, RawResponse, request_bytes

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

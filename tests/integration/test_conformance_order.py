"""Which refusal comes first, and what is no route at all: through the gateway and, where it can be asked, over gRPC."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.harness import builders
from tests.harness.api import Api
from tests.harness.both_ways import BothWays
from tests.harness.documented_jobs import EVERY, EVERY_SCOPED
from tests.harness.documented_requests import ABSENT, Documented, Known, by_name, make_known
from tests.harness.raw_http import RawConnection, request_bytes
from tests.harness.suite import Suite

pytestmark = pytest.mark.both_entrances

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
POSTS = [route for route in EVERY if route.body is not None]
PATHS = sorted({(route.method, route.path) for route in EVERY})
IDENTITY_PATHS = [
    ("GET", "/health"),
    ("GET", "/openapi.json"),
    ("GET", "/api/v1/identity"),
    ("GET", f"/api/v1/credentials/{ABSENT}"),
    ("POST", f"/api/v1/credentials/{ABSENT}/rotate"),
    ("POST", f"/api/v1/credentials/{ABSENT}/revoke"),
    ("POST", f"/api/v1/credentials/{ABSENT}/scope-authority"),
]


@pytest.fixture(scope="module")
def settled(suite: Suite) -> Iterator[Known]:
    """A memory that the tests of this module share."""
    with suite.client() as client:
        yield make_known(Api(client, builders.scope_json(builders.new_key("order"))))


@pytest.fixture(scope="module")
def nobody(suite: Suite) -> Iterator[httpx.Client]:
    """A client without a key."""
    with suite.client("") as client:
        yield client


@pytest.fixture(scope="module")
def reader(suite: Suite) -> str:
    """A key that may do nothing with memory but keep checkpoints."""
    return suite.issue("checkpointer", ["memory_checkpoint"])


def refusal(response: httpx.Response) -> tuple[int, str]:
    """Status and code of a refusal, which has the documented envelope and header."""
    document = response.json()
    assert "no-store" == response.headers["cache-control"]
    assert {"contract_version", "error"} == set(document)
    assert {"code", "message"} == set(document["error"])
    assert 1 == document["contract_version"]
    return response.status_code, document["error"]["code"]


@pytest.mark.parametrize("route", POSTS, ids=by_name)
def test_shape_and_bounds_come_before_the_key(both: BothWays, settled: Known, route: Documented) -> None:
    """Without a key, a bad version or scope is still 400; a good request is 401."""
    body = route.body_for(settled)
    assert body is not None
    assert (401, "unauthorized") == both.send("POST", route.path, body, key="").verdict
    scopeless = {**body, "scope": {**settled.scope, "agent_id": ""}}
    assert (400, "invalid_request") == both.send("POST", route.path, scopeless, key="").verdict
    assert (400, "invalid_request") == both.send("POST", route.path, {**body, "surprise": 1}, key="").verdict


@pytest.mark.parametrize("route", EVERY_SCOPED, ids=by_name)
def test_authority_comes_before_what_is_asked_for(
    both: BothWays, settled: Known, reader: str, route: Documented
) -> None:
    """One who may not look is told 403 of things that exist and of things that do not, and cannot tell them apart."""
    nowhere = settled.scope | {"project_id": "never written"}
    path, body, query = route.path_for(settled), route.body_for(settled), route.query_for(settled)
    existing = both.send(route.method, path, body, query=query, key=reader)
    missing = both.send(
        route.method, path, route.body_for(settled, nowhere), query=route.query_for(settled, nowhere), key=reader
    )
    assert (403, "forbidden") == existing.verdict
    assert existing.text == missing.text


@pytest.mark.parametrize("route", POSTS, ids=by_name)
def test_a_repeated_authorization_comes_before_the_body(
    suite: Suite, nobody: httpx.Client, settled: Known, route: Documented
) -> None:
    """Two Authorization headers are 401, though either key is good and whatever the body is; nothing is written."""
    twice = [("authorization", f"Bearer {suite.writer_key}")] * 2 + [("content-type", "application/json")]
    for content in (json.dumps(route.body_for(settled)), "{", ""):
        response = nobody.post(f"/api/v1/{route.path}", content=content, headers=twice)
        assert (401, "unauthorized") == refusal(response)


@pytest.mark.parametrize(("method", "path"), [*((m, f"/api/v1/{p}") for m, p in PATHS), *IDENTITY_PATHS])
def test_other_methods_are_refused(nobody: httpx.Client, method: str, path: str) -> None:
    """A known path under any other method is 405 with the allowed ones named, key or no key, body or no body."""
    path = path.format(record_id=ABSENT)
    for other in METHODS:
        if other == method:
            continue
        response = nobody.request(other, path, content=b"{}" if other in ("PUT", "PATCH") else b"")
        assert 405 == response.status_code, other
        assert method in response.headers["allow"].split(", ")
        if other != "HEAD":
            assert (405, "method_not_allowed") == refusal(response)


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1",
        "/api/v1/memory",
        "/api/v1/memory/search/",
        "/api/v1/memory//search",
        "/api/v1/Memory/search",
        "/api/v2/memory/search",
        "/api/v1/memory/search/semantic",
        "/api/v1/memory/search%2Flexical",
        "/api/v1/memory/records",
        f"/api/v1/memory/records/{ABSENT}/",
        f"/api/v1/memory/records/{ABSENT}/history",
        f"/api/v1/credentials/{ABSENT}/delete",
        "/api/v1/memory/../memory/search",
        "/health/",
        "/openapi",
    ],
)
def test_unknown_paths_are_no_route(suite: Suite, path: str) -> None:
    """Whatever is not written down is 404 `not_found` for every method, key or no key."""
    for method in ("GET", "POST", "DELETE"):
        with RawConnection(suite.door) as connection:
            body = b"{}" if method == "POST" else None
            connection.send(request_bytes(method, path, body))
            response = connection.receive()
        assert (404, "not_found") == (response.status, response.code)
        assert "no-store" == response.headers["cache-control"]


@pytest.mark.parametrize("route", POSTS, ids=by_name)
def test_the_body_limit_of_each_route(nobody: httpx.Client, settled: Known, route: Documented) -> None:
    """A good body padded to the limit is served; one byte more is 413, even from somebody without a key."""
    whole = json.dumps(route.body_for(settled)).encode()
    headers = {"content-type": "application/json"}
    fits = settled.api.client.post(f"/api/v1/{route.path}", content=whole.ljust(route.body_bytes_max), headers=headers)
    assert 200 == fits.status_code, fits.text
    over = nobody.post(f"/api/v1/{route.path}", content=whole.ljust(route.body_bytes_max + 1), headers=headers)
    assert (413, "invalid_request") == refusal(over)


GET_RULES: dict[str, tuple[Any, ...]] = {
    "contract_version": ("0", "2", "1.0", "01", "+1", "one", "", "18446744073709551616"),
    "project_id": ("", " ", "x" * 257, "a\nb"),
    "mission_id": ("", " ", "x" * 257),
    "agent_id": ("", "x" * 257, "\u0085"),
    "visibility": ("", "Shared", "SHARED", "2"),
}


@pytest.mark.parametrize("name", GET_RULES)
def test_parameters_of_the_single_read(both: BothWays, settled: Known, name: str) -> None:
    """Each parameter has the bounds of its member; missing and unknown ones are refused, the mission may be missing."""
    path = f"memory/records/{settled.first['record_id']}"
    good = {"contract_version": 1, **settled.scope}
    assert (200, "") == both.send("GET", path, query=good).verdict
    for value in GET_RULES[name]:
        outcome = both.send("GET", path, query=good | {name: value})
        assert 400 == outcome.status, value
        assert name in outcome.document["error"]["message"], value
    if name != "mission_id":
        assert 400 == both.send("GET", path, query=good | {name: None}).status
    assert 400 == both.send("GET", path, query=good | {name + "x": "1"}).status


@pytest.mark.parametrize("record_id", ["dead", "%20", ABSENT + "0", "{" + ABSENT + "}"])
def test_a_path_that_holds_no_uuid(both: BothWays, settled: Known, record_id: str) -> None:
    """A malformed identifier is 400 and names itself; capitals are the same identifier."""
    query = {"contract_version": 1, **settled.scope}
    outcome = both.send("GET", f"memory/records/{record_id}", query=query)
    assert (400, "invalid_request") == outcome.verdict
    assert "record_id" in outcome.document["error"]["message"]
    capitals = settled.first["record_id"].upper()
    assert (
        settled.first["record_id"]
        == both.send("GET", f"memory/records/{capitals}", query=query).document["record"]["record_id"]
    )


@pytest.mark.parametrize("path", ["memory/ranking-profiles", "memory/graph-ranking-profiles", "identity"])
def test_routes_without_parameters_take_none(both: BothWays, path: str) -> None:
    """No version, scope or body belongs to these routes."""
    assert (200, "") == both.send("GET", path).verdict
    with both.suite.client() as client:
        assert (400, "invalid_request") == refusal(client.get(f"/api/v1/{path}", params={"contract_version": 1}))
        assert (400, "invalid_request") == refusal(client.request("GET", f"/api/v1/{path}", content=b"{}"))


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/json; charset=latin-1", "application/xml"])
def test_a_body_is_json_or_nothing(suite: Suite, settled: Known, content_type: str) -> None:
    """Another content type is 400, and the record is not made."""
    body = builders.create_body(settled.scope, "never made")
    with suite.client() as client:
        headers = {"content-type": content_type} if content_type else {}
        response = client.post("/api/v1/memory/commands", content=json.dumps(body), headers=headers)
        assert (400, "invalid_request") == refusal(response)
        found = client.post(
            "/api/v1/memory/query",
            json={"contract_version": 1, "scope": settled.scope, "filter": {"limit": 9, "text_contains": "never made"}},
        )
    assert [] == found.json()["page"]["records"]


def test_health_needs_nothing(both: BothWays) -> None:
    """Health is public, and says the version of the product."""
    outcome = both.send("GET", "/health", key="")
    assert (200, "") == outcome.verdict
    assert {"contract_version", "status", "version"} == set(outcome.document)
    assert (1, "healthy") == (outcome.document["contract_version"], outcome.document["status"])

"""Every documented route, asked well: the whole answer, its headers, and the same over gRPC."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.harness.both_ways import BothWays, Outcome
from tests.harness.documented_jobs import EVERY, EVERY_SCOPED, EVERY_WRITE, JOBS
from tests.harness.documented_requests import Documented, Known, by_name
from tests.harness.golden import assert_golden, settled

pytestmark = pytest.mark.both_entrances

# Answers in the order of random identifiers are narrowed to one record.
NARROWED = {"query": {"filter": {"limit": 10, "tag": "t"}}, "ordered": {"query": {"tag": "t"}}}


def ask(both: BothWays, known: Known, route: Documented) -> tuple[Any, Outcome]:
    """Send the route's good request; the request as it is written in the golden files, and what it came to."""
    body = route.body_for(known)
    if body is not None:
        body |= NARROWED.get(route.name, {})
    query = route.query_for(known)
    outcome = both.send(route.method, route.path_for(known), body, query=query)
    return {"route": f"{route.method} /api/v1/{route.path}", "body": body, "query": query}, outcome


@pytest.mark.parametrize("route", EVERY, ids=by_name)
def test_the_whole_answer(both: BothWays, known: Known, route: Documented) -> None:
    """A good request is answered with exactly the documented members and x-qilbee headers, the same over gRPC."""
    request, outcome = ask(both, known, route)
    assert (200, "") == outcome.verdict
    assert route.headers == set(outcome.headers)
    labels = {
        known.scope["project_id"]: "<project>",
        known.first["record_id"]: "<first>",
        known.second["record_id"]: "<second>",
        known.derived["record_id"]: "<derived>",
        known.relation_id: "<relation>",
    }
    whole = {"request": request, "headers": outcome.headers, "answer": outcome.document}
    assert_golden(route.name, settled(whole, labels))


@pytest.mark.parametrize("route", EVERY_SCOPED, ids=by_name)
def test_the_scope_comes_back_as_it_was_meant(both: BothWays, known: Known, route: Documented) -> None:
    """A scope without its mission is the same scope, and where the answer has one, it is written out in full."""
    scope = {name: value for name, value in known.scope.items() if name != "mission_id"}
    outcome = both.send(
        route.method, route.path_for(known), route.body_for(known, scope), query=route.query_for(known, scope)
    )
    assert (200, "") == outcome.verdict
    assert outcome.document.get("scope", known.scope) == known.scope


@pytest.mark.parametrize("route", EVERY_WRITE, ids=by_name)
def test_a_repeated_command_answers_the_first_receipt(both: BothWays, known: Known, route: Documented) -> None:
    """The same command under its key has one effect and one receipt, to the byte, however often it is sent."""
    body = route.body_for(known)
    first = both.send("POST", route.path, body)
    again = both.send("POST", route.path, json.dumps(body, indent=3))
    assert (200, first.text) == (again.status, again.text)


def test_every_object_of_the_description_is_closed(both: BothWays) -> None:
    """openapi.json declares no object with members that would allow others."""
    assert [] == both.shapes.open_objects()


@pytest.mark.parametrize("route", EVERY, ids=by_name)
def test_the_description_declares_headers_and_limits(both: BothWays, route: Documented) -> None:
    """Each route's success declares no-store and exactly its headers; only the vector routes publish a body limit."""
    operation = both.shapes.operation(route.method, f"/api/v1/{route.path}")
    declared = {name.lower() for name in operation["responses"]["200"]["headers"]}
    assert {"cache-control", *route.headers} == declared
    for status, response in operation["responses"].items():
        assert "Cache-Control" in response["headers"], status
    limit = {} if route.body_bytes_max == 65_536 else {"x-qilbee-max-request-body-bytes": route.body_bytes_max}
    assert limit == {name: value for name, value in operation.items() if name.startswith("x-")}
    # No free slot, or no room on the disk for what it writes.
    assert (route.takes_slot or route.is_write) == ("503" in operation["responses"])


# Statuses that the published description lists, where the contract repeats the list; a write adds 503 for a full disk.
STATUSES = {
    "semantic": [200, 400, 401, 403, 404, 409, 413, 500, 503],
    "lexical": [200, 400, 401, 403, 404, 409, 413, 500, 503],
    "hybrid": [200, 400, 401, 403, 404, 409, 413, 500, 503],
    "profiles": [200, 401, 403, 500],
    "graph-search": [200, 400, 401, 403, 413, 500, 503],
    "graph-profiles": [200, 401, 403, 500],
    "attach": [200, 400, 401, 403, 404, 409, 413, 500, 503],
    **{route.name: [200, 400, 401, 403, 404, 409, 413, 500, 503] for route in JOBS},
}


@pytest.mark.parametrize("name", STATUSES)
def test_the_description_declares_the_published_statuses(both: BothWays, name: str) -> None:
    """Where the contract lists a route's statuses, the description lists the same."""
    (route,) = [route for route in EVERY if route.name == name]
    responses = both.shapes.operation(route.method, f"/api/v1/{route.path}")["responses"]
    assert STATUSES[name] == sorted(int(status) for status in responses)

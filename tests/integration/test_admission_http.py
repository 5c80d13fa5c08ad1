"""Admission through a whole suite: with no slot free 503 at once, for exactly the routes that take one."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from tests.harness import builders
from tests.harness.api import Api
from tests.harness.both_ways import BothWays
from tests.harness.documented_requests import DATA, RETRIEVAL, SCOPED, Documented, Known, make_known
from tests.harness.fault_switches import ADMITTED, FaultPoints
from tests.harness.raw_http import RawConnection, request_bytes
from tests.harness.suite import Suite, running_suite

JOBS = [
    Documented(
        name,
        "POST",
        f"memory/consolidation/{name}",
        ("memory_read",),
        lambda _known, members=members: members,
        takes_slot=True,
    )
    for name, members in {
        "query": {"query": {"limit": 1, "scan_limit": 1}},
        "inspect": {"job_id": str(uuid.uuid4())},
        "revision": {"job_id": str(uuid.uuid4()), "revision": 1},
    }.items()
]
EVERY = [*SCOPED, *JOBS]
# Of each service the request that holds its only slot.
HOLDERS = {"memory": "batch", "retrieval": "lexical", "consolidation": "query"}
CONSOLIDATION = {route.name for route in JOBS}
BY_NAME = {**{route.name: route for route in EVERY}, **{route.name: route for route in SCOPED}}


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> FaultPoints:
    return FaultPoints(tmp_path_factory.mktemp("points"))


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory, points: FaultPoints) -> Iterator[Suite]:
    """A suite whose services have one slot each."""
    environment = {**points.environment, "QILBEE_MAX_CONCURRENT_RETRIEVALS": "1"}
    with running_suite(tmp_path_factory.mktemp("narrow"), environment) as suite:
        yield suite


@pytest.fixture(scope="module")
def both(narrow: Suite) -> Iterator[BothWays]:
    with BothWays(narrow) as caller:
        yield caller


@pytest.fixture
def known(narrow: Suite) -> Iterator[Known]:
    with narrow.client() as client:
        yield make_known(Api(client, builders.scope_json(f"project-{uuid.uuid4()}")))


def service_of(route: Documented) -> str:
    if route in JOBS:
        return "consolidation"
    return "retrieval" if route in RETRIEVAL else "memory"


def holder(service: str) -> Documented:
    return next(route for route in EVERY if service_of(route) == service and route.name == HOLDERS[service])


@contextmanager
def held(narrow: Suite, points: FaultPoints, known: Known, service: str) -> Iterator[Future[httpx.Response]]:
    """While the body runs a request stands in the service with its only slot; the future is its answer."""
    route = holder(service)
    with ThreadPoolExecutor(1) as pool, narrow.client() as client:
        points.arm(ADMITTED)
        answer = pool.submit(client.post, f"/api/v1/{route.path_for(known)}", json=route.body_for(known))
        points.await_paused(ADMITTED)
        try:
            yield answer
        finally:
            if points.is_paused(ADMITTED):
                points.release(ADMITTED)
            answer.result()


@pytest.mark.parametrize("service", HOLDERS)
def test_busy_routes_are_refused_and_no_others(
    narrow: Suite, both: BothWays, known: Known, points: FaultPoints, service: str
) -> None:
    """503 `retrieval_busy` both ways, without Retry-After; other services and routes without a slot go on."""
    requests = [
        (route, route.path_for(known), route.body_for(known), route.query_for(known))
        for route in EVERY
        if route.name not in HOLDERS.values() or service_of(route) != service or route.takes_slot
    ]
    with held(narrow, points, known, service) as answer:
        for route, path, body, query in requests:
            outcome = both.send(route.method, path, body, query=query)
            if route.takes_slot and service_of(route) == service:
                assert (503, "retrieval_busy") == outcome.verdict, route.name
            else:
                assert outcome.status in (200, 404), (route.name, outcome.text)
        for route in DATA:
            if not route.has_scope:
                assert 200 == both.send(route.method, route.path).status
        assert not answer.done()
        points.release(ADMITTED)
        assert 200 == answer.result().status_code
    for route, path, body, query in requests:
        assert both.send(route.method, path, body, query=query).status in (200, 404), route.name


@pytest.mark.parametrize("service", HOLDERS)
def test_authority_comes_before_admission(
    narrow: Suite, both: BothWays, known: Known, points: FaultPoints, service: str
) -> None:
    """A full server still says 400, 401 and 403 to those who would get them anyway."""
    mute = narrow.issue("mute", ["memory_checkpoint"])
    route = holder(service)
    path, body = route.path_for(known), route.body_for(known)
    with held(narrow, points, known, service):
        assert (503, "retrieval_busy") == both.send("POST", path, body).verdict
        assert (401, "unauthorized") == both.send("POST", path, body, key="").verdict
        assert (403, "forbidden") == both.send("POST", path, body, key=mute).verdict
        assert (400, "invalid_request") == both.send("POST", path, {**(body or {}), "surprise": 1}).verdict


@pytest.mark.parametrize("service", HOLDERS)
def test_the_slot_outlives_the_client(
    narrow: Suite, both: BothWays, known: Known, points: FaultPoints, service: str
) -> None:
    """A client that leaves takes no slot with it: busy until the work has ended, free afterwards."""
    route = holder(service)
    path, body = route.path_for(known), route.body_for(known)
    data = request_bytes(
        "POST",
        f"/api/v1/{path}",
        json.dumps(body).encode(),
        headers=(f"Authorization: Bearer {narrow.writer_key}",),
    )
    points.arm(ADMITTED)
    with RawConnection(narrow.port) as connection:
        connection.send(data)
        points.await_paused(ADMITTED)
    for _ in range(3):
        assert (503, "retrieval_busy") == both.send("POST", path, body).verdict
    points.release(ADMITTED)
    answers: list[Any] = []
    while not answers or answers[-1] == (503, "retrieval_busy"):
        answers.append(both_or_busy(narrow, path, body))
        assert len(answers) < 10_000
    assert (200, "") == answers[-1]


def both_or_busy(narrow: Suite, path: str, body: Any) -> tuple[int, str]:
    """Through the gateway alone: whether the slot is free yet may change between two requests."""
    with narrow.client() as client:
        response = client.post(f"/api/v1/{path}", json=body)
    return response.status_code, "" if response.status_code == 200 else response.json()["error"]["code"]

"""Fixtures that every test can ask for.

`suite` is one running suite for all tests of a process; `scope` and `api` give each test a project of its own in it, so
that tests do not see each other. `fresh_suite` is a suite of the test's own, for tests that stop or kill processes or
count what a company holds.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.harness import builders, verdict
from tests.harness.api import Api
from tests.harness.both_ways import BothWays
from tests.harness.clock import FakeClock
from tests.harness.documented_requests import Known, make_known
from tests.harness.edge import EDGE_SERVICES, Edge, running_edge, suit_tests
from tests.harness.fault_switches import FaultPoints
from tests.harness.suite import Suite, running_suite
from tests.harness.workload import NO_BUSY_SLOTS


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what is marked with `both_entrances` through the gateway alone and through the edge before it."""
    marker = metafunc.definition.get_closest_marker("both_entrances")
    if marker is not None and "entrance" in metafunc.fixturenames:
        marks = [pytest.mark.deep] if marker.kwargs.get("edge_in_depth") else []
        metafunc.parametrize(
            "entrance", ["gateway", pytest.param("envoy", marks=marks)], indirect=True, scope="session"
        )


@pytest.fixture
def clock() -> FakeClock:
    """A clock that stands still until the test moves it."""
    return FakeClock()


@pytest.fixture(scope="session")
def plain_suite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Suite]:
    """One running suite for all tests of this process, reached through the gateway alone."""
    with running_suite(tmp_path_factory.mktemp("suite")) as running:
        yield running


@pytest.fixture(scope="session")
def edge(plain_suite: Suite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    """The deployed edge before the suite of all tests."""
    services = {name: plain_suite.address(name) for name in EDGE_SERVICES}
    with running_edge(tmp_path_factory.mktemp("edge"), suit_tests, **services) as running:
        yield running


@pytest.fixture(scope="session")
def entrance(request: pytest.FixtureRequest) -> str:
    """Where `suite` is entered: "gateway", or "envoy" for modules that are marked with `both_entrances`."""
    return str(getattr(request, "param", "gateway"))


@pytest.fixture(scope="session")
def suite(request: pytest.FixtureRequest, plain_suite: Suite, entrance: str) -> Suite:
    """One running suite for all tests of this process. Use `scope` to stay apart."""
    if entrance == "gateway":
        return plain_suite
    edge: Edge = request.getfixturevalue("edge")
    return replace(plain_suite, url=f"https://127.0.0.1:{edge.door.port}", tls=edge.tls())


@pytest.fixture
def fresh_suite(tmp_path: Path) -> Iterator[Suite]:
    """A running suite of the test's own, on an empty store."""
    with running_suite(tmp_path) as running:
        yield running


@pytest.fixture(scope="session")
def fault_points(tmp_path_factory: pytest.TempPathFactory) -> FaultPoints:
    """The switches of `armed_suite`."""
    return FaultPoints(tmp_path_factory.mktemp("points"))


@pytest.fixture(scope="session")
def armed_suite(tmp_path_factory: pytest.TempPathFactory, fault_points: FaultPoints) -> Iterator[Suite]:
    """One running suite for all tests that end single processes of it at fault points and see it recover."""
    with running_suite(tmp_path_factory.mktemp("armed"), {**fault_points.environment, **NO_BUSY_SLOTS}) as running:
        yield running


@pytest.fixture
def scope() -> dict[str, Any]:
    """A shared scope in a project that no other test uses."""
    return builders.scope_json(f"project-{uuid.uuid4()}")


@pytest.fixture
def api(suite: Suite, scope: dict[str, Any]) -> Iterator[Api]:
    """The shared suite as its writer, in a scope of the test's own."""
    with suite.client() as client:
        yield Api(client, scope)


@pytest.fixture
def left_sound(suite: Suite, scope: dict[str, Any]) -> Iterator[None]:
    """Whatever the test does in its scope, nothing is written by half, and an ordinary write and search go on."""
    yield
    suite.wait_healthy()
    verdict.check_partition(suite, scope)
    verdict.check_ordinary(suite, scope)


@pytest.fixture(scope="session")
def both(suite: Suite) -> Iterator[BothWays]:
    """The shared suite, asked through the gateway and over gRPC at once."""
    with BothWays(suite) as caller:
        yield caller


@pytest.fixture
def known(api: Api) -> Known:
    """A small memory in a scope of the test's own."""
    return make_known(api)


@pytest.fixture
def fresh_api(fresh_suite: Suite, scope: dict[str, Any]) -> Iterator[Api]:
    """The test's own suite as its writer."""
    with fresh_suite.client() as client:
        yield Api(client, scope)

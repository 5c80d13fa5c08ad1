"""The gateway at its door, alone and behind the deployed edge, before a scripted backend."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from services.gateway.settings import HttpLimits
from tests.harness.edge import running_edge, suit_tests
from tests.harness.raw_http import Door, RawConnection
from tests.harness.running_gateway import ScriptedBackend, running_gateway

LIMITS = HttpLimits(linger_s=15.0, drain_s=2.0)
IMPATIENT = HttpLimits(header_timeout_s=0.4, body_timeout_s=0.4, idle_timeout_s=0.6, drain_s=2.0)


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

"""Administrators of two companies on one running suite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.harness.api import Api
from tests.harness.closed_shapes import ClosedShapes
from tests.harness.company import Company
from tests.harness.suite import Suite


@pytest.fixture(scope="module")
def shapes(suite: Suite) -> ClosedShapes:
    """The published answers."""
    with suite.client("") as client:
        return ClosedShapes(client.get("/openapi.json").json())


@pytest.fixture
def company(suite: Suite, shapes: ClosedShapes) -> Iterator[Company]:
    """The company's administrator."""
    with suite.client(suite.admin_key) as client:
        yield Company(client, shapes)


@pytest.fixture
def rival(suite: Suite, shapes: ClosedShapes) -> Iterator[Company]:
    """The administrator of another company."""
    with suite.client(suite.other_admin_key) as client:
        yield Company(client, shapes)


@pytest.fixture
def open_api(suite: Suite) -> Iterator[Callable[..., Api]]:
    """Opens clients with keys and scopes of their own."""
    clients: list[httpx.Client] = []

    def open_client(key: str, scope: dict[str, Any]) -> Api:
        clients.append(suite.client(key))
        return Api(clients[-1], scope)

    yield open_client
    for client in clients:
        client.close()

"""Requests that schemathesis makes from the served openapi.json, good ones and bad ones: every answer is as declared.

Quick runs try a few requests of each kind of operation; in depth every operation is tried with many.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.harness.message_caller import documented_routes
from tests.harness.suite import Suite, running_suite

CHECKED = [
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
OPERATIONS = sorted(f"{route.method} {route.template}" for route in documented_routes())
EXAMPLES, DEEP_EXAMPLES = 2, 60


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Suite]:
    """A suite for this file alone: what is sent here may well be carried out."""
    with running_suite(tmp_path_factory.mktemp("described")) as running:
        yield running
        assert running.is_healthy()
        assert [] == running.events("unexpected_failure")


@cache
def operations_at(url: str) -> dict[str, Any]:
    """Every operation that a gateway serves, as schemathesis has it."""
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    return {found.ok().label: found.ok() for found in schema.get_all_operations()}


def check_operation(suite: Suite, label: str, examples: int) -> None:
    """Send generated requests of one operation, those that fit its description and those that do not."""
    operation = operations_at(suite.url)[label]
    cases = st.one_of(
        operation.as_strategy(generation_mode=GenerationMode.POSITIVE),
        operation.as_strategy(generation_mode=GenerationMode.NEGATIVE),
    )
    keys = st.sampled_from([suite.writer_key, suite.admin_key])

    @settings(max_examples=examples, phases=[Phase.generate], suppress_health_check=list(HealthCheck), deadline=None)
    @given(case=cases, key=keys)
    def check(case: Any, key: str) -> None:
        arguments = case.as_transport_kwargs(base_url=suite.url)
        arguments["headers"] = {**dict(arguments["headers"]), "Authorization": f"Bearer {key}"}
        response = case.call(base_url=suite.url, headers=arguments["headers"])
        assert 500 > response.status_code or 503 == response.status_code, (case.body, response.text)
        assert ["no-store"] == response.headers["cache-control"]
        case.validate_response(response, checks=CHECKED)

    check()


def test_every_operation_is_described(described: Suite) -> None:
    """What is served is what the routes say."""
    assert OPERATIONS == sorted(operations_at(described.url))


@pytest.mark.parametrize("label", OPERATIONS)
def test_answers_are_as_described(described: Suite, label: str) -> None:
    """No failure, no undeclared status, no undeclared type or shape, whatever is sent."""
    check_operation(described, label, EXAMPLES)


@pytest.mark.deep
@pytest.mark.parametrize("label", OPERATIONS)
def test_answers_are_as_described_in_depth(described: Suite, label: str) -> None:
    """The same with many requests."""
    check_operation(described, label, DEEP_EXAMPLES)

"""deploy/envoy/envoy.yaml against the descriptors, read by another matcher: routes, limits, reach."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest

from scripts import generate_envoy
from services.edge.configuration import load_deployed
from services.gateway.descriptors import Descriptors
from services.gateway.message_shape import MessageShapes
from services.gateway.route_table import Route, compile_routes
from services.runtime.transport import REQUEST_BYTES_MAX
from tests.harness.edge import ENVOY_YAML, http_manager

BUFFER = "envoy.filters.http.buffer"
IDENTIFIER = "0d9cf8a2-3b0c-4a52-9a9e-0d6f7fd2b2a1"


@cache
def descriptors() -> Descriptors:
    return Descriptors.load()


@cache
def routes() -> list[Route]:
    return compile_routes(descriptors(), MessageShapes(descriptors()))


@cache
def table() -> list[dict[str, Any]]:
    """The routes of the main listener, in order."""
    (host,) = http_manager(load_deployed(ENVOY_YAML))["route_config"]["virtual_hosts"]
    found: list[dict[str, Any]] = host["routes"]
    return found


def header_fits(rule: dict[str, Any], headers: dict[str, str]) -> bool:
    """One header matcher of Envoy, of the kinds that the file uses."""
    value = headers.get(rule["name"])
    if value is None:
        return False
    if "range_match" in rule:
        return bool(rule["range_match"]["start"] <= int(value) < rule["range_match"]["end"])
    if "present_match" in rule:
        return True
    text = rule["string_match"]
    return (
        value == text.get("exact")
        or ("prefix" in text and value.startswith(text["prefix"]))
        or ("contains" in text and text["contains"] in value)
    )


def path_fits(match: dict[str, Any], path: str) -> bool:
    """The path matcher of a route."""
    if "connect_matcher" in match:
        return False
    if "path" in match:
        return bool(path == match["path"])
    if "prefix" in match:
        return path.startswith(match["prefix"])
    return re.fullmatch(match["safe_regex"]["regex"], path) is not None


def find(method: str, path: str, **headers: str) -> dict[str, Any]:
    """The first route that fits, as Envoy takes it."""
    seen = {":method": method, **{name.replace("_", "-"): value for name, value in headers.items()}}
    for route in table():
        if path_fits(route["match"], path) and all(
            header_fits(rule, seen) for rule in route["match"].get("headers", [])
        ):
            return route
    raise AssertionError(f"nothing fits {method} {path}")


def path_of(template: str) -> str:
    return re.sub(r"\{[^}]*\}", IDENTIFIER, template)


def by_template(route: Route) -> str:
    return f"{route.method} {route.template}"


def test_the_generated_parts_are_those_of_the_descriptors() -> None:
    """Nobody edits them, and no change of a proto forgets them."""
    text = ENVOY_YAML.read_text(encoding="utf-8")
    assert generate_envoy.fill(text) == text


@pytest.mark.parametrize("route", routes(), ids=by_template)
def test_a_documented_route_leads_to_the_gateway_within_its_limit(route: Route) -> None:
    """Method, path, limit and time-out of every route are those of its proto."""
    path = path_of(route.template)
    length = {"content_length": str(route.body_bytes_max)} if route.takes_body else {}
    found = find(route.method, path, **length)
    assert ("gateway", route.template) == (found["route"]["cluster"], found["name"])
    assert f"{route.deadline_s + 2:g}s" == found["route"]["timeout"]
    buffered = found.get("typed_per_filter_config", {}).get(BUFFER, {}).get("buffer")
    assert ({"max_request_bytes": route.body_bytes_max} if route.takes_body else None) == buffered
    if route.takes_body:
        over = find(route.method, path, content_length=str(route.body_bytes_max + 1))
        assert {"status": 413} == over["direct_response"]


@pytest.mark.parametrize("route", routes(), ids=by_template)
def test_only_reads_are_repeated_after_they_were_sent(route: Route) -> None:
    """A lost connection says nothing about a command's effect; only GET is tried again then."""
    policy = find(route.method, path_of(route.template))["route"].get("retry_policy")
    assert (route.method == "GET") == (policy is not None)
    if policy is not None:
        assert "connect-failure,refused-stream,reset" == policy["retry_on"]


@pytest.mark.parametrize("path", sorted({path_of(route.template) for route in routes()} | {"/openapi.json"}))
def test_another_method_is_left_to_the_gateway(path: str) -> None:
    """It knows which methods there are, and answers before it has read a body."""
    found = find("PATCH", path, content_length="99999999")
    assert "gateway" == found["route"]["cluster"]
    assert "typed_per_filter_config" not in found


@pytest.mark.parametrize("path", ["/", "/api/v1", "/health/", "/openapi", "/api/v1/memory//search", "/x/../health"])
def test_other_paths_are_refused_at_the_edge(path: str) -> None:
    """What is not documented does not reach the gateway."""
    assert {"status": 404} == find("GET", path)["direct_response"]


def test_escaped_paths_are_left_to_the_gateway() -> None:
    """There is one place that decodes them; what is sent there is whole, as for the paths that they may mean."""
    found = find("POST", "/api/v1/memory/search/%6cexical")
    assert "gateway" == found["route"]["cluster"]
    most = max(route.body_bytes_max for route in routes())
    assert {"max_request_bytes": most} == found["typed_per_filter_config"][BUFFER]["buffer"]


def test_who_asks_first_takes_connections_of_few() -> None:
    """Such a request goes on before it is whole."""
    found = find("POST", "/api/v1/memory/search", expect="100-continue")
    assert ("gateway", "HIGH") == (found["route"]["cluster"], found["route"]["priority"])


@pytest.mark.parametrize("service", [service.full_name for service in descriptors().services()])
def test_grpc_reaches_the_services_of_clients_and_no_other(service: str) -> None:
    """A service with documented routes is reached in its own process, by whole requests but for streams.

    Storage and all that is internal is not.
    """
    is_routed = any(route.rpc.startswith(f"/{service}/") for route in routes())
    found = find("POST", f"/{service}/Method", content_type="application/grpc+proto")
    if is_routed or service == "waggle.memory.v1.ImportService":
        assert service.split(".")[1] == found["route"]["cluster"]
        buffered = found.get("typed_per_filter_config", {}).get(BUFFER, {}).get("buffer")
        assert ({"max_request_bytes": REQUEST_BYTES_MAX} if is_routed else None) == buffered
        assert found == find("POST", f"/{service}/Method", content_type="application/grpc-web-text")
    else:
        assert {"status": 404} == found["direct_response"]
    assert {"status": 404} == find("POST", f"/{service}/Method", content_type="application/json")["direct_response"]


def test_storage_is_no_cluster_at_all() -> None:
    """Not even a mistake in the routes could lead there."""
    clusters = {cluster["name"] for cluster in load_deployed(ENVOY_YAML)["static_resources"]["clusters"]}
    assert {"gateway", "identity", "memory", "retrieval", "consolidation", "admin"} == clusters

"""What holds for the whole of deploy/envoy/envoy.yaml: replies, limits, logs, health, secrets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from services.edge.configuration import load_deployed, secret_documents
from services.gateway.descriptors import Descriptors
from services.gateway.error_envelope import INTERNAL_TEXT, ErrorEnvelope
from services.gateway.router import NO_ROUTE_TEXT
from services.gateway.settings import HttpLimits
from tests.harness.edge import ENVOY_YAML, http_manager

# Statuses that a documented code may travel with beside its own: 413 by contract, 504 as the edge's word for a
# service that did not answer in time.
OTHER_STATUSES = {"invalid_request": {413}, "internal_error": {504}}
STATUS_OF_FILTER = re.compile(r'"op": "EQ", "value": \{"default_value": (\d+)')


@pytest.fixture(scope="module")
def deployed() -> dict[str, Any]:
    return load_deployed(ENVOY_YAML)


@pytest.fixture(scope="module")
def mappers(deployed: dict[str, Any]) -> list[dict[str, Any]]:
    """What makes the replies of the main listener."""
    found: list[dict[str, Any]] = http_manager(deployed)["local_reply_config"]["mappers"]
    return found


def managers(deployed: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The connection managers of all listeners for clients."""
    for listener in deployed["static_resources"]["listeners"]:
        for chain in listener["filter_chains"]:
            if listener["name"] != "operations":
                yield chain["filters"][0]["typed_config"]


def test_every_reply_of_envoy_is_a_documented_one(mappers: list[dict[str, Any]]) -> None:
    """Code and status belong together as the contract has them; gRPC alone keeps its own form."""
    statuses = ErrorEnvelope(Descriptors.load()).status_by_reason
    too_large, grpc_form, *documented = mappers
    for found in (too_large["filter"]["and_filter"]["filters"][0], grpc_form["filter"]):
        assert "application/grpc" == found["header_filter"]["header"]["string_match"]["prefix"]
    for mapper in documented:
        document = mapper["body_format_override"]["json_format"]
        assert {"contract_version", "error"} == set(document)
        assert (1, {"code", "message"}) == (document["contract_version"], set(document["error"]))
        code = document["error"]["code"]
        equal = STATUS_OF_FILTER.search(json.dumps(mapper["filter"]))
        status = mapper.get("status_code") or int(equal.group(1)) if equal or "status_code" in mapper else None
        assert status in {statuses[code]} | OTHER_STATUSES.get(code, set()), mapper


def test_no_reply_of_envoy_is_stored(deployed: dict[str, Any]) -> None:
    """Cache-Control stands on what Envoy makes and on what it passes on, on every listener for clients."""
    no_store = {"header": {"key": "cache-control", "value": "no-store"}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
    for manager in managers(deployed):
        assert all(no_store in mapper["headers_to_add"] for mapper in manager["local_reply_config"]["mappers"])
        if manager["stat_prefix"] != "plain":  # which passes nothing on
            assert [no_store] == manager["route_config"]["response_headers_to_add"]


def test_the_last_mapper_takes_whatever_is_left(mappers: list[dict[str, Any]]) -> None:
    """No status that Envoy may come to have finds no entry: up to 499, and from 500 on."""
    bounds = [mapper["filter"].get("status_code_filter", {}).get("comparison", {}) for mapper in mappers]
    assert {("LE", 499), ("GE", 500)} <= {(c["op"], c["value"]["default_value"]) for c in bounds if c}
    assert "GE" == bounds[-1]["op"]


def test_texts_are_the_gateways(mappers: list[dict[str, Any]]) -> None:
    """Who reads a refusal need not know which of the two has made it."""
    texts = {
        mapper["body_format_override"].get("json_format", {}).get("error", {}).get("message") for mapper in mappers
    }
    assert {NO_ROUTE_TEXT, INTERNAL_TEXT} <= texts


def test_limits_of_the_header_are_the_gateways(deployed: dict[str, Any]) -> None:
    """Size, number of fields, and the time that it may take."""
    limits = HttpLimits()
    manager = http_manager(deployed)
    assert limits.header_bytes_max == manager["max_request_headers_kb"] * 1024
    assert limits.header_count_max == manager["common_http_protocol_options"]["max_headers_count"]
    assert f"{limits.header_timeout_s:g}s" == manager["request_headers_timeout"]
    assert f"{limits.idle_timeout_s:g}s" == manager["common_http_protocol_options"]["idle_timeout"]


def test_idle_connections_to_the_gateway_end_before_it_ends_them(deployed: dict[str, Any]) -> None:
    """Otherwise a command could be sent into a connection that is being closed."""
    gateway = deployed["static_resources"]["clusters"][0]
    (options,) = gateway["typed_extension_protocol_options"].values()
    assert "gateway" == gateway["name"]
    assert int(options["common_http_protocol_options"]["idle_timeout"].removesuffix("s")) < HttpLimits().idle_timeout_s


def test_paths_go_through_as_they_came(deployed: dict[str, Any]) -> None:
    """One place alone decides what an escape, a double slash or a dot segment means."""
    manager = http_manager(deployed)
    assert (False, False) == (manager["normalize_path"], manager["merge_slashes"])
    assert "KEEP_UNCHANGED" == manager["path_with_escaped_slashes_action"]


def test_nothing_names_the_software(deployed: dict[str, Any]) -> None:
    """No server header of Envoy's own, and none of its x-envoy headers, on any listener for clients."""
    for manager in managers(deployed):
        assert "PASS_THROUGH" == manager["server_header_transformation"]
        assert manager["http_filters"][-1]["typed_config"]["suppress_envoy_headers"] is True


def test_the_access_log_holds_nothing_of_what_a_client_sent(deployed: dict[str, Any]) -> None:
    """Of the request only its id and its method, both cut; no path, query, header or trailer."""
    for manager in managers(deployed):
        (log,) = manager["access_log"]
        members = log["typed_config"]["log_format"]["json_format"]
        text = json.dumps(members)
        assert {"%REQ(X-REQUEST-ID):128%", "%REQ(:METHOD):16%"} == set(re.findall(r"%REQ\([^%]*%", text))
        assert not re.search(
            r"%(PATH|QUERY_PARAM|REQUESTED|TRAILER|RESP\(|LOCAL_REPLY_BODY|DYNAMIC|DOWNSTREAM_PEER)", text
        )


def test_the_admin_interface_is_on_loopback_alone(deployed: dict[str, Any]) -> None:
    """It can stop the process; only two of its pages are passed on, to the platform."""
    assert "127.0.0.1" == deployed["admin"]["address"]["socket_address"]["address"]
    operations = http_manager(deployed, "operations")
    paths = [route["match"]["path"] for route in operations["route_config"]["virtual_hosts"][0]["routes"]]
    assert ["/ready", "/stats/prometheus"] == paths


def test_every_cluster_is_watched_and_bounded(deployed: dict[str, Any]) -> None:
    """Health over gRPC where gRPC is spoken, circuit breakers, and hosts put aside for lost connections only."""
    for cluster in deployed["static_resources"]["clusters"]:
        if cluster["name"] == "admin":
            continue
        (check,) = cluster["health_checks"]
        assert ("http_health_check" if cluster["name"] == "gateway" else "grpc_health_check") in check
        threshold, of_expect = cluster["circuit_breakers"]["thresholds"]
        assert {"max_connections", "max_pending_requests", "max_requests", "retry_budget"} == set(threshold)
        # What goes on before it is whole takes little of what everybody shares.
        assert ("HIGH", 32, 32) == (of_expect["priority"], of_expect["max_connections"], of_expect["max_requests"])
        outliers = cluster["outlier_detection"]
        assert (0, 0) == (outliers["enforcing_consecutive_5xx"], outliers["enforcing_consecutive_gateway_failure"])
        assert outliers["split_external_local_origin_errors"] is True
        assert {"update_merge_window": "0s"} == cluster["common_lb_config"]


def test_every_retry_goes_to_another_host(deployed: dict[str, Any]) -> None:
    """What one process refuses is not offered to it again while there is another."""
    policies = list(retry_policies(deployed))
    assert policies
    for policy in policies:
        (predicate,) = policy["retry_host_predicate"]
        assert "envoy.retry_host_predicates.previous_hosts" == predicate["name"]
        assert 3 == policy["host_selection_retry_max_attempts"]


def retry_policies(node: Any) -> Iterator[dict[str, Any]]:
    """Every retry policy anywhere in the configuration."""
    if isinstance(node, dict):
        if "retry_policy" in node:
            yield node["retry_policy"]
        node = list(node.values())
    if isinstance(node, list):
        for entry in node:
            yield from retry_policies(entry)


def test_the_certificate_is_read_anew_when_it_is_renewed() -> None:
    """The deployed file is what the program writes for other places."""
    written = yaml.safe_load(ENVOY_YAML.with_name("certificate.yaml").read_text(encoding="utf-8"))
    directory = Path("/etc/waggle/edge-tls")
    assert secret_documents(directory / "tls.crt", directory / "tls.key") == {"edge": written}

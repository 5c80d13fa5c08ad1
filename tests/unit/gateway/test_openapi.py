"""The OpenAPI document of the real descriptor set."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from services.gateway.descriptors import Descriptors
from services.gateway.error_envelope import ErrorEnvelope
from services.gateway.message_shape import MessageShapes
from services.gateway.openapi import openapi_document
from services.gateway.route_table import Route, compile_routes


@cache
def compiled() -> tuple[list[Route], dict[str, Any]]:
    """Routes and document."""
    descriptors = Descriptors.load()
    shapes = MessageShapes(descriptors)
    routes = compile_routes(descriptors, shapes)
    statuses = dict(ErrorEnvelope(descriptors).status_by_reason)
    return routes, json.loads(openapi_document(descriptors, shapes, routes, statuses))


def operation(method: str, path: str) -> Any:
    return compiled()[1]["paths"][path][method]


def schema(name: str) -> Any:
    return compiled()[1]["components"]["schemas"][name]


def nodes(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in a JSON value."""
    if isinstance(value, dict):
        yield value
        for item in value.values():
            yield from nodes(item)
    elif isinstance(value, list):
        for item in value:
            yield from nodes(item)


def test_every_route_is_described_and_nothing_else() -> None:
    """One operation for each route, with its own id, and the document itself."""
    routes, document = compiled()
    described = {(method.upper(), path) for path, operations in document["paths"].items() for method in operations}
    assert described == {(route.method, route.template) for route in routes} | {("GET", "/openapi.json")}
    ids = [operations["operationId"] for path in document["paths"].values() for operations in path.values()]
    assert len(ids) == len(set(ids))


def test_references_lead_somewhere() -> None:
    """Every $ref names a schema that is there."""
    document = compiled()[1]
    targets = {node["$ref"] for node in nodes(document) if "$ref" in node}
    assert targets <= {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}


def test_every_object_is_closed() -> None:
    """Request and response objects have no further members; only caller metadata is open."""
    open_objects = [
        node
        for node in nodes(compiled()[1]["components"]["schemas"])
        if node.get("type") == "object" and node.get("additionalProperties") is not False
    ]
    assert all("properties" not in node for node in open_objects)


def test_the_large_routes_publish_their_limit() -> None:
    """Four routes take 2 MiB, and say so."""
    document = compiled()[1]
    limited = {
        path: described["post"]["x-qilbee-max-request-body-bytes"]
        for path, described in document["paths"].items()
        if "x-qilbee-max-request-body-bytes" in described.get("post", {})
    }
    assert limited == dict.fromkeys(
        (
            "/api/v1/memory/embeddings",
            "/api/v1/memory/search",
            "/api/v1/memory/search/graph",
            "/api/v1/memory/search/hybrid",
        ),
        2_097_152,
    )


def test_statuses_and_headers_are_the_declared_ones() -> None:
    """Errors carry the envelope and no-store; success carries the declared headers."""
    search = operation("post", "/api/v1/memory/search/graph")
    assert sorted(search["responses"]) == ["200", "400", "401", "403", "413", "500", "503"]
    assert sorted(search["responses"]["200"]["headers"]) == ["Cache-Control", "X-Qilbee-Retrieval-Micros"]
    assert search["responses"]["503"]["headers"]["Cache-Control"]["schema"] == {"const": "no-store"}
    assert "retrieval_busy" in search["responses"]["503"]["description"]
    assert "201" in operation("post", "/api/v1/credentials")["responses"]


def test_public_routes_need_no_credential() -> None:
    """Everything else has the bearer scheme of the document."""
    assert compiled()[1]["security"] == [{"bearer": []}]
    assert operation("get", "/health")["security"] == []
    assert "security" not in operation("get", "/api/v1/identity")


def test_parameters_are_those_of_the_binding() -> None:
    """Path variables and query parameters with their bounds."""
    parameters = {item["name"]: item for item in operation("get", "/api/v1/memory/records/{record_id}")["parameters"]}
    assert {name: (item["in"], item["required"]) for name, item in parameters.items()} == {
        "record_id": ("path", True),
        "contract_version": ("query", True),
        "project_id": ("query", True),
        "agent_id": ("query", True),
        "visibility": ("query", True),
        "mission_id": ("query", False),
    }
    assert parameters["contract_version"]["schema"] == {"type": "integer", "const": 1}
    assert parameters["visibility"]["schema"]["enum"] == ["private", "shared"]


def test_a_path_field_is_not_in_the_body() -> None:
    """The body of rotate has two members."""
    body = operation("post", "/api/v1/credentials/{credential_id}/rotate")["requestBody"]
    assert sorted(body["content"]["application/json"]["schema"]["properties"]) == [
        "contract_version",
        "expected_revision",
    ]


def test_unions_are_one_of_closed_objects() -> None:
    """Tagged ones hold the constant, external ones the words or one member."""
    choices = schema("MemoryOperation")["oneOf"]
    assert [choice["properties"]["type"]["const"] for choice in choices] == ["create", "update", "delete", "derive"]
    assert all("type" in choice["required"] for choice in choices)
    words, custom = schema("EpisodeType")["oneOf"]
    assert words["enum"] == ["Conversation", "TaskExecution", "Observation", "Decision", "Error"]
    assert custom["required"] == ["Custom"]


@pytest.mark.parametrize(
    ("name", "required"),
    [
        ("Scope", ["agent_id", "mission_id", "project_id", "visibility"]),
        ("ScopeInput", ["agent_id", "project_id", "visibility"]),
    ],
)
def test_requests_and_answers_differ_in_what_must_be_there(name: str, required: list[str]) -> None:
    """An answer has every member; a request may leave out the optional ones."""
    assert sorted(schema(name)["required"]) == required
    assert {"type": "null"} in schema(name)["properties"]["mission_id"]["anyOf"]


def test_bounds_and_comments_come_from_the_protos() -> None:
    """A bound is written down once."""
    properties = schema("GraphQuery")["properties"]
    assert properties["limit"]["minimum"] == 1
    assert properties["limit"]["maximum"] == 100
    assert properties["limit"]["description"]
    assert schema("ScopeInput")["properties"]["project_id"]["x-max-utf8-bytes"] == 256

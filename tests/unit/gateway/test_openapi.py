"""The OpenAPI document of the real descriptor set."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR

from services.gateway.descriptors import Descriptors
from services.gateway.error_envelope import ErrorEnvelope
from services.gateway.message_shape import MessageShapes
from services.gateway.openapi import first_sentence, openapi_document
from services.gateway.route_table import Route, compile_routes

DOCUMENTED_IDS = {
    "/api/v1/memory/consolidation/commands": "memoryConsolidationCommands",
    "/api/v1/memory/consolidation/inspect": "memoryConsolidationInspect",
    "/api/v1/memory/consolidation/revision": "memoryConsolidationRevision",
    "/api/v1/memory/consolidation/query": "memoryConsolidationQuery",
    "/api/v1/memory/consolidation/context": "memoryConsolidationContext",
    "/api/v1/company/memory/consolidation/query": "companyConsolidationQuery",
    "/api/v1/company/memory/consolidation/inspect": "companyConsolidationInspect",
    "/api/v1/company/memory/consolidation/revision": "companyConsolidationRevision",
    "/api/v1/company/memory/consolidation/cancel": "companyConsolidationCancel",
    "/api/v1/company/memory/workspaces": "listCompanyMemoryWorkspaces",
}
OPERATION_ID = re.compile(r"[a-z]+([A-Z][a-z]+)*\Z")
SUMMARY_LENGTH_MAX = 120


@cache
def compiled() -> tuple[list[Route], dict[str, Any]]:
    """Routes and document."""
    descriptors = Descriptors.load()
    shapes = MessageShapes(descriptors)
    routes = compile_routes(descriptors, shapes)
    statuses = dict(ErrorEnvelope(descriptors).status_by_reason)
    return routes, json.loads(openapi_document(descriptors, shapes, routes, statuses))


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Path, method and operation of everything that is described."""
    for path, described in compiled()[1]["paths"].items():
        for method, found in described.items():
            yield path, method, found


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


def test_the_document_is_openapi_3_1() -> None:
    """The published schema of OpenAPI 3.1 takes the whole document, that of JSON Schema each schema in it."""
    document = compiled()[1]
    faults = [f"{list(fault.instance_path)}: {fault.message}" for fault in OPENAPI_31_VALIDATOR.iter_errors(document)]
    assert [] == faults
    bodies = [content["schema"] for node in nodes(document["paths"]) for content in node.get("content", {}).values()]
    for found in (*document["components"]["schemas"].values(), *bodies):
        Draft202012Validator.check_schema(found)


def test_documented_operations_have_their_documented_names() -> None:
    """The names and the tag that the contract gives; every other name is a verb and a noun."""
    assert DOCUMENTED_IDS == {path: found["operationId"] for path, _, found in operations() if path in DOCUMENTED_IDS}
    assert {"Memory"} == {tag for path, _, found in operations() if "consolidation" in path for tag in found["tags"]}
    assert [] == [found["operationId"] for _, _, found in operations() if not OPERATION_ID.match(found["operationId"])]


def test_a_summary_is_one_short_sentence() -> None:
    """A list of operations can be read; the whole comment is the description."""
    for _, _, found in operations():
        assert re.fullmatch(r"[A-Z][^.]*(\.[^ .][^.]*)*\.", found["summary"]), found["summary"]
        assert len(found["summary"]) <= SUMMARY_LENGTH_MAX
        assert " ".join(found["description"].split()).startswith(found["summary"])


@pytest.mark.parametrize(
    ("comment", "sentence"),
    [
        ("Ranks by BM25, `bm25_v1`. Needs a slot.", "Ranks by BM25, `bm25_v1`."),
        ("Breaks\nin two. More.", "Breaks in two."),
        ("Version 0.14.0 of it. More.", "Version 0.14.0 of it."),
        ("No full stop", "No full stop"),
        ("", ""),
    ],
)
def test_the_first_sentence_ends_at_the_first_full_stop(comment: str, sentence: str) -> None:
    """A full stop inside of a word ends nothing."""
    assert sentence == first_sentence(comment)


def test_every_refusal_is_documented_as_the_envelope() -> None:
    """Whatever the route: the one closed object, with a code that travels with the status, and not to be stored."""
    for path, method, found in operations():
        refusals = {status: answer for status, answer in found["responses"].items() if not status.startswith("2")}
        assert refusals, f"{method} {path} documents no refusal"
        for answer in refusals.values():
            envelope = answer["content"]["application/json"]["schema"]
            assert "#/components/schemas/ErrorResponse" == envelope["$ref"]
            codes = envelope["properties"]["error"]["properties"]["code"]["enum"]
            assert set(codes) <= set(schema("ErrorResponse")["properties"]["error"]["properties"]["code"]["enum"])
            assert answer["description"].endswith(f": {', '.join(codes)}")
            assert codes
            assert {"const": "no-store"} == answer["headers"]["Cache-Control"]["schema"]


@pytest.mark.parametrize(
    ("name", "member", "only"),
    [
        ("SearchLexicalRequest", "mode", "lexical"),
        ("SearchHybridRequest", "mode", "hybrid"),
        ("SearchSemanticRequest", "contract_version", 1),
        ("ReviewCommand", "contract_version", 1),
    ],
)
def test_a_member_with_one_allowed_value_is_constant(name: str, member: str, only: object) -> None:
    """A generated client fills it in by itself."""
    assert only == schema(name)["properties"][member]["const"]
    assert "enum" not in schema(name)["properties"][member]


def test_every_request_fixes_its_contract_version() -> None:
    """No request of the document leaves the version open, in its body or in its query."""
    for path, method, found in operations():
        for parameter in found.get("parameters", []):
            if parameter["name"] == "contract_version":
                assert 1 == parameter["schema"]["const"], f"{method} {path}"
        body = found.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
        body = schema(body["$ref"].rpartition("/")[2]) if "$ref" in body else body
        if "contract_version" in body.get("properties", {}):
            assert 1 == body["properties"]["contract_version"]["const"], f"{method} {path}"


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
    assert compiled()[1]["security"] == [{"credential": []}, {"session": []}]
    assert {"credential", "session"} == set(compiled()[1]["components"]["securitySchemes"])
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


@pytest.mark.parametrize(
    ("method", "path", "status", "codes"),
    [
        ("post", "/api/v1/memory/consolidation/query", 404, ["record_not_found"]),
        ("post", "/api/v1/memory/consolidation/query", 400, ["invalid_request", "unsupported_contract_version"]),
        ("post", "/api/v1/memory/consolidation/commands", 409, ["revision_conflict", "idempotency_conflict"]),
        ("post", "/api/v1/company/memory/consolidation/cancel", 404, ["record_not_found"]),
        ("post", "/api/v1/memory/search/lexical", 503, ["retrieval_busy"]),
        ("post", "/api/v1/memory/consolidation/inspect", 503, ["retrieval_busy"]),
        ("post", "/api/v1/memory/consolidation/commands", 503, ["retrieval_busy", "storage_full"]),
        ("post", "/api/v1/memory/reviews/read", 404, ["record_not_found", "review_not_found"]),
        ("post", "/api/v1/login", 401, ["unauthorized", "invalid_login"]),
        ("post", "/api/v1/login", 429, ["login_rate_limited"]),
        ("get", "/api/v1/admin/tenants/{tenant_id}", 404, ["record_not_found", "tenant_not_found"]),
    ],
)
def test_codes_are_those_of_the_route(method: str, path: str, status: int, codes: list[str]) -> None:
    """Consolidation's are published one by one in the contract; a slot is all that a search can lack."""
    answer = operation(method, path)["responses"][str(status)]["content"]["application/json"]["schema"]
    assert codes == answer["properties"]["error"]["properties"]["code"]["enum"]


def test_every_route_that_writes_may_lack_room() -> None:
    """The contract publishes 503 for slots only; here a write may also be refused while the disk is full."""
    declared = {found["operationId"] for _, _, found in operations() if "503" in found["responses"]}
    writing = {"executeCommand", "attachEmbedding", "reviewRecord", "issueCredential", "createTenant", "login"}
    assert writing <= declared
    assert declared & {"queryRecords", "getRecord", "listCredentials", "getHealth", "getIdentity"} == set()
    command = next(found for path, _, found in operations() if path == "/api/v1/memory/commands")
    assert "storage_full" in command["responses"]["503"]["description"]

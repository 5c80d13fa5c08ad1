"""The OpenAPI 3.1 document, made from the same shapes as the codec."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import orjson
from google.protobuf.descriptor import Descriptor

from services.domain.errors import InvalidRequest, MethodNotAllowed, RouteNotFound, StorageFull
from services.gateway.descriptors import Descriptors
from services.gateway.error_envelope import REASON_ENUM
from services.gateway.http_rule import parse_template
from services.gateway.message_shape import FieldShape, MessageShape, MessageShapes
from services.gateway.openapi_schema import SchemaWriter
from services.gateway.query_binding import query_fields
from services.gateway.route_table import ORDINARY_BODY_BYTES_MAX, Route

CONTRACT_LEVEL = "0.14.0"

_BODY_LIMIT_EXTENSION = "x-qilbee-max-request-body-bytes"
_SENTENCE = re.compile(r".+?[.](?= |\Z)", re.DOTALL)
_VARIABLE = re.compile(r"\{([a-z][a-z0-9_]*)(?:=\*)?\}")
_CODES_BY_STATUS = {413: [InvalidRequest.reason]}
_CODES_OF_NO_ROUTE = (RouteNotFound.reason, MethodNotAllowed.reason)
_READING = ("BatchRead", "Diagnose", "Get", "Inspect", "List", "Query", "Read", "Search", "Trace", "Traverse")
_STATUS_TEXTS = {
    400: "Malformed or out of bounds",
    401: "No valid credential",
    403: "Capability, scope or authority is missing",
    404: "Absent for this caller",
    409: "Does not fit the present state",
    413: "The request body is over the route's limit",
    429: "Too many failed logins",
    500: "The service failed",
    503: "No free slot, or no room to write",
}
_NO_STORE = {"schema": {"const": "no-store"}, "required": True}


def openapi_document(
    descriptors: Descriptors,
    shapes: MessageShapes,
    routes: Sequence[Route],
    status_by_reason: dict[str, int],
) -> bytes:
    """Write the document of all routes as JSON.

    Args:
        descriptors: Gives the comments, which become descriptions.
        shapes: Shapes of the message types.
        routes: The compiled routes.
        status_by_reason: Documented code -> HTTP status.
    """
    writer = SchemaWriter(shapes)
    for route in routes:
        writer.reference(route.descriptor.output_type, for_request=False)
    codes = _Codes(descriptors, status_by_reason)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        template = _VARIABLE.sub(r"{\1}", route.template)
        operation = _operation(descriptors, shapes, writer, route, codes)
        paths.setdefault(template, {})[route.method.lower()] = operation
    paths["/openapi.json"] = {"get": _own_operation()}
    document = {
        "openapi": "3.1.0",
        "info": {
            "title": "Waggle",
            "version": CONTRACT_LEVEL,
            "description": "An auditable graph memory for software agents. The version is the contract level.",
        },
        "paths": paths,
        "components": {
            "schemas": {**writer.schemas, "ErrorResponse": _error_schema(sorted(status_by_reason))},
            "securitySchemes": {
                "credential": _bearer("A credential's secret: qdb1_ of a company's, qdbg1_ of a global one."),
                "session": _bearer("The token of a human login: qdbst1_ in a company, qdbsg1_ globally."),
            },
        },
        "security": [{"credential": []}, {"session": []}],
    }
    return orjson.dumps(document)


def _bearer(description: str) -> dict[str, str]:
    return {"type": "http", "scheme": "bearer", "description": description}


def _operation(
    descriptors: Descriptors,
    shapes: MessageShapes,
    writer: SchemaWriter,
    route: Route,
    codes: _Codes,
) -> dict[str, Any]:
    method = route.descriptor
    comment = descriptors.comment(method.full_name)
    operation: dict[str, Any] = {
        "operationId": route.operation_id,
        "tags": [_tag(route)],
        "summary": first_sentence(comment),
        "description": comment,
    }
    if route.public:
        operation["security"] = []
    parameters = _parameters(shapes, writer, route)
    if parameters:
        operation["parameters"] = parameters
    if route.takes_body:
        schema = _body_schema(writer, shapes, route)
        operation["requestBody"] = {
            "required": not route.body_optional,
            "content": {"application/json": {"schema": schema}},
        }
        if route.body_bytes_max > ORDINARY_BODY_BYTES_MAX:
            operation[_BODY_LIMIT_EXTENSION] = route.body_bytes_max
    operation["responses"] = {
        str(route.success_status): {
            "description": "Success",
            "headers": {"Cache-Control": _NO_STORE, **{name: _header(name) for name in route.response_headers}},
            "content": {"application/json": {"schema": writer.reference(method.output_type, for_request=False)}},
        },
        **{str(status): _error_response(status, codes.of(route, status)) for status in _error_statuses(route)},
    }
    return operation


def first_sentence(comment: str) -> str:
    """The first sentence of a comment on one line, its full stop included; all of a comment without one."""
    text = " ".join(comment.split())
    found = _SENTENCE.match(text)
    return found.group() if found else text


def _tag(route: Route) -> str:
    """The documented tag of everything about memory, jobs included; the service's own name for the rest."""
    if "memory" in route.template.split("/"):
        return "Memory"
    return route.descriptor.containing_service.name.removesuffix("Service")


def _error_statuses(route: Route) -> list[int]:
    """The published statuses, and 503 where a full disk can be met."""
    return sorted({*route.error_statuses, *((503,) if _may_write(route) else ())})


def _may_write(route: Route) -> bool:
    """Whatever a method's name does not say to read."""
    return not route.descriptor.name.startswith(_READING)


class _Codes:
    """Which documented codes a route can answer with."""

    def __init__(self, descriptors: Descriptors, status_by_reason: dict[str, int]) -> None:
        self._status_by_reason = status_by_reason
        self._services = descriptors.answering_services(descriptors.pool.FindEnumTypeByName(REASON_ENUM))

    def of(self, route: Route, status: int) -> list[str]:
        """The codes that travel with a status."""
        if status in _CODES_BY_STATUS:
            return _CODES_BY_STATUS[status]
        service = route.descriptor.containing_service.name
        return [
            code
            for code, its_status in self._status_by_reason.items()
            if its_status == status
            and (not self._services[code] or service in self._services[code])
            and code not in _CODES_OF_NO_ROUTE
            and (code != StorageFull.reason or _may_write(route))
        ]


def _parameters(shapes: MessageShapes, writer: SchemaWriter, route: Route) -> list[dict[str, Any]]:
    request = route.descriptor.input_type
    path_names = parse_template(route.template).variables
    parameters = [
        _parameter("path", shapes.field(request.fields_by_name[name]), writer, is_required=True) for name in path_names
    ]
    if not route.takes_body:
        fields = query_fields(shapes, request, path_names)
        parameters.extend(_parameter("query", field, writer, is_required=field.required) for _, field in fields)
    return parameters


def _parameter(place: str, field: FieldShape, writer: SchemaWriter, *, is_required: bool) -> dict[str, Any]:
    schema = writer.value(field, for_request=True)
    description = schema.pop("description", "")
    return {
        "name": field.field if place == "path" else field.member,
        "in": place,
        "required": is_required,
        "description": description,
        "schema": schema,
    }


def _body_schema(writer: SchemaWriter, shapes: MessageShapes, route: Route) -> dict[str, Any]:
    request: Descriptor = route.descriptor.input_type
    path_names = parse_template(route.template).variables
    if not path_names:
        return writer.reference(request, for_request=True)
    # What the path carries is no member of the body, so such a body has a schema of its own.
    shape = shapes.shape(request)
    members = tuple(member for member in shape.members if member.field not in path_names)
    return writer.object(MessageShape(shape.full_name, members, tagged=shape.tagged), for_request=True)


def _header(name: str) -> dict[str, Any]:
    if name.lower().endswith("-version"):
        return {"schema": {"type": "string"}, "required": True}
    return {"schema": {"type": "integer", "minimum": 0}, "required": True}


def _error_response(status: int, codes: list[str]) -> dict[str, Any]:
    code = {"properties": {"error": {"properties": {"code": {"enum": codes}}}}}
    return {
        "description": f"{_STATUS_TEXTS.get(status, 'Refused')}: {', '.join(codes)}",
        "headers": {"Cache-Control": _NO_STORE},
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorResponse", **code}}},
    }


def _error_schema(codes: list[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["contract_version", "error"],
        "properties": {
            "contract_version": {"type": "integer", "const": 1},
            "error": {
                "type": "object",
                "additionalProperties": False,
                "required": ["code", "message"],
                "properties": {"code": {"type": "string", "enum": codes}, "message": {"type": "string"}},
            },
        },
    }


def _own_operation() -> dict[str, Any]:
    return {
        "operationId": "getOpenapi",
        "tags": ["Description"],
        "summary": "Describes the API.",
        "description": "Describes the API. This is the document. Needs no credential.",
        "security": [],
        "responses": {
            "200": {
                "description": "An OpenAPI 3.1 document",
                "content": {"application/json": {"schema": {"type": "object"}}},
            },
            "400": _error_response(400, [InvalidRequest.reason]),
        },
    }

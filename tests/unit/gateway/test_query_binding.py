"""Query strings and path values to requests, on the documented GET routes."""

from __future__ import annotations

from functools import cache

import pytest

from services.domain.errors import InvalidRequest, UnsupportedContractVersion
from services.gateway.descriptors import Descriptors
from services.gateway.message_shape import MessageShapes, UnsupportedShape
from services.gateway.query_binding import parse_query
from services.gateway.route_table import RouteCodec, compile_routes
from tests.unit.gateway.sample_protos import compile_proto

SCOPE = b"contract_version=1&project_id=p1&agent_id=a1&visibility=shared"


@cache
def codec(method: str) -> RouteCodec:
    """Codec of a documented route, by its gRPC method name."""
    descriptors = Descriptors.load()
    return next(
        route.codec
        for route in compile_routes(descriptors, MessageShapes(descriptors))
        if route.descriptor.name == method
    )


def test_a_scope_is_written_as_parameters() -> None:
    """Names are decoded from percent-encoding and plus signs; the path value takes its field."""
    request = codec("GetRecord").message_from_http(
        b"",
        b"visibility=private&project_id=p%201+x&contract_version=1&agent_id=%C3%A9&mission_id=m",
        {"record_id": "r"},
    )
    found = {field.name: value for field, value in request.ListFields()}
    assert found == {
        "record_id": "r",
        "contract_version": 1,
        "project_id": "p 1 x",
        "agent_id": "é",
        "visibility": 1,
        "mission_id": "m",
    }


def test_an_absent_optional_parameter_is_unset() -> None:
    """The missionless scope is written by leaving the parameter out; an empty text is not absent."""
    request = codec("GetRecord").message_from_http(b"", SCOPE, {"record_id": "r"})
    assert not request.HasField("mission_id")
    request = codec("GetRecord").message_from_http(b"", SCOPE + b"&mission_id=", {"record_id": "r"})
    assert request.HasField("mission_id")


@pytest.mark.parametrize(
    ("query", "member"),
    [
        (b"", "contract_version"),
        (SCOPE + b"&limit=1", "limit"),
        (SCOPE + b"&projectId=p", "projectId"),
        (SCOPE + b"&record_id=x", "record_id"),
        (SCOPE + b"&agent_id=a1", "agent_id"),
        (SCOPE + b"&%61gent_id=a2", "agent_id"),
        (SCOPE.replace(b"shared", b"SHARED"), "visibility"),
        (SCOPE.replace(b"shared", b"2"), "visibility"),
        (SCOPE.replace(b"shared", b""), "visibility"),
        (SCOPE.replace(b"&agent_id=a1", b""), "agent_id"),
        (SCOPE.replace(b"a1", b"%ff"), "agent_id"),
        (SCOPE.replace(b"a1", b"%f"), "agent_id"),
        (SCOPE.replace(b"a1", b"%ed%a0%80"), "agent_id"),
        (SCOPE + b"&mission_id", "mission_id"),
        (SCOPE + b"&", "query"),
        (SCOPE + b"&=x", "query"),
        (b"&" + SCOPE, "query"),
    ],
)
def test_a_malformed_query_names_the_parameter(query: bytes, member: str) -> None:
    """Unknown, repeated, missing and badly encoded parameters are refused."""
    with pytest.raises(InvalidRequest) as refusal:
        codec("GetRecord").message_from_http(b"", query, {"record_id": "r"})
    assert refusal.value.member == member


@pytest.mark.parametrize(
    "text", [b"", b"01", b"%2B1", b"1.0", b"1e1", b"1_0", b"%D9%A1", b"0x1", b"one", b"1%20", b"9" * 5000]
)
def test_integers_are_plain_digits(text: bytes) -> None:
    """The strictness of JSON bodies holds in queries too."""
    with pytest.raises(InvalidRequest) as refusal:
        codec("ListCredentials").message_from_http(b"", b"contract_version=1&limit=" + text, {})
    assert refusal.value.member == "limit"


def test_a_version_out_of_range_is_unsupported() -> None:
    """As in bodies."""
    with pytest.raises(UnsupportedContractVersion):
        codec("ListCredentials").message_from_http(b"", b"contract_version=-1", {})


def test_a_route_with_a_body_has_no_parameters() -> None:
    """Any query on a POST route is refused, also one that names a member of the body."""
    with pytest.raises(InvalidRequest) as refusal:
        codec("IssueCredential").message_from_http(b"{}", b"contract_version=1", {})
    assert refusal.value.member == "contract_version"


def test_a_path_field_is_no_member_of_the_body() -> None:
    """The id in the path cannot be contradicted."""
    document = b'{"contract_version":1,"expected_revision":2,"credential_id":"other"}'
    with pytest.raises(InvalidRequest) as refusal:
        codec("RotateCredential").message_from_http(document, b"", {"credential_id": "this"})
    assert refusal.value.member == "credential_id"
    document = b'{"contract_version":1,"expected_revision":2}'
    request = codec("RotateCredential").message_from_http(document, b"", {"credential_id": "this"})
    assert request.credential_id == "this"  # type: ignore[attr-defined]


def test_pairs_are_split_at_the_first_equals_sign() -> None:
    """A value may hold one."""
    assert parse_query(b"a=b=c&d=%26%3d") == {"a": "b=c", "d": "&="}


def test_a_parameter_must_be_a_scalar() -> None:
    """Routes that cannot be bound are found at start."""
    descriptors = compile_proto(
        """
        service S { rpc Get(Request) returns (Request) { option (google.api.http) = {get: "/x"}; } }
        message Request { repeated string names = 1; }
        """
    )
    with pytest.raises(UnsupportedShape):
        compile_routes(descriptors, MessageShapes(descriptors))

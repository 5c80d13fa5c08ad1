"""What the protos declare, as the tests here look at it: routes, and everything that has a documented JSON form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, MethodDescriptor

from services.gateway.descriptors import Descriptors


@dataclass(frozen=True)
class DeclaredRoute:
    """One method with its HTTP facts."""

    rpc: str
    verb: str
    path: str
    whole_body: bool
    facts: Any
    method: MethodDescriptor


@cache
def declared() -> Descriptors:
    """The descriptor set of the checkout."""
    return Descriptors.load()


@cache
def routes() -> dict[str, DeclaredRoute]:
    """Every method with a route, by "Service.Method"."""
    found = {}
    for service in declared().services():
        for method in service.methods:
            rule = declared().http_rule(method)
            if rule is None:
                continue
            verb = rule.WhichOneof("pattern")
            name = f"{service.name}.{method.name}"
            found[name] = DeclaredRoute(
                name, verb.upper(), getattr(rule, verb), rule.body == "*", declared().route(method), method
            )
    return found


@cache
def request_messages() -> dict[str, Descriptor]:
    """Every message type that can stand in the body or query of a route, by full name."""
    return _closure([route.method.input_type for route in routes().values()])


@cache
def response_messages() -> dict[str, Descriptor]:
    """Every message type that can stand in the answer of a route, by full name."""
    return _closure([route.method.output_type for route in routes().values()])


@cache
def json_messages() -> dict[str, Descriptor]:
    """Every message type with a documented JSON form, by full name."""
    return request_messages() | response_messages()


@cache
def json_enums() -> dict[str, EnumDescriptor]:
    """Every enum that is written as a word, by full name."""
    enums = [field.enum_type for field in json_fields() if field.enum_type is not None]
    reasons = declared().pool.FindEnumTypeByName("waggle.common.v1.ErrorReason")
    return {enum.full_name: enum for enum in [*enums, reasons]}


def json_fields() -> Iterator[FieldDescriptor]:
    """Every field of every message type with a documented JSON form."""
    for message in json_messages().values():
        yield from message.fields


def members(message_name: str) -> list[str]:
    """The documented members of a message in "waggle.", discriminators included, sorted."""
    message = declared().pool.FindMessageTypeByName(f"waggle.{message_name}")
    names = []
    for field in message.fields:
        oneof = field.containing_oneof
        union = declared().union_json(oneof) if oneof is not None else None
        if union is None:
            names.append(declared().field_json(field).name or field.name)
        elif union.discriminator not in names:
            names.append(union.discriminator)
    return sorted(names)


def field(full_name: str) -> FieldDescriptor:
    """The field of that name below "waggle.", for example "common.v1.Scope.agent_id"."""
    return declared().pool.FindFieldByName(f"waggle.{full_name}")


def _closure(roots: list[Descriptor]) -> dict[str, Descriptor]:
    found: dict[str, Descriptor] = {}
    waiting = list(roots)
    while waiting:
        message = waiting.pop()
        if message.full_name not in found:
            found[message.full_name] = message
            waiting.extend(field.message_type for field in message.fields if field.message_type is not None)
    return found

"""Query strings and path values to request messages, for routes without a body."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote_to_bytes

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from services.domain.errors import InvalidRequest
from services.domain.strict_json import member_step
from services.gateway.json_decoder import Decode, DecoderCompiler, MemberFault
from services.gateway.message_shape import FieldKind, FieldShape, MessageShapes, UnsupportedShape

_PLAIN_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,19})\Z")
_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_BOOLEANS = {"true": True, "false": False}

_FromText = Callable[[str], Any]


class QueryBinder:
    """Makes a request message from the path values and the query string of a GET route.

    Parameters are the scalar fields that the path does not carry. The fields of a message field are parameters too, by
    their own names: the documented routes write a scope as project_id, agent_id and so on.
    """

    def __init__(
        self,
        message_class: Callable[..., Message],
        path_fields: Mapping[str, _FromText],
        parameters: Mapping[str, tuple[str, FieldShape, _FromText]],
        required: tuple[str, ...],
    ) -> None:
        self._message_class = message_class
        self._path_fields = path_fields
        self._parameters = parameters
        self._required = required

    def bind(self, query: bytes, path_values: Mapping[str, str]) -> Message:
        """Make the request.

        Args:
            query: The query string as it came, without the question mark.
            path_values: Field name -> decoded value of each path variable.

        Raises:
            InvalidRequest: Unknown, repeated, malformed or missing parameters; names the parameter.
        """
        fields: dict[str, Any] = bind_path(self._path_fields, path_values)
        texts = parse_query(query)
        for name, text in texts.items():
            parameter = self._parameters.get(name)
            if parameter is None:
                raise InvalidRequest("unknown parameter", member=member_step(name))
            parent, field, from_text = parameter
            holder = fields.setdefault(parent, {}) if parent else fields
            holder[field.field] = _convert(name, from_text, text)
        for name in self._required:
            if name not in texts:
                raise InvalidRequest("is required", member=name)
        return self._message_class(**fields)


def bind_path(path_fields: Mapping[str, _FromText], path_values: Mapping[str, str]) -> dict[str, Any]:
    """Convert path values to fields. Raises InvalidRequest naming the field."""
    return {name: _convert(name, path_fields[name], text) for name, text in path_values.items()}


def compile_path_fields(
    shapes: MessageShapes, decoders: DecoderCompiler, message: Descriptor, names: tuple[str, ...]
) -> dict[str, _FromText]:
    """Find the fields that a path template names.

    Raises:
        UnsupportedShape: The message has no such scalar field.
    """
    fields = message.fields_by_name
    converters: dict[str, _FromText] = {}
    for name in names:
        if name not in fields:
            raise UnsupportedShape(f"{message.full_name} has no field {name} for its path")
        converters[name] = _from_text(shapes.field(fields[name]), decoders)
    return converters


def compile_query(
    shapes: MessageShapes, decoders: DecoderCompiler, message: Descriptor, path_names: tuple[str, ...]
) -> QueryBinder:
    """Compile the binder of a route without a body.

    Raises:
        UnsupportedShape: A field that would have to be a parameter cannot be one.
    """
    parameters: dict[str, tuple[str, FieldShape, _FromText]] = {}
    required: list[str] = []
    for parent, field in query_fields(shapes, message, path_names):
        if field.member in parameters:
            raise UnsupportedShape(f"{message.full_name}: two parameters are called {field.member}")
        parameters[field.member] = (parent, field, _from_text(field, decoders))
        if field.required:
            required.append(field.member)
    return QueryBinder(
        shapes.descriptors.message_class(message),
        compile_path_fields(shapes, decoders, message, path_names),
        parameters,
        tuple(required),
    )


def query_fields(
    shapes: MessageShapes, message: Descriptor, path_names: tuple[str, ...]
) -> list[tuple[str, FieldShape]]:
    """List (name of the holding message field or "", field) of every parameter, in declaration order."""
    found: list[tuple[str, FieldShape]] = []
    for field in shapes.shape(message).members:
        if field.field in path_names:
            continue
        if field.message is None:
            found.append(("", field))
        else:
            found.extend((field.field, inner) for inner in shapes.shape(field.message).members)
    return found


def parse_query(query: bytes) -> dict[str, str]:
    """Split and decode a query string; "+" is a space.

    Raises:
        InvalidRequest: Broken escapes, bytes that are not UTF-8, a parameter without "=", or one given twice.
    """
    texts: dict[str, str] = {}
    if not query:
        return texts
    for pair in query.split(b"&"):
        raw_name, equals, raw_value = pair.partition(b"=")
        name = _decode_text(raw_name, "query")
        if not equals or not name:
            raise InvalidRequest("a parameter is written name=value", member=member_step(name) if name else "query")
        if name in texts:
            raise InvalidRequest("given more than once", member=member_step(name))
        texts[name] = _decode_text(raw_value, member_step(name))
    return texts


def _decode_text(raw: bytes, member: str) -> str:
    if _BAD_ESCAPE.search(raw):
        raise InvalidRequest("broken percent-encoding", member=member)
    try:
        return unquote_to_bytes(raw.replace(b"+", b" ")).decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidRequest("not UTF-8", member=member) from None


def _convert(name: str, from_text: _FromText, text: str) -> Any:
    try:
        return from_text(text)
    except MemberFault as fault:
        raise fault.inside(member_step(name)).error() from None


def _from_text(field: FieldShape, decoders: DecoderCompiler) -> _FromText:
    if field.repeated or field.kind not in _TEXT_KINDS:
        raise UnsupportedShape(f"{field.full_name}: cannot be a parameter of a query or a path")
    decode = decoders.scalar(field)
    to_json = _TEXT_KINDS[field.kind]

    def from_text(text: str) -> Any:
        return decode(to_json(text))

    return from_text


def _integer_from_text(text: str) -> int:
    if not _PLAIN_INTEGER.match(text):
        raise MemberFault("must be an integer in plain digits")
    return int(text)


def _boolean_from_text(text: str) -> bool:
    if text not in _BOOLEANS:
        raise MemberFault("must be true or false")
    return _BOOLEANS[text]


def _same(text: str) -> str:
    return text


_TEXT_KINDS: Mapping[FieldKind, Decode] = {
    FieldKind.INTEGER: _integer_from_text,
    FieldKind.BOOLEAN: _boolean_from_text,
    FieldKind.STRING: _same,
    FieldKind.ENUM: _same,
}

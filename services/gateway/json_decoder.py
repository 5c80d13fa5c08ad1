"""Documented JSON to protobuf, one decoder for each message type, compiled once from its shape.

A decoder judges what only JSON can show: unknown and missing members, null, types, words, the range of the field's own
type. The bounds in `waggle.json.v1.rules` are the receiving service's to check.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from services.domain.errors import InvalidRequest, UnsupportedContractVersion, WaggleError
from services.domain.strict_json import JsonValue, join_path, member_step, parse_json
from services.gateway.message_shape import FieldKind, FieldShape, MessageShape, MessageShapes, UnionShape
from services.runtime.status import ERROR_BY_REASON

FLOAT32_MAX = 3.4028234663852886e38
FLOAT64_MAX = 1.7976931348623157e308

Decode = Callable[[Any], Any]
"""JSON value -> what the message's constructor takes: a scalar, a list, or a dict for a message."""

# A misspelt name is like a known one; very long ones are not compared.
_LIKENESS_MIN = 0.75
_NAME_CHARACTERS_MAX = 64
_NUMBERS = frozenset((int, float))
_CONTRACT_VERSION_FIELD = "contract_version"


class MemberFault(Exception):
    """What is wrong with a value, the path to it from where the decoder started, and the documented code."""

    def __init__(self, message: str, path: str = "", *, reason: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.reason = reason

    def inside(self, step: str) -> MemberFault:
        """The same fault seen from one level further out."""
        self.path = join_path(step, self.path)
        return self

    def error(self) -> WaggleError:
        """The fault as the error that the caller is told."""
        return ERROR_BY_REASON.get(self.reason, InvalidRequest)(self.message, member=self.path or None)


class MessageDecoder:
    """Decodes a whole request body into one message type.

    Args:
        message_class: Makes the message from keywords.
        decode: The compiled decoder of its shape.
    """

    __slots__ = ("_decode", "_message_class")

    def __init__(self, message_class: Callable[..., Message], decode: Decode) -> None:
        self._message_class = message_class
        self._decode = decode

    def decode(self, body: bytes) -> Message:
        """Decode a JSON document.

        Raises:
            InvalidRequest: The body is not the documented JSON; names the path of the member at fault.
        """
        return self.decode_value(parse_json(body, wide_integers=True))

    def decode_value(self, value: JsonValue) -> Message:
        """Decode what `parse_json` returned. Raises InvalidRequest as `decode` does."""
        try:
            return self._message_class(**self._decode(value))
        except MemberFault as fault:
            raise fault.error() from None


class DecoderCompiler:
    """Compiles decoders; those of nested types are shared."""

    def __init__(self, shapes: MessageShapes) -> None:
        self._shapes = shapes
        self._objects: dict[str, _LateDecode] = {}

    def compile(self, message: Descriptor, *, without: frozenset[str] = frozenset()) -> MessageDecoder:
        """Compile the decoder of a request body.

        Args:
            message: The request type.
            without: Fields that the path carries; as members of the body they are unknown.

        Raises:
            UnsupportedShape: The type has no documented JSON form.
        """
        shape = self._shapes.shape(message)
        decode = self._from_shape(shape, without) if without else self._message(message)
        return MessageDecoder(self._shapes.descriptors.message_class(message), decode)

    def scalar(self, field: FieldShape) -> Decode:
        """The decoder of one value of a field that is not a message."""
        return self._one(field)

    def _message(self, message: Descriptor) -> Decode:
        known = self._objects.get(message.full_name)
        if known is None:
            known = self._objects[message.full_name] = _LateDecode()
            known.decode = self._from_shape(self._shapes.shape(message), frozenset())
        return known

    def _from_shape(self, shape: MessageShape, without: frozenset[str]) -> Decode:
        if shape.transparent is not None:
            return _transparent(shape.transparent.field, self._field(shape.transparent))
        if shape.external is not None:
            return self._external(shape.external)
        members = [member for member in shape.members if member.field not in without]
        plan = _ObjectPlan(
            members={member.member: self._member(member) for member in members},
            required=tuple(member.member for member in members if member.required),
            homes=self._homes(members),
        )
        if shape.tagged is None:
            return lambda value: _decode_object(plan, value)
        return self._tagged(plan, shape.tagged)

    def _homes(self, members: list[FieldShape]) -> dict[str, str]:
        """Which member has a member of this name: where something that stands a level too high belongs."""
        homes: dict[str, str] = {}
        for member in members:
            if member.message is not None and not member.repeated:
                for inner in self._shapes.shape(member.message).members:
                    homes.setdefault(inner.member, member.member)
        return homes

    def _member(self, field: FieldShape) -> _MemberPlan:
        # A raw member takes null as the value it is, unless null means "unset" there.
        refuses_null = not field.nullable and field.kind is not FieldKind.RAW
        return _MemberPlan(field.field, self._field(field), field.nullable, refuses_null)

    def _field(self, field: FieldShape) -> Decode:
        if not field.repeated:
            return self._one(field)
        if field.kind is FieldKind.DOUBLE:
            return _number_list(FLOAT64_MAX)
        if field.kind is FieldKind.FLOAT32:
            return _number_list(FLOAT32_MAX)
        return _list_of(self._one(field))

    def _one(self, field: FieldShape) -> Decode:
        if field.message is not None:
            return self._message(field.message)
        if field.enum is not None:
            return _enum(self._shapes.words(field.enum))
        if field.kind is FieldKind.INTEGER:
            return _integer(*field.integer_bounds, _range_reason(field))
        return _SCALAR_DECODERS[field.kind]

    def _tagged(self, plan: _ObjectPlan, union: UnionShape) -> Decode:
        variants = {
            variant.member: (variant.field, self._message(variant.message))
            for variant in union.variants
            if variant.message is not None
        }
        discriminator = union.discriminator
        words = ", ".join(variants)

        def decode(value: Any) -> Any:
            if type(value) is not dict:
                raise MemberFault("must be an object")
            tag = value.get(discriminator)
            variant = variants.get(tag) if type(tag) is str else None
            if variant is None:
                what = "is required" if discriminator not in value else f"must be one of {words}"
                raise MemberFault(what, member_step(discriminator))
            own: dict[str, Any] = {}
            flattened: dict[str, Any] = {}
            for name, item in value.items():
                if name != discriminator:
                    (own if name in plan.members else flattened)[name] = item
            # The variant goes first: it is the one that knows which names are unknown.
            field, decode_variant = variant
            inner = decode_variant(flattened)
            fields = _decode_object(plan, own)
            fields[field] = inner
            return fields

        return decode

    def _external(self, union: UnionShape) -> Decode:
        by_word: dict[str, dict[str, int]] = {}
        by_member: dict[str, tuple[str, Decode]] = {}
        for variant in union.variants:
            if variant.enum is not None:
                words = self._shapes.words(variant.enum)
                by_word.update({word: {variant.field: number} for word, number in words.items()})
            else:
                by_member[variant.member] = (variant.field, self._one(variant))
        choices = ", ".join([*by_word, *(f'{{"{name}": ...}}' for name in by_member)])

        def decode(value: Any) -> Any:
            if type(value) is str and value in by_word:
                return by_word[value]
            if type(value) is dict and len(value) == 1:
                ((name, inner),) = value.items()
                known = by_member.get(name)
                if known is None:
                    raise MemberFault("unknown member", member_step(name))
                field, decode_inner = known
                try:
                    return {field: decode_inner(inner)}
                except MemberFault as fault:
                    raise fault.inside(member_step(name)) from None
            raise MemberFault(f"must be one of {choices}")

        return decode


class _LateDecode:
    """Stands for a decoder that is still being compiled, so that a type can hold itself."""

    __slots__ = ("decode",)

    decode: Decode

    def __call__(self, value: Any) -> Any:
        return self.decode(value)


@dataclass(frozen=True, slots=True)
class _MemberPlan:
    field: str
    decode: Decode
    null_is_unset: bool
    refuses_null: bool


@dataclass(frozen=True, slots=True)
class _ObjectPlan:
    members: Mapping[str, _MemberPlan]
    required: tuple[str, ...]
    homes: Mapping[str, str]


def _way_out(plan: _ObjectPlan, name: str) -> str:
    if home := plan.homes.get(name):
        return f"; it belongs in {home}"
    close = difflib.get_close_matches(name[:_NAME_CHARACTERS_MAX], plan.members, n=1, cutoff=_LIKENESS_MIN)
    return f"; did you mean {close[0]}?" if close else ""


def _decode_object(plan: _ObjectPlan, value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise MemberFault("must be an object")
    members = plan.members
    fields: dict[str, Any] = {}
    for name, item in value.items():
        member = members.get(name)
        if member is None:
            raise MemberFault(f"unknown member{_way_out(plan, name)}", member_step(name))
        if item is None:
            if member.null_is_unset:
                continue
            if member.refuses_null:
                raise MemberFault("must not be null", member_step(name))
        try:
            fields[member.field] = member.decode(item)
        except MemberFault as fault:
            raise fault.inside(member_step(name)) from None
    for name in plan.required:
        if name not in value:
            raise MemberFault("is required", member_step(name))
    return fields


def _transparent(field: str, decode_field: Decode) -> Decode:
    def decode(value: Any) -> Any:
        return {field: decode_field(value)}

    return decode


def _list_of(decode_item: Decode) -> Decode:
    def decode(value: Any) -> Any:
        if type(value) is not list:
            raise MemberFault("must be an array")
        items = []
        try:
            for item in value:
                items.append(decode_item(item))
        except MemberFault as fault:
            raise fault.inside(f"[{len(items)}]") from None
        return items

    return decode


def _number_list(greatest: float) -> Decode:
    decode_each = _list_of(_number(greatest))

    def decode(value: Any) -> Any:
        # Vectors have up to 32,768 elements, so the usual case stays out of Python's loop.
        is_usual = type(value) is list and value and set(map(type, value)) <= _NUMBERS
        if is_usual and -greatest <= min(value) and max(value) <= greatest:
            return value
        return decode_each(value)

    return decode


def _number(greatest: float) -> Decode:
    def decode(value: Any) -> Any:
        if type(value) not in _NUMBERS:
            raise MemberFault("must be a number")
        if not -greatest <= value <= greatest:
            raise MemberFault("number out of range")
        return value

    return decode


def _range_reason(field: FieldShape) -> str:
    """The documented code for a value that not even the field's type holds: the one that its bounds would give."""
    is_version = field.field == _CONTRACT_VERSION_FIELD
    return UnsupportedContractVersion.reason if is_version else str(field.rules.reason)


def _integer(least: int, greatest: int, range_reason: str) -> Decode:
    def decode(value: Any) -> Any:
        if type(value) is not int:
            raise MemberFault("must be an integer in plain digits")
        if not least <= value <= greatest:
            raise MemberFault(f"must be between {least} and {greatest}", reason=range_reason)
        return value

    return decode


def _enum(words: Mapping[str, int]) -> Decode:
    listed = ", ".join(words)

    def decode(value: Any) -> Any:
        number = words.get(value) if type(value) is str else None
        if number is None:
            raise MemberFault(f"must be one of {listed}")
        return number

    return decode


def _boolean(value: Any) -> Any:
    if type(value) is not bool:
        raise MemberFault("must be true or false")
    return value


def _string(value: Any) -> Any:
    if type(value) is not str:
        raise MemberFault("must be a string")
    return value


def _raw(value: Any) -> Any:
    try:
        return orjson.dumps(value).decode("utf-8")
    except TypeError:
        raise MemberFault("holds an integer out of the 64-bit range") from None


def _raw_object(value: Any) -> Any:
    if type(value) is not dict:
        raise MemberFault("must be an object")
    return _raw(value)


_SCALAR_DECODERS: Mapping[FieldKind, Decode] = {
    FieldKind.BOOLEAN: _boolean,
    FieldKind.STRING: _string,
    FieldKind.RAW: _raw,
    FieldKind.RAW_OBJECT: _raw_object,
    FieldKind.DOUBLE: _number(FLOAT64_MAX),
    FieldKind.FLOAT32: _number(FLOAT32_MAX),
}

"""How each message type looks in documented JSON: the one reading of descriptors and options.

Decoder, encoder, query binding and openapi.json are all made from these shapes, so that they cannot differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, OneofDescriptor

from services.gateway.descriptors import Descriptors

_STYLE_TAGGED = 1
_STYLE_EXTERNAL = 2


class UnsupportedShape(Exception):
    """The descriptor set declares something that has no documented JSON form. A fault of the protos, found at start."""


class FieldKind(Enum):
    """What stands in JSON for one value of a field."""

    INTEGER = "integer"
    DOUBLE = "double"
    FLOAT32 = "float32"
    BOOLEAN = "boolean"
    STRING = "string"
    RAW = "raw"
    RAW_OBJECT = "raw_object"
    ENUM = "enum"
    MESSAGE = "message"


_KIND_BY_TYPE = {
    FieldDescriptor.TYPE_INT32: FieldKind.INTEGER,
    FieldDescriptor.TYPE_SINT32: FieldKind.INTEGER,
    FieldDescriptor.TYPE_SFIXED32: FieldKind.INTEGER,
    FieldDescriptor.TYPE_UINT32: FieldKind.INTEGER,
    FieldDescriptor.TYPE_FIXED32: FieldKind.INTEGER,
    FieldDescriptor.TYPE_INT64: FieldKind.INTEGER,
    FieldDescriptor.TYPE_SINT64: FieldKind.INTEGER,
    FieldDescriptor.TYPE_SFIXED64: FieldKind.INTEGER,
    FieldDescriptor.TYPE_UINT64: FieldKind.INTEGER,
    FieldDescriptor.TYPE_FIXED64: FieldKind.INTEGER,
    FieldDescriptor.TYPE_DOUBLE: FieldKind.DOUBLE,
    FieldDescriptor.TYPE_FLOAT: FieldKind.FLOAT32,
    FieldDescriptor.TYPE_BOOL: FieldKind.BOOLEAN,
    FieldDescriptor.TYPE_STRING: FieldKind.STRING,
    FieldDescriptor.TYPE_ENUM: FieldKind.ENUM,
    FieldDescriptor.TYPE_MESSAGE: FieldKind.MESSAGE,
}

_INTEGER_BOUNDS = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}


@dataclass(frozen=True, slots=True)
class FieldShape:
    """One member of a JSON object.

    Attributes:
        member: Name in JSON.
        field: Name in the message.
        integer_bounds: Least and greatest value that the field's type holds; only for integers.
        rules: The `waggle.json.v1.FieldRules` of the field, checked by the service, shown in openapi.json.
    """

    member: str
    field: str
    kind: FieldKind
    repeated: bool
    has_presence: bool
    required: bool
    nullable: bool
    omit_unset: bool
    omit_empty: bool
    full_name: str
    rules: Any
    integer_bounds: tuple[int, int] = (0, 0)
    enum: EnumDescriptor | None = None
    message: Descriptor | None = None


@dataclass(frozen=True, slots=True)
class UnionShape:
    """A oneof with a JSON form of its own; `discriminator` is empty for the external style."""

    oneof: str
    discriminator: str
    variants: tuple[FieldShape, ...]


@dataclass(frozen=True, slots=True)
class MessageShape:
    """One message type.

    Exactly one of three holds: `transparent` is the only field, written as its value; `external` is the union that
    replaces the object; or the message is an object of `members`, with the variants of `tagged` flattened into it.
    """

    full_name: str
    members: tuple[FieldShape, ...] = ()
    tagged: UnionShape | None = None
    external: UnionShape | None = None
    transparent: FieldShape | None = None


class MessageShapes:
    """The shapes of a descriptor set, each worked out once."""

    def __init__(self, descriptors: Descriptors) -> None:
        self.descriptors = descriptors
        self._shapes: dict[str, MessageShape] = {}

    def shape(self, message: Descriptor) -> MessageShape:
        """Return the shape of a message type.

        Raises:
            UnsupportedShape: It uses what documented JSON has no form for.
        """
        known = self._shapes.get(message.full_name)
        if known is None:
            known = self._shapes[message.full_name] = self._read(message)
        return known

    def words(self, enum: EnumDescriptor) -> dict[str, int]:
        """Word -> number of an enum, in declaration order."""
        return self.descriptors.words(enum)

    def _read(self, message: Descriptor) -> MessageShape:
        unions = [(oneof, options) for oneof in message.oneofs if (options := self.descriptors.union_json(oneof))]
        in_unions = {field.name for oneof, _ in unions for field in oneof.fields}
        members = tuple(
            self.field(field)
            for field in message.fields
            if field.name not in in_unions and not self.descriptors.field_json(field).hidden
        )
        if self.descriptors.message_json(message).transparent:
            if unions or len(members) != 1:
                raise UnsupportedShape(f"{message.full_name}: a transparent message has exactly one field")
            return MessageShape(message.full_name, transparent=members[0])
        if not unions:
            return MessageShape(message.full_name, members)
        if len(unions) > 1:
            raise UnsupportedShape(f"{message.full_name}: more than one union")
        oneof, options = unions[0]
        if options.style == _STYLE_EXTERNAL:
            if members:
                raise UnsupportedShape(f"{message.full_name}: an external union stands alone in its message")
            return MessageShape(message.full_name, external=self._union(oneof, ""))
        if options.style != _STYLE_TAGGED or not options.discriminator:
            raise UnsupportedShape(f"{oneof.full_name}: a union needs a style and, when tagged, a discriminator")
        tagged = self._union(oneof, options.discriminator)
        self._check_tagged(message, members, tagged)
        return MessageShape(message.full_name, members, tagged=tagged)

    def _union(self, oneof: OneofDescriptor, discriminator: str) -> UnionShape:
        return UnionShape(oneof.name, discriminator, tuple(self.field(field) for field in oneof.fields))

    def _check_tagged(self, message: Descriptor, members: tuple[FieldShape, ...], tagged: UnionShape) -> None:
        own = {member.member for member in members} | {tagged.discriminator}
        for variant in tagged.variants:
            if variant.message is None:
                raise UnsupportedShape(f"{variant.full_name}: only a message can be flattened")
            inner = self.shape(variant.message)
            if inner.transparent or inner.external or inner.tagged:
                raise UnsupportedShape(f"{variant.full_name}: a flattened message is a plain object")
            clash = own & {member.member for member in inner.members}
            if clash or len(own) != len(members) + 1:
                raise UnsupportedShape(f"{message.full_name}: {variant.field} repeats a member of the object")

    def field(self, field: FieldDescriptor) -> FieldShape:
        """Return the shape of one field.

        Raises:
            UnsupportedShape: Bytes and maps have no documented form, nor have some uses of the options.
        """
        options = self.descriptors.field_json(field)
        kind = _KIND_BY_TYPE.get(field.type)
        if options.raw:
            if kind is not FieldKind.STRING:
                raise UnsupportedShape(f"{field.full_name}: only a string field can hold raw JSON")
            kind = FieldKind.RAW_OBJECT if options.raw_object else FieldKind.RAW
        message = field.message_type if kind is FieldKind.MESSAGE else None
        if kind is None or (message is not None and message.GetOptions().map_entry):
            raise UnsupportedShape(f"{field.full_name}: this field type has no JSON form")
        is_raw = kind in (FieldKind.RAW, FieldKind.RAW_OBJECT)
        if options.raw_object and not is_raw:
            raise UnsupportedShape(f"{field.full_name}: raw_object goes with raw")
        if options.omit_unset and not (field.has_presence or is_raw):
            raise UnsupportedShape(f"{field.full_name}: omit_unset needs a field with presence")
        if options.nullable and not (field.has_presence or field.is_repeated or is_raw):
            raise UnsupportedShape(f"{field.full_name}: nullable needs a field that can be unset")
        return FieldShape(
            member=options.name or field.name,
            field=field.name,
            kind=kind,
            repeated=field.is_repeated,
            has_presence=field.has_presence,
            required=options.required,
            nullable=options.nullable,
            omit_unset=options.omit_unset,
            omit_empty=options.omit_empty,
            full_name=field.full_name,
            rules=self.descriptors.field_rules(field),
            integer_bounds=_INTEGER_BOUNDS.get(field.cpp_type, (0, 0)),
            enum=field.enum_type if kind is FieldKind.ENUM else None,
            message=message,
        )

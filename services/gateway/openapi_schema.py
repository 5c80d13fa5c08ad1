"""JSON Schemas (2020-12) of message types, as requests and as answers.

Both are closed. They differ in what must be present: a request needs what the contract requires, an answer always has
every member that is not declared as left out.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor

from services.gateway.json_decoder import FLOAT32_MAX
from services.gateway.message_shape import (
    FieldKind,
    FieldShape,
    MessageShape,
    MessageShapes,
    UnionShape,
    UnsupportedShape,
)

_UUID_PATTERN = "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"

Schema = dict[str, Any]


class SchemaWriter:
    """Writes schemas; those of message types are collected and referred to.

    Answers must be written before requests: a request type gets a second name only where answers use the type too.

    Attributes:
        schemas: Name -> schema, for `components/schemas`.
    """

    def __init__(self, shapes: MessageShapes) -> None:
        self._shapes = shapes
        self._descriptors = shapes.descriptors
        self.schemas: dict[str, Schema] = {}
        self._owners: dict[str, str] = {}
        self._answered: set[str] = set()
        self._differing: dict[str, bool] = {}

    def reference(self, message: Descriptor, *, for_request: bool) -> Schema:
        """A reference to the schema of a message type, which is written on first use.

        Raises:
            UnsupportedShape: Two types would share a schema name.
        """
        name = self._name(message, for_request=for_request)
        owner = self._owners.setdefault(name, message.full_name)
        if owner != message.full_name:
            raise UnsupportedShape(f"{owner} and {message.full_name} would share the schema name {name}")
        if name not in self.schemas:
            self.schemas[name] = {}
            self.schemas[name].update(self._message(message, for_request=for_request))
        return {"$ref": f"#/components/schemas/{name}"}

    def object(self, shape: MessageShape, *, for_request: bool) -> Schema:
        """The schema of a plain or tagged object."""
        members, required = self._members(shape.members, for_request=for_request)
        if shape.tagged is None:
            return _closed(members, required)
        return self._tagged(shape.tagged, members, required, for_request=for_request)

    def value(self, field: FieldShape, *, for_request: bool) -> Schema:
        """The schema of one member, null included where it may be null, with its comment as description."""
        schema = (
            self._array(field, for_request=for_request) if field.repeated else self._one(field, for_request=for_request)
        )
        if self._may_be_null(field, for_request=for_request):
            schema = {"anyOf": [schema, {"type": "null"}]}
        comment = self._descriptors.comment(field.full_name)
        if comment:
            schema = {"allOf": [schema]} if "$ref" in schema else schema
            schema = {**schema, "description": comment}
        return schema

    def _name(self, message: Descriptor, *, for_request: bool) -> str:
        """A type that looks the same both ways, or goes one way only, has one schema with its name; others have two."""
        name = message.name
        if for_request and message.full_name not in self._answered:
            return name
        self._answered.add(message.full_name)
        if not self._differs(message):
            return name
        if for_request:
            return name if name.endswith(("Input", "Request")) else name + "Input"
        return name.removesuffix("Input") + "Output" if name.endswith("Input") else name

    def _differs(self, message: Descriptor) -> bool:
        known = self._differing.get(message.full_name)
        if known is None:
            self._differing[message.full_name] = False  # while a type that holds itself is looked at
            known = self._differing[message.full_name] = self._shape_differs(self._shapes.shape(message))
        return known

    def _shape_differs(self, shape: MessageShape) -> bool:
        if any(map(self._presence_differs, shape.members)):
            return True
        unions = [union for union in (shape.tagged, shape.external) if union is not None]
        single = [] if shape.transparent is None else [shape.transparent]
        held = [*shape.members, *single, *(variant for union in unions for variant in union.variants)]
        return any(field.message is not None and self._differs(field.message) for field in held)

    def _presence_differs(self, field: FieldShape) -> bool:
        return self._is_required(field, for_request=True) != self._is_required(
            field, for_request=False
        ) or self._may_be_null(field, for_request=True) != self._may_be_null(field, for_request=False)

    def _message(self, message: Descriptor, *, for_request: bool) -> Schema:
        shape = self._shapes.shape(message)
        comment = self._descriptors.comment(message.full_name)
        if shape.transparent is not None:
            schema = self.value(shape.transparent, for_request=for_request)
        elif shape.external is not None:
            schema = self._external(shape.external, for_request=for_request)
        else:
            schema = self.object(shape, for_request=for_request)
        return {"description": comment, **schema} if comment else schema

    def _members(self, fields: tuple[FieldShape, ...], *, for_request: bool) -> tuple[dict[str, Schema], list[str]]:
        members = {field.member: self.value(field, for_request=for_request) for field in fields}
        required = [field.member for field in fields if self._is_required(field, for_request=for_request)]
        return members, required

    @staticmethod
    def _is_required(field: FieldShape, *, for_request: bool) -> bool:
        return field.required if for_request else not (field.omit_unset or field.omit_empty)

    @staticmethod
    def _may_be_null(field: FieldShape, *, for_request: bool) -> bool:
        if for_request or field.repeated:
            return field.nullable and for_request
        return field.nullable and not field.omit_unset

    def _array(self, field: FieldShape, *, for_request: bool) -> Schema:
        rules = field.rules
        schema: Schema = {"type": "array", "items": self._one(field, for_request=for_request)}
        _put(schema, "minItems", rules, "min_items")
        _put(schema, "maxItems", rules, "max_items")
        if rules.unique and not rules.unique_by:
            schema["uniqueItems"] = True
        return schema

    def _one(self, field: FieldShape, *, for_request: bool) -> Schema:
        if field.message is not None:
            return self.reference(field.message, for_request=for_request)
        if field.enum is not None:
            return self._enum(field.enum, field)
        return _scalar(field)

    def _enum(self, enum: EnumDescriptor, field: FieldShape) -> Schema:
        words = self._shapes.words(enum)
        if field.rules.HasField("const_int"):
            (only,) = (word for word, number in words.items() if number == field.rules.const_int)
            return {"type": "string", "const": only}
        return {"type": "string", "enum": list(words)}

    def _tagged(
        self, union: UnionShape, members: dict[str, Schema], required: list[str], *, for_request: bool
    ) -> Schema:
        choices = []
        for variant in union.variants:
            if variant.message is None:
                continue
            inner, inner_required = self._members(self._shapes.shape(variant.message).members, for_request=for_request)
            tag = {union.discriminator: {"type": "string", "const": variant.member}}
            choice = _closed({**tag, **members, **inner}, [union.discriminator, *required, *inner_required])
            comment = self._descriptors.comment(variant.full_name)
            choices.append({**choice, "description": comment} if comment else choice)
        return {"oneOf": choices}

    def _external(self, union: UnionShape, *, for_request: bool) -> Schema:
        choices: list[Schema] = []
        for variant in union.variants:
            schema = self._one(variant, for_request=for_request)
            choices.append(schema if variant.enum is not None else _closed({variant.member: schema}, [variant.member]))
        return {"oneOf": choices}


def _closed(members: dict[str, Schema], required: list[str]) -> Schema:
    schema: Schema = {"type": "object", "additionalProperties": False, "properties": members}
    if required:
        schema["required"] = required
    return schema


def _put(schema: Schema, keyword: str, rules: Any, rule: str) -> None:
    if rules.HasField(rule):
        schema[keyword] = getattr(rules, rule)


def _scalar(field: FieldShape) -> Schema:
    rules = field.rules
    if field.kind is FieldKind.BOOLEAN:
        return {"type": "boolean"}
    if field.kind is FieldKind.RAW:
        return {}
    if field.kind is FieldKind.RAW_OBJECT:
        return {"type": "object"}
    if field.kind is FieldKind.INTEGER:
        return _integer(field)
    if field.kind in (FieldKind.DOUBLE, FieldKind.FLOAT32):
        schema: Schema = {"type": "number"}
        if field.kind is FieldKind.FLOAT32:
            schema.update(minimum=-FLOAT32_MAX, maximum=FLOAT32_MAX)
        _put(schema, "minimum", rules, "min_number")
        _put(schema, "maximum", rules, "max_number")
        return schema
    return _string(field)


def _integer(field: FieldShape) -> Schema:
    rules = field.rules
    least, greatest = field.integer_bounds
    schema: Schema = {"type": "integer"}
    if rules.HasField("const_int"):
        return {**schema, "const": rules.const_int}
    schema["minimum"] = rules.min_int if rules.HasField("min_int") else least
    schema["maximum"] = rules.max_int if rules.HasField("max_int") else greatest
    return schema


def _string(field: FieldShape) -> Schema:
    rules = field.rules
    schema: Schema = {"type": "string"}
    if rules.uuid:
        return {**schema, "format": "uuid", "pattern": _UUID_PATTERN}
    if rules.HasField("hex_digits"):
        return {**schema, "pattern": f"^[0-9a-f]{{{rules.hex_digits}}}$"}
    # The bounds are UTF-8 bytes. As characters the upper one is exact for ASCII and never too small.
    if rules.min_bytes:
        schema["minLength"] = 1
    _put(schema, "maxLength", rules, "max_bytes")
    if rules.HasField("max_bytes"):
        schema["x-max-utf8-bytes"] = rules.max_bytes
    if rules.no_control:
        schema["pattern"] = r"^[^\u0000-\u001f\u007f-\u009f]*$"
    return schema

"""Protobuf to documented JSON, one encoder for each message type, compiled once from its shape.

The fields of a message are read in one C call and only those that need it are touched again, which is what keeps an
answer of many records cheap.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from operator import attrgetter
from typing import Any, Final

import numpy as np
import orjson
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from services.gateway.message_shape import FieldKind, FieldShape, MessageShape, MessageShapes, UnionShape

Encode = Callable[[Any], Any]
"""A field's value -> what orjson writes."""

_Step = Callable[[Any, list[Any]], None]

_LEFT_OUT: Final = object()


class EncodingFault(Exception):
    """A service answered with a message that has no documented form. Never the caller's fault."""


class MessageEncoder:
    """Encodes one message type into a JSON document."""

    __slots__ = ("_encode",)

    def __init__(self, encode: Encode) -> None:
        self._encode = encode

    def encode(self, message: Message) -> bytes:
        """Encode a message as UTF-8 JSON without white space.

        Raises:
            EncodingFault: An enum without a word, an unset union, or a number that is not finite.
        """
        return orjson.dumps(self._encode(message), option=orjson.OPT_SERIALIZE_NUMPY)


class EncoderCompiler:
    """Compiles encoders; those of nested types are shared."""

    def __init__(self, shapes: MessageShapes) -> None:
        self._shapes = shapes
        self._messages: dict[str, _LateEncode] = {}

    def compile(self, message: Descriptor) -> MessageEncoder:
        """Compile the encoder of a response type.

        Raises:
            UnsupportedShape: The type has no documented JSON form.
        """
        return MessageEncoder(self._message(message))

    def _message(self, message: Descriptor) -> Encode:
        known = self._messages.get(message.full_name)
        if known is None:
            known = self._messages[message.full_name] = _LateEncode()
            known.encode = self._from_shape(self._shapes.shape(message))
        # A finished encoder is used as it is; only a type that holds itself meets the placeholder.
        return getattr(known, "encode", known)

    def _from_shape(self, shape: MessageShape) -> Encode:
        if shape.transparent is not None:
            return self._single(shape.transparent)
        if shape.external is not None:
            return self._external(shape.external)
        encode_members = self._object(shape)
        if shape.tagged is None:
            return encode_members
        return self._tagged(encode_members, shape.tagged)

    def _object(self, shape: MessageShape) -> Encode:
        if not shape.members:
            return lambda _message: {}
        names = tuple(member.member for member in shape.members)
        read = attrgetter(*(member.field for member in shape.members))
        is_single = len(names) == 1
        steps = tuple(step for at, member in enumerate(shape.members) if (step := self._step(at, member)) is not None)
        may_leave_out = any(member.omit_unset or member.omit_empty for member in shape.members)

        def encode(message: Any) -> Any:
            values = [read(message)] if is_single else list(read(message))
            for step in steps:
                step(message, values)
            members = dict(zip(names, values, strict=True))
            if may_leave_out and any(value is _LEFT_OUT for value in values):
                return {name: value for name, value in members.items() if value is not _LEFT_OUT}
            return members

        return encode

    def _step(self, at: int, field: FieldShape) -> _Step | None:
        """What is left to do for the field after its value has been read into place `at`; None when nothing is."""
        if field.repeated:
            return _repeated_step(at, self._elements(field), _LEFT_OUT if field.omit_empty else [])
        unset: object = orjson.Fragment(b"{}") if field.kind is FieldKind.RAW_OBJECT else None
        if field.omit_unset:
            unset = _LEFT_OUT
        encode = self._one(field)
        if field.has_presence:
            return _presence_step(at, field.field, encode, unset)
        if field.kind in (FieldKind.RAW, FieldKind.RAW_OBJECT):
            return _raw_step(at, unset)
        if encode is None:
            return None
        return _value_step(at, encode)

    def _single(self, field: FieldShape) -> Encode:
        step = self._step(0, field)
        read = attrgetter(field.field)

        def encode(message: Any) -> Any:
            values = [read(message)]
            if step is not None:
                step(message, values)
            return values[0]

        return encode

    def _elements(self, field: FieldShape) -> Encode:
        if field.kind is FieldKind.FLOAT32:
            return _float32_list
        if field.kind is FieldKind.DOUBLE:
            return _double_list
        encode = self._one(field)
        if encode is None:
            return list

        def encode_items(items: Any) -> Any:
            return [encode(item) for item in items]

        return encode_items

    def _one(self, field: FieldShape) -> Encode | None:
        """The encoder of one value; None when the value stands as it is."""
        if field.message is not None:
            return self._message(field.message)
        if field.enum is not None:
            return _enum(field.full_name, {number: word for word, number in self._shapes.words(field.enum).items()})
        if field.kind in (FieldKind.RAW, FieldKind.RAW_OBJECT):
            return orjson.Fragment
        if field.kind is FieldKind.DOUBLE:
            return _double
        if field.kind is FieldKind.FLOAT32:
            return _float32
        return None

    def _tagged(self, encode_members: Encode, union: UnionShape) -> Encode:
        variants = {
            variant.field: (variant.member, self._message(variant.message))
            for variant in union.variants
            if variant.message is not None
        }
        oneof, discriminator = union.oneof, union.discriminator

        def encode(message: Any) -> Any:
            chosen = message.WhichOneof(oneof)
            if chosen is None:
                raise EncodingFault(f"union {oneof} is unset")
            tag, encode_variant = variants[chosen]
            return {discriminator: tag, **encode_members(message), **encode_variant(getattr(message, chosen))}

        return encode

    def _external(self, union: UnionShape) -> Encode:
        variants: dict[str, tuple[str | None, Encode | None]] = {
            variant.field: (None if variant.enum is not None else variant.member, self._one(variant))
            for variant in union.variants
        }
        oneof = union.oneof

        def encode(message: Any) -> Any:
            chosen = message.WhichOneof(oneof)
            if chosen is None:
                raise EncodingFault(f"union {oneof} is unset")
            name, encode_value = variants[chosen]
            value = getattr(message, chosen)
            if encode_value is not None:
                value = encode_value(value)
            return value if name is None else {name: value}

        return encode


class _LateEncode:
    """Stands for an encoder that is still being compiled, so that a type can hold itself."""

    __slots__ = ("encode",)

    encode: Encode

    def __call__(self, value: Any) -> Any:
        return self.encode(value)


def _repeated_step(at: int, encode_items: Encode, empty: object) -> _Step:
    def step(_message: Any, values: list[Any]) -> None:
        items = values[at]
        values[at] = encode_items(items) if items else empty

    return step


def _presence_step(at: int, field: str, encode: Encode | None, unset: object) -> _Step:
    def step(message: Any, values: list[Any]) -> None:
        if not message.HasField(field):
            values[at] = unset
        elif encode is not None:
            values[at] = encode(values[at])

    return step


def _raw_step(at: int, unset: object) -> _Step:
    def step(_message: Any, values: list[Any]) -> None:
        text = values[at]
        values[at] = orjson.Fragment(text) if text else unset

    return step


def _value_step(at: int, encode: Encode) -> _Step:
    def step(_message: Any, values: list[Any]) -> None:
        values[at] = encode(values[at])

    return step


def _enum(full_name: str, words: dict[int, str]) -> Encode:
    def encode(number: Any) -> Any:
        word = words.get(number)
        if word is None:
            raise EncodingFault(f"{full_name} holds a value without a word")
        return word

    return encode


def _double(value: Any) -> Any:
    # orjson would write NaN and the infinities as null, which no documented number is.
    if not isfinite(value):
        raise EncodingFault("a number is not finite")
    return value


def _double_list(values: Any) -> Any:
    items = list(values)
    if not all(map(isfinite, items)):
        raise EncodingFault("a number is not finite")
    return items


def _float32(value: Any) -> Any:
    # numpy's scalar is written with the fewest digits that give the same float32 back: 0.1, not 0.10000000149011612.
    return np.float32(_double(value))


def _float32_list(values: Any) -> Any:
    return np.array(_double_list(values), dtype=np.float32)

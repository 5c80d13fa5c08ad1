"""Protobuf to documented JSON, one encoder for each message type, compiled once from its shape.

An encoder is a Python function whose source is written from the shape, one expression a member, in the manner of
namedtuple: an answer of many records reads about a thousand fields, and a loop over closures took twice as long.
The source holds only field names of the descriptor set and quoted constants, never data.
"""

from __future__ import annotations

from collections.abc import Callable
from keyword import iskeyword
from math import isfinite
from typing import Any

import numpy as np
import orjson
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from services.gateway.message_shape import FieldKind, FieldShape, MessageShape, MessageShapes, UnionShape

Encode = Callable[[Any], Any]
"""A message -> what orjson writes."""


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
        self._names: dict[str, str] = {}
        # What the sources of all encoders may name; an encoder finds the others here when it runs, so that a type can
        # hold itself.
        self._namespace: dict[str, Any] = {
            "fragment": orjson.Fragment,
            "double": _double,
            "doubles": _doubles,
            "float32": _float32,
            "float32s": _float32s,
            "unset_union": _unset_union,
        }

    def compile(self, message: Descriptor) -> MessageEncoder:
        """Compile the encoder of a response type.

        Raises:
            UnsupportedShape: The type has no documented JSON form.
        """
        encode: Encode = self._namespace[self._message(message)]
        return MessageEncoder(encode)

    def _message(self, message: Descriptor) -> str:
        """Name of the encoder of a message type, compiled if it is not there yet."""
        name = self._names.get(message.full_name)
        if name is None:
            name = self._names[message.full_name] = f"encode_{len(self._names)}_{message.name}"
            lines = self._source(self._shapes.shape(message))
            source = f"def {name}(m):\n" + "".join(f"    {line}\n" for line in lines)
            code = compile(source, f"<json encoder of {message.full_name}>", "exec")
            exec(code, self._namespace)  # noqa: S102 - the source is made of the descriptor set alone
        return name

    def _source(self, shape: MessageShape) -> list[str]:
        if shape.transparent is not None:
            return [f"return {self._member_value(shape.transparent)}"]
        if shape.external is not None:
            return self._external(shape.external)
        members = ", ".join(self._member(member) for member in shape.members)
        if shape.tagged is None:
            return [f"return {{{members}}}"]
        return self._tagged(members, shape.tagged)

    def _member(self, field: FieldShape) -> str:
        """The member as an item of a dict display; one that may be left out unpacks a dict of one item or none."""
        if field.repeated and field.omit_empty:
            return f"**({{{field.member!r}: {self._values(field)}}} if {_read(field)} else {{}})"
        if field.omit_unset:
            return f"**({{{field.member!r}: {self._value(field)}}} if {self._is_set(field)} else {{}})"
        return f"{field.member!r}: {self._member_value(field)}"

    def _member_value(self, field: FieldShape) -> str:
        if field.repeated:
            return self._values(field)
        if field.has_presence or field.kind in (FieldKind.RAW, FieldKind.RAW_OBJECT):
            unset = "{}" if field.kind is FieldKind.RAW_OBJECT else "None"
            return f"{self._value(field)} if {self._is_set(field)} else {unset}"
        return self._value(field)

    def _is_set(self, field: FieldShape) -> str:
        return f"m.HasField({field.field!r})" if field.has_presence else _read(field)

    def _value(self, field: FieldShape) -> str:
        """Expression of a single value that is set."""
        return self._one(field, _read(field))

    def _values(self, field: FieldShape) -> str:
        """Expression of a repeated field."""
        if field.kind is FieldKind.DOUBLE:
            return f"doubles({_read(field)})"
        if field.kind is FieldKind.FLOAT32:
            return f"float32s({_read(field)})"
        item = self._one(field, "x")
        return f"list({_read(field)})" if item == "x" else f"[{item} for x in {_read(field)}]"

    def _one(self, field: FieldShape, value: str) -> str:
        if field.message is not None:
            return f"{self._message(field.message)}({value})"
        if field.enum is not None:
            return f"{self._words(field)}[{value}]"
        if field.kind in (FieldKind.RAW, FieldKind.RAW_OBJECT):
            return f"fragment({value})"
        if field.kind is FieldKind.DOUBLE:
            return f"double({value})"
        if field.kind is FieldKind.FLOAT32:
            return f"float32({value})"
        return value

    def _words(self, field: FieldShape) -> str:
        enum = field.enum
        if enum is None:
            raise TypeError(f"{field.full_name} is not an enum")
        name = self._names.get(enum.full_name)
        if name is None:
            name = self._names[enum.full_name] = f"words_{len(self._names)}_{enum.name}"
            words = {number: word for word, number in self._shapes.words(enum).items()}
            self._namespace[name] = _Words(enum.full_name, words)
        return name

    def _tagged(self, members: str, union: UnionShape) -> list[str]:
        lines = [f"chosen = m.WhichOneof({union.oneof!r})"]
        rest = f", {members}" if members else ""
        for variant in union.variants:
            lines.append(f"if chosen == {variant.field!r}:")
            tag = f"{union.discriminator!r}: {variant.member!r}"
            lines.append(f"    return {{{tag}{rest}, **{self._value(variant)}}}")
        return [*lines, f"unset_union({union.oneof!r})"]

    def _external(self, union: UnionShape) -> list[str]:
        lines = [f"chosen = m.WhichOneof({union.oneof!r})"]
        for variant in union.variants:
            lines.append(f"if chosen == {variant.field!r}:")
            value = self._value(variant)
            lines.append(f"    return {value if variant.enum is not None else f'{{{variant.member!r}: {value}}}'}")
        return [*lines, f"unset_union({union.oneof!r})"]


def _read(field: FieldShape) -> str:
    return f"getattr(m, {field.field!r})" if iskeyword(field.field) else f"m.{field.field}"


class _Words(dict[int, str]):
    """Number -> word of one enum."""

    def __init__(self, full_name: str, words: dict[int, str]) -> None:
        super().__init__(words)
        self._full_name = full_name

    def __missing__(self, number: int) -> str:
        raise EncodingFault(f"{self._full_name} {number} has no word")


def _unset_union(oneof: str) -> None:
    raise EncodingFault(f"union {oneof} is unset")


def _double(value: float) -> float:
    # orjson would write NaN and the infinities as null, which no documented number is.
    if not isfinite(value):
        raise EncodingFault("a number is not finite")
    return value


def _doubles(values: Any) -> list[float]:
    items = list(values)
    if not all(map(isfinite, items)):
        raise EncodingFault("a number is not finite")
    return items


def _float32(value: float) -> np.float32:
    # numpy's scalar is written with the fewest digits that give the same float32 back: 0.1, not 0.10000000149011612.
    return np.float32(_double(value))


def _float32s(values: Any) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.array(_doubles(values), dtype=np.float32)

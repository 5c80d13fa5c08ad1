"""Answers against the published openapi.json: exact members at every level, words, types, bounds.

A small evaluator of the JSON Schema keywords that the document uses. A keyword that it does not know is an error, so
that nothing goes unchecked in silence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

Schema = dict[str, Any]
_ANNOTATIONS = {"description", "format", "x-max-utf8-bytes"}


class ClosedShapes:
    """The answers that a document declares.

    Attributes:
        document: The parsed openapi.json.
    """

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self._schemas: dict[str, Schema] = document["components"]["schemas"]

    def operation(self, method: str, template: str) -> dict[str, Any]:
        """The declaration of a route; KeyError when it is not declared."""
        operation: dict[str, Any] = self.document["paths"][template][method.lower()]
        return operation

    def faults(self, method: str, template: str, status: int, answer: Any) -> list[str]:
        """Return a sentence for each way in which an answer is not the declared one; empty when it is."""
        responses = self.operation(method, template)["responses"]
        if str(status) not in responses:
            return [f"{method} {template} does not declare {status}"]
        return list(self._check(responses[str(status)]["content"]["application/json"]["schema"], answer, "$"))

    def faults_of(self, schema: Schema, value: Any) -> list[str]:
        """The same for any value and schema of the document."""
        return list(self._check(schema, value, "$"))

    def open_objects(self) -> list[str]:
        """Return where the document declares members without closing the object; empty when all are closed."""
        return [
            place
            for name, schema in self._schemas.items()
            for place, inner in _walk(schema, name)
            if "properties" in inner and inner.get("additionalProperties") is not False
        ]

    def _check(self, schema: Schema, value: Any, at: str) -> Iterator[str]:
        for keyword, argument in schema.items():
            if keyword in _ANNOTATIONS:
                continue
            if keyword == "$ref":
                yield from self._check(self._schemas[argument.rpartition("/")[2]], value, at)
            elif keyword == "allOf":
                for part in argument:
                    yield from self._check(part, value, at)
            elif keyword in ("anyOf", "oneOf"):
                yield from self._check_choices(keyword, argument, value, at)
            elif keyword in ("properties", "required", "additionalProperties"):
                if isinstance(value, dict):
                    yield from self._check_members(keyword, argument, schema, value, at)
            elif keyword == "items":
                if isinstance(value, list):
                    for index, item in enumerate(value):
                        yield from self._check(argument, item, f"{at}[{index}]")
            elif not _KEYWORDS[keyword](argument, value):
                yield f"{at}: {str(value)[:80]} is not {keyword} {argument}"

    def _check_choices(self, keyword: str, choices: list[Schema], value: Any, at: str) -> Iterator[str]:
        found = [list(self._check(choice, value, at)) for choice in choices]
        fitting = sum(not faults for faults in found)
        if fitting == 0:
            yield f"{at}: no choice fits: {min(found, key=len)}"
        elif keyword == "oneOf" and fitting > 1:
            yield f"{at}: {fitting} choices fit"

    def _check_members(
        self, keyword: str, argument: Any, schema: Schema, value: dict[str, Any], at: str
    ) -> Iterator[str]:
        if keyword == "required":
            yield from (f"{at}: {name} is missing" for name in argument if name not in value)
        elif keyword == "additionalProperties":
            yield from (f"{at}: {name} is not declared" for name in value if name not in schema["properties"])
        else:
            for name, inner in argument.items():
                if name in value:
                    yield from self._check(inner, value[name], f"{at}.{name}")


def _is_type(name: str, value: Any) -> bool:
    kind = type(value)
    return {
        "object": kind is dict,
        "array": kind is list,
        "string": kind is str,
        "boolean": kind is bool,
        "null": value is None,
        "integer": kind is int,
        "number": kind in (int, float),
    }[name]


def _on(kinds: tuple[type, ...], holds: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """A keyword says something about its own types only."""
    return lambda argument, value: type(value) not in kinds or holds(argument, value)


_NUMBERS = (int, float)
_KEYWORDS: dict[str, Callable[[Any, Any], bool]] = {
    "type": _is_type,
    "const": lambda argument, value: type(argument) is type(value) and argument == value,
    "enum": lambda argument, value: value in argument,
    "minimum": _on(_NUMBERS, lambda least, value: value >= least),
    "maximum": _on(_NUMBERS, lambda greatest, value: value <= greatest),
    "minLength": _on((str,), lambda least, value: len(value) >= least),
    "maxLength": _on((str,), lambda greatest, value: len(value) <= greatest),
    "pattern": _on((str,), lambda pattern, value: re.search(pattern, value) is not None),
    "minItems": _on((list,), lambda least, value: len(value) >= least),
    "maxItems": _on((list,), lambda greatest, value: len(value) <= greatest),
    "uniqueItems": _on((list,), lambda _, value: all(item not in value[:at] for at, item in enumerate(value))),
}


def _walk(schema: Any, at: str) -> Iterator[tuple[str, Schema]]:
    if isinstance(schema, dict):
        if any(keyword in schema for keyword in ("type", "$ref", "oneOf", "anyOf", "allOf")):
            yield at, schema
        for name, inner in schema.items():
            yield from _walk(inner, f"{at}.{name}")
    elif isinstance(schema, list):
        for index, inner in enumerate(schema):
            yield from _walk(inner, f"{at}[{index}]")

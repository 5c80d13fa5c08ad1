"""Generated documents that follow the shapes of the documented requests, and their deliberate faults."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st

from services.gateway.descriptors import Descriptors
from services.gateway.message_shape import FieldKind, FieldShape, MessageShape, MessageShapes, UnionShape

DEPTH_MAX = 6

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
finite = st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | finite | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=4,
)


@cache
def shapes() -> MessageShapes:
    """Shapes of the checkout's descriptor set."""
    return MessageShapes(Descriptors.load())


def documents(shape: MessageShape, depth: int = 0) -> st.SearchStrategy[Any]:
    """Valid JSON for a message type; optional members come and go."""
    key = (shape.full_name, depth)
    if key not in _documents:
        _documents[key] = _build(shape, depth)
    return _documents[key]


_documents: dict[tuple[str, int], st.SearchStrategy[Any]] = {}


def _build(shape: MessageShape, depth: int) -> st.SearchStrategy[Any]:
    if shape.transparent is not None:
        return _values(shape.transparent, depth)
    if shape.external is not None:
        return _external(shape.external, depth)
    if shape.tagged is None:
        return _objects(shape.members, depth)
    return _tagged(shape.members, shape.tagged, depth)


def _objects(fields: tuple[FieldShape, ...], depth: int, **fixed: Any) -> st.SearchStrategy[dict[str, Any]]:
    always: dict[str, st.SearchStrategy[Any]] = {name: st.just(value) for name, value in fixed.items()}
    sometimes: dict[str, st.SearchStrategy[Any]] = {}
    for field in fields:
        holder = always if _must_be_there(field) else sometimes
        if holder is sometimes and depth >= DEPTH_MAX:
            continue
        holder[field.member] = _nullable(field, _values(field, depth))
    return st.fixed_dictionaries(always, optional=sometimes)


def _must_be_there(field: FieldShape) -> bool:
    # An enum without presence has no unset form to be written back.
    return field.required or (field.kind is FieldKind.ENUM and not field.has_presence and not field.repeated)


def _nullable(field: FieldShape, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values if field.nullable else values


def _values(field: FieldShape, depth: int) -> st.SearchStrategy[Any]:
    one = _one(field, depth)
    return st.lists(one, max_size=3) if field.repeated else one


def _one(field: FieldShape, depth: int) -> st.SearchStrategy[Any]:
    if field.message is not None:
        return documents(shapes().shape(field.message), depth + 1)
    if field.enum is not None:
        return st.sampled_from(list(shapes().words(field.enum)))
    return {
        FieldKind.INTEGER: st.integers(*field.integer_bounds),
        FieldKind.DOUBLE: finite | st.integers(-(2**53), 2**53),
        FieldKind.FLOAT32: st.floats(width=32, allow_nan=False, allow_infinity=False),
        FieldKind.BOOLEAN: st.booleans(),
        FieldKind.STRING: texts,
        FieldKind.RAW: json_values.filter(lambda value: value is not None),
        FieldKind.RAW_OBJECT: st.dictionaries(texts, json_values, max_size=3),
    }[field.kind]


def _tagged(fields: tuple[FieldShape, ...], union: UnionShape, depth: int) -> st.SearchStrategy[Any]:
    return st.one_of(
        [
            _objects(
                (*fields, *shapes().shape(variant.message).members), depth, **{union.discriminator: variant.member}
            )
            for variant in union.variants
            if variant.message is not None
        ]
    )


def _external(union: UnionShape, depth: int) -> st.SearchStrategy[Any]:
    return st.one_of(
        [
            _one(variant, depth)
            if variant.enum is not None
            else st.fixed_dictionaries({variant.member: _one(variant, depth)})
            for variant in union.variants
        ]
    )

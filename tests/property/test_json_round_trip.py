"""JSON to message to JSON, over every documented request, and what one fault anywhere does."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.domain.errors import InvalidRequest
from services.domain.strict_json import join_path, member_step
from services.gateway.json_decoder import DecoderCompiler, MessageDecoder
from services.gateway.json_encoder import EncoderCompiler, MessageEncoder
from services.gateway.message_shape import FieldKind, MessageShape
from services.gateway.route_table import compile_routes
from tests.property.json_documents import documents, shapes
from tests.property.mutations import mutate, mutations

REQUESTS = sorted(
    {
        route.descriptor.input_type.full_name
        for route in compile_routes(shapes().descriptors, shapes())
        if route.takes_body
    }
)

every_request = pytest.mark.parametrize("request_type", REQUESTS)
any_request = st.sampled_from(REQUESTS)


@cache
def codec(full_name: str) -> tuple[MessageShape, MessageDecoder, MessageEncoder]:
    """Shape, decoder and encoder of a type, made once."""
    message = shapes().descriptors.pool.FindMessageTypeByName(full_name)
    decoder, encoder = DecoderCompiler(shapes()).compile(message), EncoderCompiler(shapes()).compile(message)
    return shapes().shape(message), decoder, encoder


def requires_something(full_name: str) -> bool:
    """Whether a request has a member that must be there; a logout has none."""
    return any(field.required for field in codec(full_name)[0].members)


def assert_holds(written: Any, document: Any, path: str = "") -> None:
    """Everything in `document` stands in `written`; what is there besides is only what was left unset."""
    if isinstance(document, dict) and isinstance(written, dict):
        for name, value in document.items():
            if value in (None, []) and name not in written:
                continue
            assert_holds(written[name], value, join_path(path, member_step(name)))
        for name in written.keys() - document.keys():
            assert written[name] in (None, [], {}, 0, "", False), f"{path}.{name}"
    elif isinstance(document, list) and isinstance(written, list):
        assert len(written) == len(document), path
        for index, (mine, theirs) in enumerate(zip(written, document, strict=True)):
            assert_holds(mine, theirs, f"{path}[{index}]")
    elif document is None:
        assert written in (None, []), path
    else:
        assert (written, isinstance(written, bool)) == (document, isinstance(document, bool)), path


@every_request
@given(data=st.data())
def test_a_document_survives_the_message(request_type: str, data: st.DataObject) -> None:
    """Every value comes back as it was sent: all digits, all characters, each union in its form."""
    shape, decoder, encoder = codec(request_type)
    document = data.draw(documents(shape))
    message = decoder.decode(json.dumps(document).encode())
    assert_holds(json.loads(encoder.encode(message)), document)


@given(request_type=any_request, data=st.data())
def test_spelling_does_not_matter(request_type: str, data: st.DataObject) -> None:
    """Escapes, blanks and member order give the same message."""
    shape, decoder, _ = codec(request_type)
    document = data.draw(documents(shape))
    escaped = json.dumps(document, ensure_ascii=True, indent=2).encode()
    plain = json.dumps(document, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()
    assert decoder.decode(escaped) == decoder.decode(plain)


def objects_in(shape: MessageShape, document: Any, path: str = "") -> list[tuple[str, dict[str, Any]]]:
    """Every closed object of a document with its path; free-form JSON is not entered."""
    if shape.transparent is not None or shape.external is not None or not isinstance(document, dict):
        return []
    found = [(path, document)]
    fields = list(shape.members)
    if shape.tagged is not None:
        for variant in shape.tagged.variants:
            if variant.message is not None and document.get(shape.tagged.discriminator) == variant.member:
                fields.extend(shapes().shape(variant.message).members)
    for field in fields:
        if field.message is None or field.member not in document:
            continue
        inner = shapes().shape(field.message)
        values = document[field.member] if field.repeated else [document[field.member]]
        for index, value in enumerate(values or []):
            step = join_path(path, field.member) + (f"[{index}]" if field.repeated else "")
            found.extend(objects_in(inner, value, step))
    return found


@given(request_type=any_request, data=st.data())
def test_one_unknown_member_anywhere_is_refused_by_its_path(request_type: str, data: st.DataObject) -> None:
    """However deep it stands."""
    shape, decoder, _ = codec(request_type)
    document = data.draw(documents(shape))
    path, holder = data.draw(st.sampled_from(objects_in(shape, document)))
    holder["no_such_member"] = data.draw(st.none() | st.integers() | st.text(max_size=3))
    with pytest.raises(InvalidRequest) as refusal:
        decoder.decode(json.dumps(document).encode("utf-8", "surrogatepass"))
    assert refusal.value.member == join_path(path, "no_such_member")


@given(request_type=any_request.filter(requires_something), data=st.data())
def test_one_missing_required_member_is_named(request_type: str, data: st.DataObject) -> None:
    """Whichever of those at the top of a request it is."""
    shape, decoder, _ = codec(request_type)
    document = data.draw(documents(shape))
    missing = data.draw(st.sampled_from([field.member for field in shape.members if field.required]))
    del document[missing]
    with pytest.raises(InvalidRequest) as refusal:
        decoder.decode(json.dumps(document).encode())
    assert refusal.value.member == missing


WRONG: dict[FieldKind, list[Any]] = {
    FieldKind.INTEGER: ["1", 1.0, True, [], {}, 2**64, -(2**63) - 1],
    FieldKind.DOUBLE: ["1", True, [], {}],
    FieldKind.BOOLEAN: [0, 1, "true", []],
    FieldKind.STRING: [0, True, [], {}],
    FieldKind.RAW_OBJECT: [0, "x", []],
    FieldKind.ENUM: [0, 1, "no_such_word", [], {}],
    FieldKind.MESSAGE: [0, True],
}


@given(request_type=any_request, data=st.data())
def test_one_wrong_type_anywhere_is_refused_by_its_path(request_type: str, data: st.DataObject) -> None:
    """No value is converted, at any depth."""
    shape, decoder, _ = codec(request_type)
    document = data.draw(documents(shape))
    # Only the top level and what it holds directly: there the kind of each member is known.
    fields = [field for field in shape.members if field.kind in WRONG]
    field = data.draw(st.sampled_from(fields))
    wrong = data.draw(st.sampled_from([1, "x", {}] if field.repeated else WRONG[field.kind]))
    document[field.member] = wrong
    with pytest.raises(InvalidRequest) as refusal:
        decoder.decode(json.dumps(document).encode())
    assert refusal.value.member == field.member


@every_request
@settings(max_examples=max(8, settings.default.max_examples // 4))
@given(data=st.data())
def test_a_mutated_body_is_refused_or_means_what_it_says(request_type: str, data: st.DataObject) -> None:
    """Whatever happens to a good body: the documented refusal, or every value that any JSON parser reads in it."""
    shape, decoder, encoder = codec(request_type)
    good = json.dumps(data.draw(documents(shape)), ensure_ascii=False).encode()
    body = mutate(good, data.draw(mutations))
    try:
        message = decoder.decode(body)
    except InvalidRequest:
        return
    assert_holds(json.loads(encoder.encode(message)), json.loads(body))

"""Documented JSON to messages: what each spelling means, and which member is at fault."""

from __future__ import annotations

import json
from typing import Any

import pytest

from services.domain.errors import EmbeddingDimensionLimit, InvalidRequest, UnsupportedContractVersion
from tests.unit.gateway.sample_protos import decoder, message


def refusal_of(name: str, document: str) -> InvalidRequest:
    """Decode what must be refused."""
    with pytest.raises(InvalidRequest) as refusal:
        decoder(name).decode(document.encode())
    return refusal.value


@pytest.mark.parametrize(
    ("name", "document", "fields"),
    [
        ("Everything", "{}", {}),
        ("Everything", '{"revision":18446744073709551615}', {"revision": 2**64 - 1}),
        ("Everything", '{"revision":9223372036854775809}', {"revision": 2**63 + 1}),
        ("Everything", '{"at_millis":-9223372036854775808}', {"at_millis": -(2**63)}),
        ("Everything", '{"offset":0}', {"offset": 0}),
        ("Everything", '{"score":1,"weight":0.5,"flag":true}', {"score": 1.0, "weight": 0.5, "flag": True}),
        ("Everything", '{"score":100000000000000000000}', {"score": 1e20}),
        ("Everything", '{"colour":"deep_blue","colours":["red","red"]}', {"colour": 2, "colours": [1, 1]}),
        ("Everything", '{"inner":{"id":""},"inners":[{"id":"a"}]}', {"inner": {"id": ""}, "inners": [{"id": "a"}]}),
        ("Everything", '{"vector":[1,2.5,-3e38],"narrow":[]}', {"vector": [1, 2.5, -3e38]}),
        ("Everything", '{"narrow":[3.4028234663852886e38]}', {"narrow": [3.4028234663852886e38]}),
        ("Presence", '{"nullable":null,"omitted":null,"hidden_when_empty":null}', {}),
        ("Presence", '{"plain":"","from":"x","class":"y"}', {"plain": "", "from_place": "x", "class": "y"}),
        ("Raw", '{"data":null}', {}),
        ("Raw", '{"any":null}', {"any": "null"}),
        (
            "Raw",
            '{"data":{"b":[1,1.0,"x"],"a":18446744073709551615}}',
            {"data": '{"b":[1,1.0,"x"],"a":18446744073709551615}'},
        ),
        ("Raw", '{"metadata":{}}', {"metadata": "{}"}),
        ("Required", '{"contract_version":1,"note":null}', {"contract_version": 1}),
        ("Tagged", '{"distance":3,"type":"move","key":"k"}', {"key": "k", "move": {"distance": 3}}),
        ("Tagged", '{"type":"stop","key":"k"}', {"key": "k", "stop": {}}),
        ("Tagged", '{"type":"side_step","key":"k","distance":1}', {"key": "k", "shift": {"distance": 1}}),
        ("HoldsKind", '{"kind":"red"}', {"kind": {"colour": 1}}),
        ("HoldsKind", '{"kind":{"Custom":"note"}}', {"kind": {"custom": "note"}}),
        ("HoldsKind", '{"kind":null}', {}),
        ("HoldsList", '{"list":[1,2]}', {"list": {"values": [1, 2]}}),
        ("HoldsList", '{"list":[]}', {"list": {}}),
        (
            "Tree",
            '{"name":"a","children":[{"name":"b","parent":{"name":"a"}}]}',
            {"name": "a", "children": [{"name": "b", "parent": {"name": "a"}}]},
        ),
    ],
)
def test_documented_json_becomes_the_message(name: str, document: str, fields: dict[str, Any]) -> None:
    """Values keep all their digits; null means unset where it is allowed; unions and raw members as declared."""
    assert decoder(name).decode(document.encode()) == message(name, **fields)


@pytest.mark.parametrize(
    "number",
    [
        "18446744073709551616",
        "9.223372036854775809e18",
        "1e3",
        "1.0",
        "1.5",
        "-1",
        '"1"',
        '"1_000"',
        '"١٢"',
        "true",
        "null",
        "[]",
        "{}",
        "1" * 5000,
    ],
)
def test_a_u64_takes_plain_digits_in_range_only(number: str) -> None:
    """No rounding, no strings, no booleans: each is refused and the member named."""
    assert refusal_of("Everything", f'{{"revision":{number}}}').member == "revision"
    assert refusal_of("Everything", f'{{"revisions":[1,{number}]}}').member == "revisions[1]"


@pytest.mark.parametrize("number", ["01", "+1", "1_000", "0x1", "١٢", "1.", ".5", "--1"])
def test_bad_number_syntax_is_malformed_json(number: str) -> None:
    """What is no JSON number is refused as malformed."""
    assert "malformed JSON" in refusal_of("Everything", f'{{"revision":{number}}}').message


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("at_millis", "9223372036854775808"),
        ("at_millis", "-9223372036854775809"),
        ("count", "4294967296"),
        ("offset", "2147483648"),
        ("score", '"1"'),
        ("score", "true"),
        ("score", "1e400"),
        ("score", "NaN"),
        ("score", "1" + "0" * 400),
        ("weight", "3.5e38"),
        ("weight", "-3.4028236e38"),
        ("flag", "1"),
        ("flag", '"true"'),
        ("name", "1"),
        ("name", '"\\ud800"'),
        ("colour", '"RED"'),
        ("colour", '"COLOUR_RED"'),
        ("colour", '""'),
        ("colour", "1"),
        ("colour", "[]"),
        ("inner", "[]"),
        ("inner", '"x"'),
        ("tags", '"x"'),
        ("tags", "{}"),
        ("vector", "1"),
    ],
)
def test_wrong_types_and_ranges_name_the_member(member: str, value: str) -> None:
    """No value is converted: a wrong type or a value that the field cannot hold is refused."""
    assert refusal_of("Everything", f'{{"{member}":{value}}}').member == member


@pytest.mark.parametrize(
    ("name", "document", "member"),
    [
        ("Everything", '{"revison":1}', "revison"),
        ("Everything", '{"atMillis":1}', "atMillis"),
        ("Everything", '{"inner":{"id":"a","extra":1}}', "inner.extra"),
        ("Everything", '{"inners":[{"id":"a"},{"id":"b","x":1}]}', "inners[1].x"),
        ("Everything", '{"revision":1,"revision":2}', "revision"),
        ("Everything", '{"inner":{"id":"a","\\u0069d":"b"}}', "inner.id"),
        ("Everything", '{"inner":{}}', "inner.id"),
        ("Everything", '{"inners":[{"id":"a"},{}]}', "inners[1].id"),
        ("Everything", '{"inner":null}', "inner"),
        ("Everything", '{"tags":null}', "tags"),
        ("Everything", '{"tags":["a",null]}', "tags[1]"),
        ("Everything", '{"vector":[0.5,null]}', "vector[1]"),
        ("Everything", '{"vector":[0.5,true]}', "vector[1]"),
        ("Everything", '{"vector":["NaN",1]}', "vector[0]"),
        ("Everything", '{"narrow":[0,3.5e38]}', "narrow[1]"),
        ("Presence", '{"plain":null}', "plain"),
        ("Presence", '{"grpc_only":"x"}', "grpc_only"),
        ("Presence", '{"from_place":"x"}', "from_place"),
        ("Raw", '{"data":{"a":{"k":1,"k":2}}}', "data.a.k"),
        ("Raw", '{"data":[18446744073709551616]}', "data"),
        ("Raw", '{"metadata":null}', "metadata"),
        ("Raw", '{"metadata":[]}', "metadata"),
        ("Required", '{"contract_version":1}', "note"),
        ("Required", '{"note":"x"}', "contract_version"),
        ("Tagged", '{"key":"k"}', "type"),
        ("Tagged", '{"type":"fly","key":"k"}', "type"),
        ("Tagged", '{"type":1,"key":"k"}', "type"),
        ("Tagged", '{"type":["move"],"key":"k"}', "type"),
        ("Tagged", '{"type":null,"key":"k"}', "type"),
        ("Tagged", '{"type":"stop","key":"k","distance":1}', "distance"),
        ("Tagged", '{"type":"shift","key":"k","distance":1}', "type"),
        ("Tagged", '{"type":"move","key":"k"}', "distance"),
        ("Tagged", '{"type":"move","distance":1}', "key"),
        ("Tagged", '{"type":"move","key":"k","move":{"distance":1}}', "move"),
        ("HoldsKind", '{"kind":"Red"}', "kind"),
        ("HoldsKind", '{"kind":{}}', "kind"),
        ("HoldsKind", '{"kind":{"Custom":"a","colour":"red"}}', "kind"),
        ("HoldsKind", '{"kind":{"colour":"red"}}', "kind.colour"),
        ("HoldsKind", '{"kind":{"Custom":1}}', "kind.Custom"),
        ("HoldsList", '{"list":{"values":[1]}}', "list"),
        ("HoldsList", '{"list":[1,"2"]}', "list[1]"),
    ],
)
def test_the_member_at_fault_is_named_with_its_path(name: str, document: str, member: str) -> None:
    """Unknown, duplicate, missing and null members, at every level and inside unions and raw JSON."""
    assert refusal_of(name, document).member == member


@pytest.mark.parametrize("document", ["[]", '"x"', "1", "null", "true", "", "   ", "{", '{"a":1}x'])
def test_a_body_is_one_object(document: str) -> None:
    """Any other document is refused."""
    refusal_of("Everything", document)


def test_a_version_out_of_the_types_range_is_an_unsupported_version() -> None:
    """4294967297 is a wrong version like 2, which the service refuses; "1" and 1.0 are malformed."""
    assert type(refusal_of("Required", '{"contract_version":4294967297,"note":null}')) is UnsupportedContractVersion
    assert type(refusal_of("Required", '{"contract_version":-1,"note":null}')) is UnsupportedContractVersion
    assert type(refusal_of("Required", '{"contract_version":"1","note":null}')) is InvalidRequest
    assert type(refusal_of("Required", '{"contract_version":1.0,"note":null}')) is InvalidRequest


def test_a_value_out_of_the_types_range_has_the_code_of_its_bounds() -> None:
    """A dimension beyond 32 bits breaks the operator's ceiling as well."""
    document = '{"contract_version":1,"note":null,"dimensions":4294967296}'
    assert type(refusal_of("Required", document)) is EmbeddingDimensionLimit


def test_a_negative_zero_in_digits_is_zero() -> None:
    """-0 is an integer in plain digits; the service's bounds judge the value."""
    assert decoder("Everything").decode(b'{"revision":-0}').revision == 0  # type: ignore[attr-defined]


def test_hostile_names_are_quoted_and_shortened() -> None:
    """What an error repeats of the request is bounded and printable."""
    name = "\n\x1b[31m" + "x" * 1000
    refusal = refusal_of("Everything", json.dumps({name: 1}))
    assert len(str(refusal)) < 150
    assert "\n" not in str(refusal)


@pytest.mark.parametrize(
    ("name", "document", "said"),
    [
        ("Everything", '{"id":"x"}', "id: unknown member; it belongs in inner"),
        ("Presence", '{"id":"x","plain":""}', "id: unknown member; it belongs in inner"),
        ("Everything", '{"inner":{"id":"","name":"x"}}', "inner.name: unknown member"),
        ("Everything", '{"nowhere":1}', "nowhere: unknown member"),
        ("Presence", '{"plian":""}', "plian: unknown member; did you mean plain?"),
        ("Tree", '{"children":[{"id":"x"}]}', "children[0].id: unknown member"),
    ],
)
def test_a_member_that_stands_a_level_too_high_is_told_where_it_belongs(name: str, document: str, said: str) -> None:
    """Only where a member beside it has one of that name; nothing is guessed."""
    assert said == str(refusal_of(name, document))

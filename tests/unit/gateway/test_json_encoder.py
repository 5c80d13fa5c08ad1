"""Messages to documented JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from services.gateway.json_encoder import EncodingFault
from tests.unit.gateway.sample_protos import encoder, message


def encoded(name: str, /, **fields: Any) -> str:
    return encoder(name).encode(message(name, **fields)).decode("utf-8")


def test_every_member_is_written_in_declaration_order() -> None:
    """Zero values, empty arrays and unset members as null, all present."""
    assert json.loads(encoded("Everything", colour=1)) == {
        "revision": 0, "at_millis": 0, "count": 0, "offset": None, "score": 0.0, "weight": 0.0, "flag": False,
        "name": "", "colour": "red", "inner": None, "tags": [], "vector": [], "narrow": [], "colours": [], "inners": [],
        "revisions": [],
    }  # fmt: skip
    assert list(json.loads(encoded("Everything", colour=1)))[:4] == ["revision", "at_millis", "count", "offset"]


def test_integers_keep_all_their_digits() -> None:
    """2^63 + 1 and the extremes are JSON numbers, digit for digit."""
    text = encoded("Everything", colour=1, revision=2**63 + 1, at_millis=-(2**63), revisions=[2**64 - 1])
    assert '"revision":9223372036854775809,' in text
    assert '"at_millis":-9223372036854775808,' in text
    assert '"revisions":[18446744073709551615]' in text


def test_float32_is_written_with_its_own_shortest_digits() -> None:
    """0.1 as float32 reads 0.1, as double it keeps what float64 says."""
    text = encoded("Everything", colour=1, weight=0.1, narrow=[0.1, 1e-45, 16777216], score=0.1, vector=[1 / 3])
    assert '"weight":0.1,' in text
    assert '"narrow":[0.1,1e-45,16777216.0]' in text
    assert '"score":0.1,' in text
    assert '"vector":[0.3333333333333333]' in text


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {"plain": None, "nullable": None, "listed": [], "inner": None, "from": "", "class": ""}),
        (
            {"plain": "", "omitted": "x", "hidden_when_empty": ["a"], "inner": {"id": "i"}, "grpc_only": "never"},
            {
                "plain": "", "nullable": None, "omitted": "x", "listed": [], "hidden_when_empty": ["a"],
                "inner": {"id": "i"}, "from": "", "class": "",
            },
        ),
    ],
)  # fmt: skip
def test_presence_follows_the_options(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    """Null by default, left out where declared, hidden members never."""
    assert json.loads(encoded("Presence", **fields)) == expected


def test_raw_json_stands_as_it_is() -> None:
    """The stored text is not parsed or written anew; an unset raw object is {}."""
    assert encoded("Raw", data='{"b": 1.0,"a":18446744073709551615}', any="null", metadata='{"k":[]}') == (
        '{"data":{"b": 1.0,"a":18446744073709551615},"any":null,"metadata":{"k":[]}}'
    )
    assert encoded("Raw") == '{"data":null,"any":null,"metadata":{}}'


@pytest.mark.parametrize(
    ("name", "fields", "expected"),
    [
        ("Tagged", {"key": "k", "move": {"distance": 2}}, '{"type":"move","key":"k","distance":2,"note":null}'),
        ("Tagged", {"key": "k", "stop": {}}, '{"type":"stop","key":"k"}'),
        ("Tagged", {"key": "k", "shift": {}}, '{"type":"side_step","key":"k","distance":0,"note":null}'),
        ("HoldsKind", {"kind": {"colour": 2}}, '{"kind":"deep_blue"}'),
        ("HoldsKind", {"kind": {"custom": "x"}}, '{"kind":{"Custom":"x"}}'),
        ("HoldsKind", {}, '{"kind":null}'),
        ("HoldsList", {"list": {"values": [1, 0.5]}}, '{"list":[1.0,0.5]}'),
        ("HoldsList", {"list": {}}, '{"list":[]}'),
        ("HoldsList", {}, '{"list":null}'),
        ("Stop", {}, "{}"),
        (
            "Tree",
            {"name": "a", "children": [{"name": "b"}]},
            '{"name":"a","children":[{"name":"b","children":[],"parent":null}],"parent":null}',
        ),
    ],
)
def test_unions_and_transparent_messages_take_their_form(name: str, fields: dict[str, Any], expected: str) -> None:
    """Flattened beside the discriminator, replaced by the content, or written as the value."""
    assert encoded(name, **fields) == expected


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("Everything", {}),
        ("Everything", {"colour": 7}),
        ("Everything", {"colour": 1, "colours": [0]}),
        ("Everything", {"colour": 1, "score": float("nan")}),
        ("Everything", {"colour": 1, "vector": [float("inf")]}),
        ("Everything", {"colour": 1, "narrow": [float("nan")]}),
        ("Tagged", {"key": "k"}),
        ("HoldsKind", {"kind": {}}),
    ],
)
def test_what_has_no_documented_form_is_the_services_fault(name: str, fields: dict[str, Any]) -> None:
    """An enum without a word, an unset union, a number that is not finite: never written as something else."""
    with pytest.raises(EncodingFault):
        encoded(name, **fields)

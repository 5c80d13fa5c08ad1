"""The strict parser takes exactly the documents that have one meaning."""

from __future__ import annotations

import json

import pytest

from services.domain.errors import InvalidRequest
from services.domain.strict_json import DEPTH_MAX, JsonValue, join_path, member_step, parse_json

ACCEPTED: list[tuple[bytes, JsonValue]] = [
    (b"{}", {}),
    (b" \t\r\n[1, 2.5, true, null] ", [1, 2.5, True, None]),
    (b'{"a":{"b":[{"c":"d"}]}}', {"a": {"b": [{"c": "d"}]}}),
    (b"18446744073709551615", 2**64 - 1),
    (b"-9223372036854775808", -(2**63)),
    (b"9007199254740993", 9007199254740993),
    (b"1.7976931348623157e308", 1.7976931348623157e308),
    (b"1e-400", 0.0),
    (b'"\\ud83d\\ude00"', "\U0001f600"),
    ('"Grüße 你好 \U0001f600"'.encode(), "Grüße 你好 \U0001f600"),
    (b'"\\u0000\\n\x7f"', "\x00\n\x7f"),
    (b'{"":1}', {"": 1}),
]

REFUSED: list[tuple[bytes, str | None]] = [
    (b"", None),
    (b"  \n", None),
    (b"{", None),
    (b"{}x", None),
    (b"{} {}", None),
    (b"{'a':1}", None),
    (b'{"a":1,}', None),
    (b"[1,]", None),
    (b"[01]", None),
    (b"[+1]", None),
    (b"[.5]", None),
    (b"[1.]", None),
    (b"[1_000]", None),
    ("[١٢]".encode(), None),
    (b"[0x10]", None),
    (b"True", None),
    (b"nul", None),
    (b'"\\x41"', None),
    (b'"\\u12"', None),
    (b'"\x01"', None),
    (b'"a\nb"', None),
    (b"\xef\xbb\xbf{}", None),
    (b'"\xff"', None),
    (b'"\xed\xa0\x80"', None),
    (b'"\xc0\xaf"', None),
    (b"NaN", None),
    (b'{"a":{"b":NaN}}', "a.b"),
    (b'{"a":[0,Infinity]}', "a[1]"),
    (b'{"a":[-Infinity]}', "a[0]"),
    (b'{"a":[1.5,1e400]}', "a[1]"),
    (b'{"a":-1e309}', "a"),
    (b'{"a":18446744073709551616}', "a"),
    (b'{"a":[1,-9223372036854775809]}', "a[1]"),
    (b'{"a":{"r":' + b"1" * 5000 + b"}}", "a.r"),
    (b'{"a":[' + b"9" * 4000 + b"]}", "a[0]"),
    (b'{"id":1,"id":1}', "id"),
    (b'{"id":1,"\\u0069d":2}', "id"),
    (b'{"x":[{"metadata":{"k":1,"k":2}}]}', "x[0].metadata.k"),
    (b'{"a":"\\ud800"}', "a"),
    (b'{"a":["ok","\\ude00\\ud83d"]}', "a[1]"),
    (b'{"\\udfff":1}', '"\\udfff"'),
    (b"[" * 100_000, None),
    (b'{"a":' * 5000, None),
]


@pytest.mark.parametrize(("document", "expected"), ACCEPTED)
def test_a_plain_document_reads_as_its_value(document: bytes, expected: JsonValue) -> None:
    """What is accepted means the same as in any JSON reader; integers are exact."""
    assert parse_json(document) == expected


@pytest.mark.parametrize(("document", "member"), REFUSED)
def test_anything_else_is_refused_and_the_member_named(document: bytes, member: str | None) -> None:
    """Each refusal is an InvalidRequest that names the path where there is one."""
    with pytest.raises(InvalidRequest) as refusal:
        parse_json(document)
    assert refusal.value.member == member


def test_integers_and_floats_stay_apart() -> None:
    """1 is an int; 1.0, 1e3 and -0.0 are floats, so that a caller can refuse them where an integer is due."""
    assert [type(value) for value in parse_json(b"[1, -0, 1.0, 1e3, -0.0]")] == [int, int, float, float, float]


def test_depth_is_bounded_exactly() -> None:
    """The documented depth is accepted, one more level is not, for arrays and objects alike."""
    parse_json(b"[" * DEPTH_MAX + b"]" * DEPTH_MAX)
    parse_json(b'{"a":' * (DEPTH_MAX - 1) + b"{}" + b"}" * (DEPTH_MAX - 1))
    for document in (
        b"[" * (DEPTH_MAX + 1) + b"]" * (DEPTH_MAX + 1),
        b'{"a":' * DEPTH_MAX + b"{}" + b"}" * DEPTH_MAX,
    ):
        with pytest.raises(InvalidRequest, match="nested deeper"):
            parse_json(document)


def test_wide_integers_pass_only_when_asked_for() -> None:
    """A number member may be written 340282346638528859811704183484516925440; nothing else may."""
    wide = str(int(3.4e38)).encode()
    assert parse_json(b"[" + wide + b"]", wide_integers=True) == [int(3.4e38)]
    with pytest.raises(InvalidRequest):
        parse_json(b"[" + wide + b"]")
    with pytest.raises(InvalidRequest):
        parse_json(b"[" + b"1" * 5000 + b"]", wide_integers=True)


def test_text_is_checked_like_bytes() -> None:
    """A service parses text that a gRPC caller sent; a surrogate that is already in the text is refused too."""
    assert parse_json('{"a":"é"}') == {"a": "é"}
    with pytest.raises(InvalidRequest) as refusal:
        parse_json('{"a":"\ud800"}', member="record.metadata")
    assert refusal.value.member == "record.metadata.a"


def test_member_paths_are_safe_to_show() -> None:
    """Names that are not plain are quoted, escaped and shortened."""
    assert member_step("scan_limit") == "scan_limit"
    assert member_step("a.b\n\ud800") == json.dumps("a.b\n\ud800")
    assert len(member_step("x" * 10_000)) < 100
    assert join_path("query", "[3]") == "query[3]"
    assert join_path("", "query") == "query"
    assert join_path("query", "limit") == "query.limit"


def test_a_refusal_never_repeats_the_document() -> None:
    """Memory content must not reach logs by way of a message."""
    with pytest.raises(InvalidRequest) as refusal:
        parse_json(b'{"text":"my secret", oops}')
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(("document", "count"), [("[" + ",".join(["[]"] * 65_535) + "]", 65_535), ("[]", 0)])
def test_as_many_containers_as_a_body_of_ordinary_size_can_hold(document: str, count: int) -> None:
    """Taken."""
    assert count == len(parse_json(document.encode()))  # type: ignore[arg-type]


@pytest.mark.parametrize("container", ["[]", "{}", '[{"a":[]}]'])
def test_millions_of_containers_are_refused_before_they_are_read(container: str) -> None:
    """They would cost seconds."""
    document = "[" + ",".join([container] * 65_536) + "]"
    with pytest.raises(InvalidRequest, match="more than 65536 arrays and objects"):
        parse_json(document.encode())

"""Errors of the SDK say to people what is wrong, and programs branch on the same codes as ever."""

from __future__ import annotations

import math
from typing import Any

import pytest

from qilbeedb import ConsumerAPIError, ConsumerProtocolError, MemoryClient
from qilbeedb._checks import array, closed, nullable, number, uuid
from qilbeedb._session import _success
from qilbeedb._transport import Response

SECRET = "the text of a memory"
ITEM = closed({"record_id": uuid}, {"parent": nullable(closed({"ids": array(uuid, 1, 2)}))})


@pytest.mark.parametrize(
    ("value", "detail"),
    [
        ([], "must be an object"),
        ({}, "must have the member record_id"),
        ({"record_id": SECRET}, "record_id: must be a UUID in lower case"),
        ({"record_id": "0" * 8 + "-0000" * 3 + "-" + "0" * 12, "more": SECRET}, "must not have the member more"),
        ({"parent": {}, "record_id": 1}, "parent: must have the member ids"),
        ({"parent": {"ids": []}, "record_id": 1}, "parent.ids: must be an array of 1 to 2 values"),
        ({"parent": {"ids": [SECRET]}, "record_id": 1}, "parent.ids[0]: must be a UUID in lower case"),
    ],
)
def test_the_member_at_fault_is_named_by_its_whole_path(value: Any, detail: str) -> None:
    """Without what it holds."""
    with pytest.raises(ConsumerProtocolError) as caught:
        ITEM(value)
    assert ("invalid_response", detail) == (caught.value.code, caught.value.detail)
    assert f"invalid_response: {detail}" == str(caught.value)


@pytest.mark.parametrize("value", [10**400, -(10**400), 1e39, math.inf, math.nan, True, "1", None], ids=repr)
def test_a_number_out_of_reach_is_refused_and_nothing_else_happens(value: Any) -> None:
    """An integer that no float can hold is one of them."""
    with pytest.raises(ConsumerProtocolError, match=r"score: must be a finite number from -3\.4028235e\+38 to"):
        closed({"score": number()})({"score": value})


def test_objects_in_arrays_are_named_by_their_place() -> None:
    """As in JSON paths."""
    with pytest.raises(ConsumerProtocolError, match=r"^invalid_response: hits\[1\]\.record_id: must be"):
        closed({"hits": array(ITEM)})(
            {"hits": [{"record_id": "0" * 8 + "-0000" * 3 + "-" + "0" * 12}, {"record_id": ""}]}
        )


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("query.txt: unknown member", "invalid_request (HTTP 400): query.txt: unknown member"),
        ("two\nlines\x1b[31m", "invalid_request (HTTP 400): twolines[31m"),
        ("", "invalid_request (HTTP 400)"),
        (7, "invalid_request (HTTP 400)"),
        ("x" * 10_000, "invalid_request (HTTP 400): " + "x" * 500),
    ],
)
def test_a_refusal_tells_the_servers_sentence(message: Any, told: str) -> None:
    """Bounded, on one line, and harmless on a terminal; whatever it is, code and status are what they were."""
    document = {"contract_version": 1, "error": {"code": "invalid_request", "message": message}}
    with pytest.raises(ConsumerAPIError) as caught:
        _success(Response(400, document))
    assert (told, "invalid_request", 400) == (str(caught.value), caught.value.code, caught.value.status)


def test_a_scope_that_is_none_is_told_by_its_member() -> None:
    """Before anything is sent."""
    with pytest.raises(ConsumerProtocolError, match=r"scope\.visibility: must be one of private, shared"):
        MemoryClient(
            "http://127.0.0.1:1", "key", tenant_id="acme", subject_id="me",
            scope={"project_id": "p", "agent_id": "a", "visibility": "public"},
        )  # fmt: skip

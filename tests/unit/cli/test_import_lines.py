"""Lines of an import file."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cli.import_lines import command_from_line, line_member
from services.domain.errors import InvalidRequest
from services.domain.strict_json import DEPTH_MAX
from tests.harness.builders import SPACE, provenance_json, record_json, reference

A = "0f8fad5b-d9cb-469f-a165-70867728950e"
B = "7c9e6679-7425-40de-944b-e07fc1f90ae7"


def line(**members: Any) -> bytes:
    """Return a line with a key and members."""
    return json.dumps({"idempotency_key": "k", **members}).encode()


def relation(**members: Any) -> dict[str, Any]:
    """Return an assertion between two records that the same file makes."""
    ends = {"source": {"created_by": "a"}, "target": {"created_by": "b"}}
    return {**ends, "kind": "supports", "provenance": provenance_json(), **members}


def test_a_create_line_is_the_body_of_the_route() -> None:
    """The record is decoded exactly as the gateway would."""
    command = command_from_line(line(operation={"type": "create", "record": record_json("Nectar", tags=["x"])}))
    assert (
        command.idempotency_key,
        command.create_record.record.content.primary,
        list(command.create_record.record.tags),
    ) == ("k", "Nectar", ["x"])


@pytest.mark.parametrize(
    ("operation", "field"),
    [
        ({"type": "update", "record_id": A, "expected_revision": 2, "record": record_json()}, "update_record"),
        ({"type": "delete", "record_id": A, "expected_revision": 2}, "delete_record"),
        ({"type": "retire", "relation_id": A, "expected_revision": 1, "evidence_ref": "e"}, "retire_relation"),
        ({"type": "restore", "relation_id": A, "expected_revision": 1, "evidence_ref": "e"}, "restore_relation"),
        (
            {
                "type": "review",
                "relation_id": A,
                "expected_revision": 1,
                "evidence_ref": "e",
                "disposition": "approved",
            },
            "review_relation",
        ),
        ({"type": "assert", "relation": relation()}, "assert_relation"),
        (
            {
                "type": "derive",
                "record": record_json(),
                "derivation": {
                    "sources": [{"created_by": "a"}, reference(B, 3)],
                    "method": "m",
                    "method_revision": "1",
                    "evidence_ref": "e",
                },
            },
            "derive_record",
        ),
    ],
)
def test_every_operation_of_the_command_routes_is_known(operation: dict[str, Any], field: str) -> None:
    """Each documented type becomes the command of the same meaning."""
    assert field == command_from_line(line(operation=operation)).WhichOneof("operation")


def test_references_are_by_id_or_by_the_key_that_made_the_record() -> None:
    """Both forms may be mixed; order is kept."""
    body = relation(target=reference(A, 4), evidence_sources=[{"created_by": "c"}, reference(B, 2)])
    assertion = command_from_line(line(operation={"type": "assert", "relation": body})).assert_relation
    assert (
        assertion.source.created_by,
        assertion.target.record.record_id,
        assertion.target.record.revision,
    ) == ("a", A, 4)
    assert ["c", ""] == [item.created_by for item in assertion.evidence_sources]


def test_data_is_as_deep_as_in_a_request_of_its_own() -> None:
    """What a service takes as the text of a member is not refused for the levels of the line around it."""
    data = "[" * DEPTH_MAX + "]" * DEPTH_MAX
    record = record_json(content={"primary": "p", "data": "DATA"})
    command = command_from_line(line(operation={"type": "create", "record": record}).replace(b'"DATA"', data.encode()))
    assert data == command.create_record.record.content.data
    with pytest.raises(InvalidRequest, match="nested deeper"):
        command_from_line(b"[" * (DEPTH_MAX + 5) + b"]" * (DEPTH_MAX + 5))


def test_a_vector_travels_as_float32() -> None:
    """An embedding line may name the record by the key that made it."""
    command = command_from_line(line(created_by="a", space=SPACE, vector=[1, 0.5, -2]))
    assert ("a", bytes.fromhex("0000803f0000003f000000c0")) == (
        command.attach_embedding.record.created_by,
        command.attach_embedding.vector,
    )


@pytest.mark.parametrize(
    ("text", "member"),
    [
        (b"[]", None),
        (b"{", None),
        (line(), "operation"),
        (line(operation={"type": "merge"}), "operation.type"),
        (line(operation={"type": ["assert"]}), "operation.type"),
        (line(operation={}), "operation.type"),
        (line(operation={"type": "create", "record": record_json(), "extra": 1}), "operation.extra"),
        (line(scope={}, operation={"type": "create", "record": record_json()}), "scope"),
        (line(contract_version=1, operation={"type": "create", "record": record_json()}), "contract_version"),
        (
            line(operation={"type": "create", "record": record_json(event_time_millis=1.5)}),
            "operation.record.event_time_millis",
        ),
        (line(operation={"type": "assert", "relation": relation(source={"created_by": 1})}), "created_by"),
        (
            line(operation={"type": "assert", "relation": relation(source={"record_id": A})}),
            "operation.relation.source.revision",
        ),
        (line(created_by="a", space=SPACE, vector=["1"]), "vector[0]"),
    ],
)
def test_a_bad_line_names_the_member_at_fault(text: bytes, member: str | None) -> None:
    """Nothing is guessed: a line is one of the documented bodies or it is refused."""
    with pytest.raises(InvalidRequest) as caught:
        command_from_line(text)
    assert member == caught.value.member


@pytest.mark.parametrize(
    ("member", "spelled"),
    [
        ("idempotency_key", "idempotency_key"),
        ("create_record.record.content.primary", "operation.record.content.primary"),
        ("update_record.record_id", "operation.record_id"),
        ("delete_record.expected_revision", "operation.expected_revision"),
        ("derive_record.record.metadata.a", "operation.record.metadata.a"),
        ("derive_record.record", "operation.record"),
        ("derive_record.sources", "operation.derivation.sources"),
        ("derive_record.sources[1].record.record_id", "operation.derivation.sources[1].record_id"),
        ("derive_record.sources[1].created_by", "operation.derivation.sources[1].created_by"),
        ("derive_record.method", "operation.derivation.method"),
        ("assert_relation.target", "operation.relation.target"),
        ("assert_relation.source.record.revision", "operation.relation.source.revision"),
        ("assert_relation.evidence_sources[15].record.record_id", "operation.relation.evidence_sources[15].record_id"),
        ("assert_relation.provenance.model", "operation.relation.provenance.model"),
        ("retire_relation.relation_id", "operation.relation_id"),
        ("review_relation.disposition", "operation.disposition"),
        ("attach_embedding.record.record.record_id", "record_id"),
        ("attach_embedding.record.record.revision", "record_revision"),
        ("attach_embedding.record.created_by", "created_by"),
        ("attach_embedding.space.dimensions", "space.dimensions"),
        ("attach_embedding.vector", "vector"),
    ],
)
def test_members_are_named_as_the_line_spells_them(member: str, spelled: str) -> None:
    """Who wrote the file finds the member in it."""
    assert spelled == line_member(member)

"""Whatever can stand in documented JSON says how it is spelled there."""

from __future__ import annotations

import re

import pytest

from services.gateway.message_shape import MessageShapes
from tests.unit.protos.declared import (
    declared,
    json_enums,
    json_fields,
    json_messages,
)


@pytest.mark.parametrize("name", sorted(json_enums()))
def test_every_enum_value_has_a_word(name: str) -> None:
    """Each value but the zero one has a word of its own; the zero value has none and can never be written."""
    enum = json_enums()[name]
    words = [declared().word(value) for value in enum.values]
    assert words[0] == ""
    assert all(words[1:])
    assert len(set(words)) == len(words)


@pytest.mark.parametrize("name", sorted(set(json_enums()) - {"waggle.common.v1.StandardEpisodeType"}))
def test_names_of_enum_values_say_their_word(name: str) -> None:
    """A value is named after its enum and its word, so that one can be read from the other."""
    enum = json_enums()[name]
    prefix = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", enum.name).upper()
    for value in enum.values[1:]:
        assert value.name == f"{prefix}_{declared().word(value).upper()}"


@pytest.mark.parametrize("name", sorted(json_messages()))
def test_every_oneof_has_a_json_form(name: str) -> None:
    """A oneof in documented JSON is a union with a style, and with a discriminator exactly when it is tagged."""
    for oneof in json_messages()[name].oneofs:
        if len(oneof.fields) == 1 and oneof.name == f"_{oneof.fields[0].name}":
            continue  # the presence of an `optional` field
        union = declared().union_json(oneof)
        assert union is not None
        assert union.style in (1, 2)
        assert bool(union.discriminator) == (union.style == 1)


@pytest.mark.parametrize("name", sorted(json_messages()))
def test_every_message_has_a_shape(name: str) -> None:
    """The gateway finds a JSON form for every message type that it must read or write."""
    shape = MessageShapes(declared()).shape(json_messages()[name])
    assert shape.full_name == name


def test_members_left_out() -> None:
    """Only the documented members are ever left out of an answer; every other unset member is written as null."""
    left_out = {
        field.full_name
        for field in json_fields()
        if declared().field_json(field).omit_unset or declared().field_json(field).omit_empty
    }
    assert left_out == {
        "waggle.common.v1.RelationInput.evidence_sources",
        "waggle.identity.v1.CredentialSpec.scope_policy",
        "waggle.identity.v1.ScopeAuthority.scope_policy",
        "waggle.identity.v1.CredentialEvent.scope_authority_change",
        "waggle.identity.v1.TenantRegistration.display_name",
        "waggle.memory.v1.RelationEligibility.evidence_failure",
    }


def test_raw_members() -> None:
    """Only a record's data and metadata hold any JSON, and metadata only an object."""
    raw = {
        field.full_name: declared().field_json(field).raw_object
        for field in json_fields()
        if declared().field_json(field).raw
    }
    assert raw == {
        "waggle.common.v1.EpisodeContent.data": False,
        "waggle.common.v1.RecordInput.metadata": True,
    }


def test_members_with_another_name() -> None:
    """A member is named as its field, but where the field's name would be a keyword or is not in protobuf style."""
    renamed = {
        field.full_name: declared().field_json(field).name
        for field in json_fields()
        if declared().field_json(field).name
    }
    assert renamed == {
        "waggle.common.v1.EpisodeType.custom": "Custom",
        "waggle.identity.v1.LoginAuthority.global_authority": "global",
        "waggle.memory.v1.RelationOperation.assert_relation": "assert",
        "waggle.retrieval.v1.GraphPathStep.from_record": "from",
        "waggle.retrieval.v1.GraphPathStep.to_record": "to",
    }

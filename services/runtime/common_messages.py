"""Messages of `waggle.common.v1` from documented JSON objects, for every service that answers with them.

The objects are those of the contract with every member present (unset ones None), as they are stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from google.protobuf.descriptor import EnumDescriptor

from waggle.common.v1 import eligibility_pb2, embeddings_pb2, records_pb2, relations_pb2, scope_pb2
from waggle.json.v1 import options_pb2

Json = Mapping[str, Any]


def numbers_by_word(enum: EnumDescriptor) -> dict[str, Any]:
    """The number of each documented word of an enum."""
    words = {value.GetOptions().Extensions[options_pb2.word]: value.number for value in enum.values}
    words.pop("", None)
    return words


def words_by_number(enum: EnumDescriptor) -> dict[int, str]:
    """The documented word of each number of an enum; its zero value has none."""
    return {number: word for word, number in numbers_by_word(enum).items()}


_VISIBILITIES = numbers_by_word(scope_pb2.Visibility.DESCRIPTOR)
_EPISODE_TYPES = numbers_by_word(records_pb2.StandardEpisodeType.DESCRIPTOR)
_DISPOSITIONS = numbers_by_word(records_pb2.Disposition.DESCRIPTOR)
_KINDS = numbers_by_word(relations_pb2.RelationKind.DESCRIPTOR)
_ORIGINS = numbers_by_word(relations_pb2.RelationOrigin.DESCRIPTOR)
_STATES = numbers_by_word(relations_pb2.RelationState.DESCRIPTOR)
_REASONS = numbers_by_word(eligibility_pb2.EligibilityReason.DESCRIPTOR)


def scope_message(value: Json) -> scope_pb2.Scope:
    """Scope."""
    return scope_pb2.Scope(
        project_id=value["project_id"],
        mission_id=value["mission_id"],
        agent_id=value["agent_id"],
        visibility=_VISIBILITIES[value["visibility"]],
    )


def author_message(value: Json) -> records_pb2.Author:
    """Author."""
    return records_pb2.Author(credential_id=value["credential_id"], subject_id=value["subject_id"])


def source_ref_message(value: Json) -> records_pb2.SourceRef:
    """A record at a revision."""
    return records_pb2.SourceRef(record_id=value["record_id"], revision=value["revision"])


def review_message(value: Json | None) -> records_pb2.MemoryReview | None:
    """MemoryReview or nothing."""
    if value is None:
        return None
    return records_pb2.MemoryReview(
        disposition=_DISPOSITIONS[value["disposition"]],
        evidence_ref=value["evidence_ref"],
        author=author_message(value["author"]),
        reviewed_at_millis=value["reviewed_at_millis"],
    )


def derivation_message(value: Json | None) -> records_pb2.MemoryDerivation | None:
    """MemoryDerivation or nothing."""
    if value is None:
        return None
    return records_pb2.MemoryDerivation(
        sources=map(source_ref_message, value["sources"]),
        method=value["method"],
        method_revision=value["method_revision"],
        evidence_ref=value["evidence_ref"],
    )


def episode_type_message(value: str | Json) -> records_pb2.EpisodeType:
    """EpisodeType: a standard word, or {"Custom": name}."""
    if isinstance(value, str):
        return records_pb2.EpisodeType(standard=_EPISODE_TYPES[value])
    return records_pb2.EpisodeType(custom=value["Custom"])


def record_input_message(value: Json | None) -> records_pb2.RecordInput | None:
    """RecordInput, its free-form members as JSON text, or nothing (a tombstone's payload)."""
    if value is None:
        return None
    content = value["content"]
    data, embedding = content["data"], content["embedding"]
    return records_pb2.RecordInput(
        episode_type=episode_type_message(value["episode_type"]),
        content=records_pb2.EpisodeContent(
            primary=content["primary"],
            secondary=content["secondary"],
            context=content["context"],
            data=None if data is None else orjson.dumps(data).decode(),
            embedding=None if embedding is None else records_pb2.AnonymousVector(values=embedding),
        ),
        event_time_millis=value["event_time_millis"],
        valid_until_millis=value["valid_until_millis"],
        tags=value["tags"],
        metadata=orjson.dumps(value["metadata"]).decode(),
    )


def record_message(value: Json) -> records_pb2.MemoryRecord:
    """MemoryRecord."""
    return records_pb2.MemoryRecord(
        schema_version=value["schema_version"],
        record_id=value["record_id"],
        revision=value["revision"],
        created_at_millis=value["created_at_millis"],
        modified_at_millis=value["modified_at_millis"],
        author=author_message(value["author"]),
        payload=record_input_message(value["payload"]),
        review=review_message(value["review"]),
        derivation=derivation_message(value["derivation"]),
    )


def provenance_message(value: Json) -> relations_pb2.RelationProvenance:
    """RelationProvenance."""
    model = value["model"]
    return relations_pb2.RelationProvenance(
        origin=_ORIGINS[value["origin"]],
        method=value["method"],
        method_revision=value["method_revision"],
        evidence_ref=value["evidence_ref"],
        model=None if model is None else relations_pb2.ProvenanceModel(**model),
    )


def relation_input_message(value: Json) -> relations_pb2.RelationInput:
    """RelationInput."""
    return relations_pb2.RelationInput(
        source=source_ref_message(value["source"]),
        target=source_ref_message(value["target"]),
        kind=_KINDS[value["kind"]],
        provenance=provenance_message(value["provenance"]),
        valid_from_millis=value["valid_from_millis"],
        valid_until_millis=value["valid_until_millis"],
        evidence_sources=map(source_ref_message, value.get("evidence_sources", ())),
    )


def relation_message(value: Json) -> relations_pb2.MemoryRelation:
    """MemoryRelation."""
    return relations_pb2.MemoryRelation(
        schema_version=value["schema_version"],
        relation_id=value["relation_id"],
        revision=value["revision"],
        input=relation_input_message(value["input"]),
        reported_by=author_message(value["reported_by"]),
        created_at_millis=value["created_at_millis"],
        modified_at_millis=value["modified_at_millis"],
        state=_STATES[value["state"]],
        review=review_message(value["review"]),
    )


def embedding_receipt_message(value: Json) -> embeddings_pb2.EmbeddingReceipt:
    """EmbeddingReceipt."""
    return embeddings_pb2.EmbeddingReceipt(
        contract_version=value["contract_version"],
        idempotency_key=value["idempotency_key"],
        record_id=value["record_id"],
        record_revision=value["record_revision"],
        space=embeddings_pb2.EmbeddingSpace(**value["space"]),
        vector_digest=value["vector_digest"],
        author=author_message(value["author"]),
        committed_at_millis=value["committed_at_millis"],
    )


def failure_message(
    record_id: str, expected_revision: int | None, actual_revision: int | None, reason: str
) -> eligibility_pb2.EligibilityFailure:
    """EligibilityFailure; `reason` is the documented word."""
    return eligibility_pb2.EligibilityFailure(
        record_id=record_id,
        expected_revision=expected_revision,
        actual_revision=actual_revision,
        reason=_REASONS[reason],
    )

"""Request messages of the memory services, complete but for what a test changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from services.domain.records import SourceRef
from waggle.common.v1 import embeddings_pb2, records_pb2, relations_pb2, scope_pb2
from waggle.memory.v1 import commands_pb2, import_service_pb2, memory_service_pb2, relation_service_pb2, reviews_pb2

SCOPE = scope_pb2.Scope(project_id="p1", agent_id="a1", visibility=scope_pb2.VISIBILITY_SHARED)
SPACE = embeddings_pb2.EmbeddingSpace(provider="local", model="test", revision="1", dimensions=4)
OBSERVATION = records_pb2.EpisodeType(standard=records_pb2.STANDARD_EPISODE_TYPE_OBSERVATION)
UNIT = (1.0, 0.0, 0.0, 0.0)


def record(text: str = "hello", **members: Any) -> records_pb2.RecordInput:
    values = {"episode_type": OBSERVATION, "event_time_millis": 1_700_000_000_000}
    return records_pb2.RecordInput(content=records_pb2.EpisodeContent(primary=text), **(values | members))


def command(key: str, **operation: Any) -> memory_service_pb2.ExecuteCommandRequest:
    return memory_service_pb2.ExecuteCommandRequest(
        contract_version=1,
        idempotency_key=key,
        scope=SCOPE,
        operation=commands_pb2.MemoryOperation(**operation),
    )


def create(key: str, text: str = "hello", **members: Any) -> memory_service_pb2.ExecuteCommandRequest:
    return command(key, create=commands_pb2.CreateRecord(record=record(text, **members)))


def get(record_id: str) -> memory_service_pb2.GetRecordRequest:
    return memory_service_pb2.GetRecordRequest(
        record_id=record_id,
        contract_version=1,
        project_id="p1",
        agent_id="a1",
        visibility=scope_pb2.VISIBILITY_SHARED,
    )


def attach(
    key: str, at: SourceRef, vector: Iterable[float] = UNIT, **members: Any
) -> memory_service_pb2.AttachEmbeddingRequest:
    values: dict[str, Any] = {"space": SPACE}
    return memory_service_pb2.AttachEmbeddingRequest(
        contract_version=1,
        scope=SCOPE,
        idempotency_key=key,
        record_id=at.record_id,
        record_revision=at.revision,
        vector=vector,
        **(values | members),
    )


def review(
    key: str, at: SourceRef, disposition: int = records_pb2.DISPOSITION_APPROVED
) -> reviews_pb2.ReviewRecordRequest:
    return reviews_pb2.ReviewRecordRequest(
        scope=SCOPE,
        command=reviews_pb2.ReviewCommand(
            contract_version=1,
            idempotency_key=key,
            record_id=at.record_id,
            expected_revision=at.revision,
            disposition=disposition,
            evidence_ref="ref",
        ),
    )


def provenance(**members: Any) -> relations_pb2.RelationProvenance:
    values = {
        "origin": relations_pb2.RELATION_ORIGIN_TOOL_OBSERVATION,
        "method": "m",
        "method_revision": "1",
        "evidence_ref": "ref",
    }
    return relations_pb2.RelationProvenance(**(values | members))


def ref(at: SourceRef) -> records_pb2.SourceRef:
    return records_pb2.SourceRef(record_id=at.record_id, revision=at.revision)


def assertion(
    key: str, source: SourceRef, target: SourceRef, **members: Any
) -> relation_service_pb2.ExecuteRelationCommandRequest:
    values = {"kind": relations_pb2.RELATION_KIND_SUPPORTS, "provenance": provenance()}
    value = relations_pb2.RelationInput(source=ref(source), target=ref(target), **(values | members))
    return relation_command(key, assert_relation=relation_service_pb2.AssertRelation(relation=value))


def relation_command(key: str, **operation: Any) -> relation_service_pb2.ExecuteRelationCommandRequest:
    return relation_service_pb2.ExecuteRelationCommandRequest(
        contract_version=1,
        scope=SCOPE,
        idempotency_key=key,
        operation=relation_service_pb2.RelationOperation(**operation),
    )


def import_create(key: str, text: str = "hello", **members: Any) -> import_service_pb2.ImportCommand:
    return import_service_pb2.ImportCommand(
        idempotency_key=key, create_record=commands_pb2.CreateRecord(record=record(text, **members))
    )


def by(key: str) -> import_service_pb2.ImportRef:
    return import_service_pb2.ImportRef(created_by=key)


def import_attach(
    key: str, at: import_service_pb2.ImportRef, vector: Iterable[float] = UNIT
) -> import_service_pb2.ImportCommand:
    raw = np.asarray(list(vector), dtype="<f4").tobytes()
    return import_service_pb2.ImportCommand(
        idempotency_key=key,
        attach_embedding=import_service_pb2.ImportEmbedding(record=at, space=SPACE, vector=raw),
    )


def import_assert(
    key: str, source: import_service_pb2.ImportRef, target: import_service_pb2.ImportRef, **members: Any
) -> import_service_pb2.ImportCommand:
    values = {"kind": relations_pb2.RELATION_KIND_SUPPORTS, "provenance": provenance()}
    return import_service_pb2.ImportCommand(
        idempotency_key=key,
        assert_relation=import_service_pb2.ImportAssertion(source=source, target=target, **(values | members)),
    )


def import_derive(key: str, *sources: import_service_pb2.ImportRef, **members: Any) -> import_service_pb2.ImportCommand:
    values = {"method": "m", "method_revision": "1", "evidence_ref": "ref"}
    return import_service_pb2.ImportCommand(
        idempotency_key=key,
        derive_record=import_service_pb2.ImportDerivation(record=record(), sources=sources, **(values | members)),
    )


def import_requests(
    *messages: Iterable[import_service_pb2.ImportCommand], batch_commands: int | None = None
) -> Iterator[import_service_pb2.ImportCommandsRequest]:
    """The opening, then one message for each group of commands."""
    yield import_service_pb2.ImportCommandsRequest(
        opening=import_service_pb2.ImportOpening(contract_version=1, scope=SCOPE, batch_commands=batch_commands)
    )
    for commands in messages:
        yield import_service_pb2.ImportCommandsRequest(commands=commands)

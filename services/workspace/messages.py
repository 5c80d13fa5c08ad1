"""Conversions between messages and values that the services of workspaces share. Nothing but conversion."""

from __future__ import annotations

from typing import TypedDict, cast

from services.domain.eligibility import DependencyWork, Failure
from services.domain.embeddings import Space
from services.domain.errors import EmbeddingDimensionLimit
from services.domain.receipts import Receipt
from services.domain.records import EpisodeType, SourceRef
from services.domain.relations import Model, Provenance, RelationKind, RelationOrigin
from services.domain.scope import Scope, Visibility, Workspace
from services.runtime.common_messages import (
    author_message,
    failure_message,
    numbers_by_word,
    scope_message,
    words_by_number,
)
from waggle.common.v1 import eligibility_pb2, embeddings_pb2, records_pb2, relations_pb2, scope_pb2, workspaces_pb2
from waggle.memory.v1 import memory_service_pb2, relation_service_pb2

_VISIBILITIES = cast(dict[int, Visibility], words_by_number(scope_pb2.Visibility.DESCRIPTOR))
_EPISODE_TYPES = words_by_number(records_pb2.StandardEpisodeType.DESCRIPTOR)
_KINDS = cast(dict[int, RelationKind], words_by_number(relations_pb2.RelationKind.DESCRIPTOR))
_ORIGINS = cast(dict[int, RelationOrigin], words_by_number(relations_pb2.RelationOrigin.DESCRIPTOR))
_RELATION_ACTIONS = numbers_by_word(relation_service_pb2.RelationAction.DESCRIPTOR)


def scope_from_message(message: scope_pb2.Scope | memory_service_pb2.GetRecordRequest) -> Scope:
    """Scope, also from a request that holds its members directly."""
    return Scope(
        message.project_id,
        message.mission_id if message.HasField("mission_id") else None,
        message.agent_id,
        _VISIBILITIES[message.visibility],
    )


def visibility_from_number(number: int) -> Visibility:
    """The documented word of a visibility."""
    return _VISIBILITIES[number]


def workspace_message(workspace: Workspace) -> workspaces_pb2.Workspace:
    """A workspace as administrators see it."""
    return workspaces_pb2.Workspace(
        workspace_id=workspace.partition.hex(),
        company_id=workspace.company_id,
        scope=scope_message(workspace.scope.as_json()),
        private_subject_id=workspace.private_subject_id,
    )


class CompanyAnswer(TypedDict):
    """The members with which every answer to an administrator about one workspace begins."""

    contract_version: int
    company_id: str
    workspace: workspaces_pb2.Workspace


def company_answer(workspace: Workspace) -> CompanyAnswer:
    """The first members of an answer about this workspace."""
    return CompanyAnswer(contract_version=1, company_id=workspace.company_id, workspace=workspace_message(workspace))


def episode_type_from_message(message: records_pb2.EpisodeType) -> EpisodeType:
    """A standard word, or {"Custom": name}."""
    if message.WhichOneof("kind") == "custom":
        return {"Custom": message.custom}
    return _EPISODE_TYPES[message.standard]


def space_from_message(message: embeddings_pb2.EmbeddingSpace, *, dimensions_max: int, member: str) -> Space:
    """An embedding space.

    Raises:
        EmbeddingDimensionLimit: Its dimensions are above the operator's ceiling.
    """
    if message.dimensions > dimensions_max:
        raise EmbeddingDimensionLimit(f"must be at most {dimensions_max}", member=f"{member}.dimensions")
    return Space(message.provider, message.model, message.revision, message.dimensions)


def source_ref_from_message(message: records_pb2.SourceRef) -> SourceRef:
    """A record at a revision."""
    return SourceRef(message.record_id, message.revision)


def provenance_from_message(message: relations_pb2.RelationProvenance) -> Provenance:
    """Provenance of an assertion."""
    model = message.model
    return Provenance(
        _ORIGINS[message.origin],
        message.method,
        message.method_revision,
        message.evidence_ref,
        Model(model.provider, model.model, model.revision) if message.HasField("model") else None,
    )


def kind_from_number(number: int) -> RelationKind:
    """The documented word of a relation kind."""
    return _KINDS[number]


def relation_receipt_message(receipt: Receipt) -> relation_service_pb2.RelationReceipt:
    """Receipt of a relation command."""
    return relation_service_pb2.RelationReceipt(
        contract_version=receipt["contract_version"],
        idempotency_key=receipt["idempotency_key"],
        relation_id=receipt["relation_id"],
        revision=receipt["revision"],
        action=_RELATION_ACTIONS[receipt["action"]],
        author=author_message(receipt["author"]),
        committed_at_millis=receipt["committed_at_millis"],
        evidence_ref=receipt["evidence_ref"],
        relation_digest=receipt["relation_digest"],
        command_digest=receipt["command_digest"],
        receipt_digest=receipt["receipt_digest"],
    )


def dependency_work_message(work: DependencyWork) -> records_pb2.DependencyWork:
    """Counters of dependency work."""
    return records_pb2.DependencyWork(records_examined=work.records_examined, bytes_examined=work.bytes_examined)


def eligibility_failure_message(failure: Failure | None) -> eligibility_pb2.EligibilityFailure | None:
    """A failed check or nothing."""
    if failure is None:
        return None
    return failure_message(failure.record_id, failure.expected_revision, failure.actual_revision, failure.reason)

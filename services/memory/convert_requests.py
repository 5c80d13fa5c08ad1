"""Commands and queries from request messages that have passed `runtime.validation`. Nothing but conversion."""

from __future__ import annotations

from typing import Any, cast

from services.domain.embeddings import vector_from_numbers
from services.domain.errors import InvalidRequest
from services.domain.records import (
    Content,
    Derivation,
    Disposition,
    RecordInput,
    check_record_input,
)
from services.domain.relations import (
    RelationInput,
    check_relation_input,
)
from services.domain.strict_json import parse_json
from services.memory.commands import (
    AssertRelation,
    AttachEmbedding,
    CreateRecord,
    DeleteRecord,
    DeriveRecord,
    RecordCommand,
    RelationCommand,
    RestoreRelation,
    RetireRelation,
    ReviewRecord,
    ReviewRelation,
    UpdateRecord,
    attach_embedding_command,
)
from services.memory.query_records_ordered import (
    LIMIT_DEFAULT,
    ORDER_DEFAULT,
    SCAN_LIMIT_DEFAULT,
    Order,
    OrderedQuery,
)
from services.memory.record_filter import RecordFilter
from services.runtime.common_messages import words_by_number
from services.workspace.messages import (
    episode_type_from_message,
    kind_from_number,
    provenance_from_message,
    source_ref_from_message,
    space_from_message,
)
from waggle.common.v1 import records_pb2, relations_pb2
from waggle.memory.v1 import (
    commands_pb2,
    company_memory_service_pb2,
    memory_service_pb2,
    reads_pb2,
    relation_service_pb2,
    reviews_pb2,
)

_DISPOSITIONS = cast(dict[int, Disposition], words_by_number(records_pb2.Disposition.DESCRIPTOR))
_ORDERS = cast(dict[int, Order], words_by_number(reads_pb2.RecordOrder.DESCRIPTOR))


def record_input_from_message(message: records_pb2.RecordInput, *, member: str) -> RecordInput:
    """A payload, with its free-form members parsed strictly.

    Raises:
        InvalidRequest: Free-form text is no JSON, metadata is no object, or a rule of `check_record_input` is broken.
    """
    content = message.content
    value = RecordInput(
        episode_type_from_message(message.episode_type),
        Content(
            content.primary,
            content.secondary if content.HasField("secondary") else None,
            content.context if content.HasField("context") else None,
            parse_json(content.data, member=f"{member}.content.data") if content.HasField("data") else None,
            tuple(content.embedding.values) if content.HasField("embedding") else None,
        ),
        message.event_time_millis,
        message.valid_until_millis if message.HasField("valid_until_millis") else None,
        tuple(message.tags),
        _metadata(message, member) if message.HasField("metadata") else None,
    )
    check_record_input(value, member=member)
    return value


def _metadata(message: records_pb2.RecordInput, member: str) -> dict[str, Any]:
    value = parse_json(message.metadata, member=f"{member}.metadata")
    if not isinstance(value, dict):
        raise InvalidRequest("must be an object", member=f"{member}.metadata")
    return value


def create_record_from_message(message: commands_pb2.CreateRecord, *, member: str) -> CreateRecord:
    """Create."""
    return CreateRecord(record_input_from_message(message.record, member=f"{member}.record"))


def update_record_from_message(message: commands_pb2.UpdateRecord, *, member: str) -> UpdateRecord:
    """Update."""
    record = record_input_from_message(message.record, member=f"{member}.record")
    return UpdateRecord(message.record_id, message.expected_revision, record)


def delete_record_from_message(message: commands_pb2.DeleteRecord) -> DeleteRecord:
    """Delete."""
    return DeleteRecord(message.record_id, message.expected_revision)


def record_command_from_message(message: commands_pb2.MemoryOperation) -> RecordCommand:
    """The operation of ExecuteCommand.

    Raises:
        InvalidRequest: See `record_input_from_message`.
    """
    match message.WhichOneof("operation"):
        case "create":
            return create_record_from_message(message.create, member="operation")
        case "update":
            return update_record_from_message(message.update, member="operation")
        case "delete":
            return delete_record_from_message(message.delete)
        case _:
            derivation = message.derive.derivation
            return DeriveRecord(
                record_input_from_message(message.derive.record, member="operation.record"),
                Derivation(
                    tuple(map(source_ref_from_message, derivation.sources)),
                    derivation.method,
                    derivation.method_revision,
                    derivation.evidence_ref,
                ),
            )


def attach_embedding_from_message(
    message: memory_service_pb2.AttachEmbeddingRequest, *, dimensions_max: int
) -> AttachEmbedding:
    """The command of AttachEmbedding.

    Raises:
        EmbeddingDimensionLimit: The dimensions are above the operator's ceiling.
        InvalidRequest: The vector does not fit its space, or is not finite or zero as float32.
    """
    space = space_from_message(message.space, dimensions_max=dimensions_max, member="space")
    return attach_embedding_command(
        record_id=message.record_id,
        record_revision=message.record_revision,
        space=space,
        vector=vector_from_numbers(list(message.vector), space.dimensions, member="vector"),
    )


def review_record_from_message(message: reviews_pb2.ReviewCommand) -> ReviewRecord:
    """The command of ReviewRecord."""
    return ReviewRecord(
        message.record_id, message.expected_revision, _DISPOSITIONS[message.disposition], message.evidence_ref
    )


def relation_input_from_message(message: relations_pb2.RelationInput, *, member: str) -> RelationInput:
    """An assertion.

    Raises:
        InvalidRequest: A rule of `check_relation_input` is broken.
    """
    value = RelationInput(
        source_ref_from_message(message.source),
        source_ref_from_message(message.target),
        kind_from_number(message.kind),
        provenance_from_message(message.provenance),
        message.valid_from_millis if message.HasField("valid_from_millis") else None,
        message.valid_until_millis if message.HasField("valid_until_millis") else None,
        tuple(map(source_ref_from_message, message.evidence_sources)),
    )
    check_relation_input(value, member=member)
    return value


def retire_relation_from_message(message: relation_service_pb2.RetireRelation) -> RetireRelation:
    """Retire."""
    return RetireRelation(message.relation_id, message.expected_revision, message.evidence_ref)


def restore_relation_from_message(message: relation_service_pb2.RestoreRelation) -> RestoreRelation:
    """Restore."""
    return RestoreRelation(message.relation_id, message.expected_revision, message.evidence_ref)


def review_relation_from_message(message: relation_service_pb2.ReviewRelation) -> ReviewRelation:
    """Review a relation."""
    return ReviewRelation(
        message.relation_id, message.expected_revision, message.evidence_ref, _DISPOSITIONS[message.disposition]
    )


def relation_command_from_message(message: relation_service_pb2.RelationOperation) -> RelationCommand:
    """The operation of ExecuteRelationCommand.

    Raises:
        InvalidRequest: A rule of `check_relation_input` is broken.
    """
    match message.WhichOneof("operation"):
        case "assert_relation":
            relation = message.assert_relation.relation
            return AssertRelation(relation_input_from_message(relation, member="operation.relation"))
        case "retire":
            return retire_relation_from_message(message.retire)
        case "restore":
            return restore_relation_from_message(message.restore)
        case _:
            return review_relation_from_message(message.review)


def record_filter_from_message(
    message: reads_pb2.RecordFilter | reads_pb2.OrderedQuery | company_memory_service_pb2.CompanyRecordFilter,
) -> RecordFilter:
    """The content filters of a query."""
    return RecordFilter(
        message.text_contains if message.HasField("text_contains") else None,
        episode_type_from_message(message.episode_type) if message.HasField("episode_type") else None,
        message.tag if message.HasField("tag") else None,
    )


def ordered_query_from_message(message: reads_pb2.OrderedQuery) -> OrderedQuery:
    """The query of QueryRecordsOrdered with its defaults."""
    return OrderedQuery(
        record_filter_from_message(message),
        _ORDERS[message.order] if message.HasField("order") else ORDER_DEFAULT,
        message.limit if message.HasField("limit") else LIMIT_DEFAULT,
        message.scan_limit if message.HasField("scan_limit") else SCAN_LIMIT_DEFAULT,
        message.cursor if message.HasField("cursor") else None,
    )

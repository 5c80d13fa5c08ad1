"""Import commands from messages. Nothing but conversion."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from services.domain import keys
from services.domain.embeddings import vector_from_bytes
from services.domain.errors import InvalidRequest
from services.domain.receipts import EMBEDDING_FAMILY, MEMORY_FAMILY, RELATION_FAMILY
from services.domain.records import Derivation, SourceRef
from services.domain.relations import RelationInput, check_relation_input
from services.memory.commands import AssertRelation, Command, DeriveRecord, attach_embedding_command
from services.memory.convert_requests import (
    create_record_from_message,
    delete_record_from_message,
    record_input_from_message,
    restore_relation_from_message,
    retire_relation_from_message,
    review_relation_from_message,
    update_record_from_message,
)
from services.memory.execute_command import KeyedCommand, keyed_command
from services.memory.import_commands import ImportItem, RecordRef
from services.runtime.identifiers import new_uuid
from services.workspace.messages import (
    kind_from_number,
    provenance_from_message,
    source_ref_from_message,
    space_from_message,
)
from waggle.memory.v1 import import_service_pb2 as pb


def import_item_from_message(message: pb.ImportCommand, *, dimensions_max: int) -> ImportItem:
    """A command that has passed `runtime.validation`, with a new id for whatever it creates.

    Raises:
        InvalidRequest: A rule is broken that needs no look at the partition.
        EmbeddingDimensionLimit: The dimensions are above the operator's ceiling.
    """
    operation = message.WhichOneof("operation")
    match operation:
        case "create_record":
            return _plain(message, create_record_from_message(message.create_record, member=operation), operation)
        case "attach_embedding":
            return _embedding(message, dimensions_max)
        case "assert_relation":
            return _assertion(message)
        case "derive_record":
            return _derivation(message)
        case "update_record":
            update = update_record_from_message(message.update_record, member=operation)
            return _plain(message, update, operation, keys.record_key(update.record_id))
        case "delete_record":
            delete = delete_record_from_message(message.delete_record)
            return _plain(message, delete, operation, keys.record_key(delete.record_id))
        case "retire_relation":
            retire = retire_relation_from_message(message.retire_relation)
            return _plain(message, retire, operation, keys.relation_key(retire.relation_id))
        case "restore_relation":
            restore = restore_relation_from_message(message.restore_relation)
            return _plain(message, restore, operation, keys.relation_key(restore.relation_id))
        case "review_relation":
            review = review_relation_from_message(message.review_relation)
            return _plain(message, review, operation, keys.relation_key(review.relation_id))
        case _:
            raise InvalidRequest("must be chosen", member="operation")


def _plain(message: pb.ImportCommand, command: Command, operation: str, *reads: bytes) -> ImportItem:
    keyed = keyed_command(message.idempotency_key, command, new_id=new_uuid(), member=operation)

    def complete(_refs: Sequence[SourceRef]) -> KeyedCommand:
        return keyed

    return ImportItem(message.idempotency_key, command.family, (), complete, reads)


def _ref(message: pb.ImportRef, member: str) -> RecordRef:
    match message.WhichOneof("target"):
        case "created_by":
            return RecordRef(message.created_by, member)
        case "record":
            return RecordRef(source_ref_from_message(message.record), member)
        case _:
            raise InvalidRequest("must be one of record, created_by", member=member)


def _refs(messages: Iterable[pb.ImportRef], member: str) -> tuple[RecordRef, ...]:
    return tuple(_ref(message, f"{member}[{index}]") for index, message in enumerate(messages))


def _derivation(message: pb.ImportCommand) -> ImportItem:
    body, key, new_id = message.derive_record, message.idempotency_key, new_uuid()
    record = record_input_from_message(body.record, member="derive_record.record")

    def complete(refs: Sequence[SourceRef]) -> KeyedCommand:
        if len({ref.record_id for ref in refs}) < len(refs):
            raise InvalidRequest("must not repeat a record", member="derive_record.sources")
        derivation = Derivation(tuple(refs), body.method, body.method_revision, body.evidence_ref)
        return keyed_command(key, DeriveRecord(record, derivation), new_id=new_id, member="derive_record")

    return ImportItem(key, MEMORY_FAMILY, _refs(body.sources, "derive_record.sources"), complete)


def _embedding(message: pb.ImportCommand, dimensions_max: int) -> ImportItem:
    body, key = message.attach_embedding, message.idempotency_key
    space = space_from_message(body.space, dimensions_max=dimensions_max, member="attach_embedding.space")
    vector = vector_from_bytes(body.vector, space.dimensions, member="attach_embedding.vector")
    draft = attach_embedding_command(record_id="", record_revision=0, space=space, vector=vector)

    def complete(refs: Sequence[SourceRef]) -> KeyedCommand:
        command = draft.bound_to(refs[0])
        return keyed_command(key, command, new_id="", member="attach_embedding")

    ref = _ref(body.record, "attach_embedding.record")
    return ImportItem(key, EMBEDDING_FAMILY, (ref,), complete, space_tag=space.tag)


def _assertion(message: pb.ImportCommand) -> ImportItem:
    body, key, new_id = message.assert_relation, message.idempotency_key, new_uuid()
    provenance = provenance_from_message(body.provenance)

    def complete(refs: Sequence[SourceRef]) -> KeyedCommand:
        value = RelationInput(
            refs[0],
            refs[1],
            kind_from_number(body.kind),
            provenance,
            body.valid_from_millis if body.HasField("valid_from_millis") else None,
            body.valid_until_millis if body.HasField("valid_until_millis") else None,
            tuple(refs[2:]),
        )
        check_relation_input(value, member="assert_relation")
        return keyed_command(key, AssertRelation(value), new_id=new_id, member="assert_relation")

    refs = (
        _ref(body.source, "assert_relation.source"),
        _ref(body.target, "assert_relation.target"),
        *_refs(body.evidence_sources, "assert_relation.evidence_sources"),
    )
    return ImportItem(key, RELATION_FAMILY, refs, complete)

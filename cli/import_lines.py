"""Lines of an import file as commands.

A line is the JSON body of a documented command route without `contract_version` and `scope`:

    {"idempotency_key": "a", "operation": {"type": "create", "record": {...}}}
    {"idempotency_key": "r", "operation": {"type": "assert", "relation": {...}}}
    {"idempotency_key": "v", "record_id": "...", "record_revision": 1, "space": {...}, "vector": [...]}

as for `memory/commands`, `memory/relations/commands` and `memory/embeddings`.

Where a line refers to a record, `{"created_by": "a"}` may stand for `{"record_id": ..., "revision": ...}`: the record
that the create or derive with that key made, earlier in the same file. An embedding says it with the member
`created_by` in place of `record_id` and `record_revision`.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final

import numpy as np

from services.domain.errors import InvalidRequest
from services.domain.strict_json import DEPTH_MAX, parse_json
from services.gateway.descriptors import Descriptors
from services.gateway.json_decoder import DecoderCompiler, MessageDecoder
from services.gateway.message_shape import MessageShapes
from waggle.common.v1 import records_pb2
from waggle.memory.v1 import import_service_pb2, memory_service_pb2, relation_service_pb2

_PLACEHOLDER: Final = {"record_id": "00000000-0000-0000-0000-000000000000", "revision": 1}
# What stands in a record may be as deep as in a request of its own; the line adds its own levels.
_DEPTH_MAX = DEPTH_MAX + 4
_RECORD_OPERATIONS = frozenset({"create", "update", "delete", "derive"})
_RELATION_OPERATIONS = frozenset({"assert", "retire", "restore", "review"})
# Where the members of an import's commands stand in a line. The first row that fits counts.
_LINE_MEMBERS: Final = (
    (re.compile(r"(?:create|update|delete)_record\."), "operation."),
    (re.compile(r"(?:retire|restore|review)_relation\."), "operation."),
    (re.compile(r"derive_record\.(?=record\b)"), "operation."),
    (re.compile(r"derive_record\."), "operation.derivation."),
    (re.compile(r"assert_relation\."), "operation.relation."),
    (re.compile(r"attach_embedding\.record\.record\.revision$"), "record_revision"),
    (re.compile(r"attach_embedding\.record\.(?:record\.)?"), ""),
    (re.compile(r"attach_embedding\."), ""),
)
_REFERENCE: Final = re.compile(r"(\.(?:sources\[\d+\]|evidence_sources\[\d+\]|source|target))\.record\.")
_GIVEN_BY_IMPORT = frozenset({"contract_version", "scope"})

Reference = import_service_pb2.ImportRef
Command = import_service_pb2.ImportCommand


def command_from_line(line: bytes) -> Command:
    """Decode one line.

    Raises:
        InvalidRequest: The line is not one of the three forms; names the member at fault.
    """
    value = parse_json(line, depth_max=_DEPTH_MAX)
    if not isinstance(value, dict):
        raise InvalidRequest("must be a JSON object")
    for name in sorted(_GIVEN_BY_IMPORT & value.keys()):
        raise InvalidRequest("is given by the import, leave it out", member=name)
    if "vector" in value:
        return _embedding(dict(value))
    operation = value.get("operation")
    kind = operation.get("type") if isinstance(operation, dict) else None
    if operation is None:
        raise InvalidRequest("is required, or a space and a vector", member="operation")
    if not isinstance(kind, str):
        kind = ""
    if kind in _RECORD_OPERATIONS and isinstance(operation, dict):
        return _record_command(value, operation)
    if kind in _RELATION_OPERATIONS and isinstance(operation, dict):
        return _relation_command(value, operation)
    known = ", ".join(sorted(_RECORD_OPERATIONS | _RELATION_OPERATIONS))
    raise InvalidRequest(f"must be one of {known}", member="operation.type")


def line_member(member: str) -> str:
    """Spell the path of a member of an import's command as it stands in the line that the command came from."""
    for pattern, replacement in _LINE_MEMBERS:
        found = pattern.match(member)
        if found:
            return _REFERENCE.sub(r"\1.", replacement + member[found.end() :])
    return member


def _record_command(value: dict[str, Any], operation: dict[str, Any]) -> Command:
    references: list[Reference] = []
    derivation = operation.get("derivation")
    if isinstance(derivation, dict) and isinstance(derivation.get("sources"), list):
        sources = [_take_reference(source, references) for source in derivation["sources"]]
        operation = {**operation, "derivation": {**derivation, "sources": sources}}
    decoded = _decoder("ExecuteCommandRequest").decode_value({**value, "operation": operation})
    body = memory_service_pb2.ExecuteCommandRequest.FromString(decoded.SerializeToString())
    command = Command(idempotency_key=body.idempotency_key)
    match body.operation.WhichOneof("operation"):
        case "create":
            command.create_record.CopyFrom(body.operation.create)
        case "update":
            command.update_record.CopyFrom(body.operation.update)
        case "delete":
            command.delete_record.CopyFrom(body.operation.delete)
        case _:
            derive = body.operation.derive
            command.derive_record.record.CopyFrom(derive.record)
            command.derive_record.sources.extend(references)
            command.derive_record.method = derive.derivation.method
            command.derive_record.method_revision = derive.derivation.method_revision
            command.derive_record.evidence_ref = derive.derivation.evidence_ref
    return command


def _relation_command(value: dict[str, Any], operation: dict[str, Any]) -> Command:
    ends: list[Reference] = []
    evidence: list[Reference] = []
    relation = operation.get("relation")
    if isinstance(relation, dict):
        relation = dict(relation)
        for end in ("source", "target"):
            if end in relation:
                relation[end] = _take_reference(relation[end], ends)
        if isinstance(relation.get("evidence_sources"), list):
            relation["evidence_sources"] = [_take_reference(item, evidence) for item in relation["evidence_sources"]]
        operation = {**operation, "relation": relation}
    decoded = _decoder("ExecuteRelationCommandRequest").decode_value({**value, "operation": operation})
    body = relation_service_pb2.ExecuteRelationCommandRequest.FromString(decoded.SerializeToString())
    command = Command(idempotency_key=body.idempotency_key)
    match body.operation.WhichOneof("operation"):
        case "retire":
            command.retire_relation.CopyFrom(body.operation.retire)
        case "restore":
            command.restore_relation.CopyFrom(body.operation.restore)
        case "review":
            command.review_relation.CopyFrom(body.operation.review)
        case _:
            asserted = body.operation.assert_relation.relation
            assertion = command.assert_relation
            assertion.source.CopyFrom(ends[0])
            assertion.target.CopyFrom(ends[1])
            assertion.kind = asserted.kind
            assertion.provenance.CopyFrom(asserted.provenance)
            if asserted.HasField("valid_from_millis"):
                assertion.valid_from_millis = asserted.valid_from_millis
            if asserted.HasField("valid_until_millis"):
                assertion.valid_until_millis = asserted.valid_until_millis
            assertion.evidence_sources.extend(evidence)
    return command


def _embedding(value: dict[str, Any]) -> Command:
    references: list[Reference] = []
    if "created_by" in value:
        _take_reference({"created_by": value.pop("created_by")}, references)
        value |= {"record_id": _PLACEHOLDER["record_id"], "record_revision": 1}
    decoded = _decoder("AttachEmbeddingRequest").decode_value(value)
    body = memory_service_pb2.AttachEmbeddingRequest.FromString(decoded.SerializeToString())
    command = Command(idempotency_key=body.idempotency_key)
    embedding = command.attach_embedding
    if references:
        embedding.record.CopyFrom(references[0])
    else:
        embedding.record.record.record_id = body.record_id
        embedding.record.record.revision = body.record_revision
    embedding.space.CopyFrom(body.space)
    # Beyond float32 it becomes infinite, which the service refuses by name.
    with np.errstate(over="ignore"):
        embedding.vector = np.asarray(body.vector, dtype="<f4").tobytes()
    return command


def _take_reference(value: Any, references: list[Reference]) -> Any:
    """Note a reference, and return what the decoder of the documented JSON shall see in its place."""
    if isinstance(value, dict) and "created_by" in value:
        if len(value) != 1 or not isinstance(value["created_by"], str):
            raise InvalidRequest("must be a string and stand alone in its object", member="created_by")
        references.append(Reference(created_by=value["created_by"]))
        return _PLACEHOLDER
    if isinstance(value, dict):
        record_id, revision = value.get("record_id"), value.get("revision")
        if isinstance(record_id, str) and isinstance(revision, int) and 0 <= revision < 2**64:
            references.append(Reference(record=records_pb2.SourceRef(record_id=record_id, revision=revision)))
    # Whatever else is wrong with it, the decoder says so.
    return value


@cache
def _descriptors() -> Descriptors:
    return Descriptors.load()


@cache
def _decoder(name: str) -> MessageDecoder:
    descriptors = _descriptors()
    message = descriptors.pool.FindMessageTypeByName(f"waggle.memory.v1.{name}")
    return DecoderCompiler(MessageShapes(descriptors)).compile(message, without=_GIVEN_BY_IMPORT)

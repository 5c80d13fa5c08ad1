"""RelationService over gRPC: convert, let `access` run it, convert back."""

from __future__ import annotations

import grpc

from services.domain import keys
from services.domain.scope import Scope
from services.identity.call_token import call_token
from services.memory.access import PartitionAccess
from services.memory.convert_answers import inspection_message, relation_history_message
from services.memory.convert_requests import relation_command_from_message
from services.memory.inspect_relation import inspect_relation
from services.memory.new_command import new_command
from services.memory.read_relation import read_relation
from services.memory.read_relation_revision import read_relation_revision
from services.runtime.common_messages import relation_message
from services.workspace.messages import relation_receipt_message, scope_from_message
from waggle.memory.v1 import relation_service_pb2, relation_service_pb2_grpc

_READ = ("memory_read",)
_READ_AND_REVIEW = ("memory_read", "memory_review")


class RelationServicer(relation_service_pb2_grpc.RelationServiceServicer):
    """Typed relations; every method takes an admission slot."""

    def __init__(self, access: PartitionAccess) -> None:
        self._access = access

    def ExecuteRelationCommand(
        self, request: relation_service_pb2.ExecuteRelationCommandRequest, context: grpc.ServicerContext
    ) -> relation_service_pb2.ExecuteRelationCommandResponse:
        """Assert, retire, restore or review a relation."""
        keyed = new_command(request.idempotency_key, relation_command_from_message(request.operation), "operation")
        receipt = self._access.execute(call_token(context), scope_from_message(request.scope), keyed, takes_slot=True)
        return relation_service_pb2.ExecuteRelationCommandResponse(
            contract_version=1, receipt=relation_receipt_message(receipt)
        )

    def ReadRelation(
        self, request: relation_service_pb2.ReadRelationRequest, context: grpc.ServicerContext
    ) -> relation_service_pb2.ReadRelationResponse:
        """Read one eligible relation."""
        scope, relation_id = _scope_and_relation(request)
        relation = self._access.read(
            call_token(context),
            scope,
            lambda partition: read_relation(partition, relation_id),
            capabilities=_READ,
            takes_slot=True,
            pin=True,
        )
        return relation_service_pb2.ReadRelationResponse(
            contract_version=1, relation=relation_message(relation.as_json()), scope=request.scope
        )

    def InspectRelation(
        self, request: relation_service_pb2.InspectRelationRequest, context: grpc.ServicerContext
    ) -> relation_service_pb2.InspectRelationResponse:
        """Read any relation with whether it is served."""
        scope, relation_id = _scope_and_relation(request)
        inspection = self._access.read(
            call_token(context),
            scope,
            lambda partition: inspect_relation(partition, relation_id),
            capabilities=_READ_AND_REVIEW,
            takes_slot=True,
            pin=True,
        )
        return relation_service_pb2.InspectRelationResponse(
            contract_version=1, inspection=inspection_message(inspection), scope=request.scope
        )

    def ReadRelationRevision(
        self, request: relation_service_pb2.ReadRelationRevisionRequest, context: grpc.ServicerContext
    ) -> relation_service_pb2.ReadRelationRevisionResponse:
        """Read a relation as one command left it."""
        relation_id, revision = request.relation_id, request.revision
        relation, receipt = self._access.read(
            call_token(context),
            scope_from_message(request.scope),
            lambda partition: read_relation_revision(partition, relation_id, revision),
            capabilities=_READ_AND_REVIEW,
            partition_keys=[keys.relation_history_key(relation_id, revision)],
            takes_slot=True,
        )
        return relation_service_pb2.ReadRelationRevisionResponse(
            contract_version=1, history=relation_history_message(relation, receipt), scope=request.scope
        )


def _scope_and_relation(
    request: relation_service_pb2.ReadRelationRequest | relation_service_pb2.InspectRelationRequest,
) -> tuple[Scope, str]:
    return scope_from_message(request.scope), request.relation_id

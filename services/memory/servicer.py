"""MemoryService over gRPC: convert, let `access` run it, convert back."""

from __future__ import annotations

import grpc

from services.domain import keys
from services.identity.call_token import call_token
from services.memory.access import PartitionAccess
from services.memory.batch_read_records import batch_read_records
from services.memory.convert_answers import (
    diagnosis_message,
    memory_receipt_message,
    ordered_page_message,
    record_batch_message,
    record_page_message,
    review_receipt_message,
    review_state_message,
)
from services.memory.convert_requests import (
    attach_embedding_from_message,
    ordered_query_from_message,
    record_command_from_message,
    record_filter_from_message,
    review_record_from_message,
)
from services.memory.diagnose_eligibility import diagnose_eligibility
from services.memory.get_record import get_record
from services.memory.new_command import new_command
from services.memory.query_records import SCAN_LIMIT_DEFAULT, query_records
from services.memory.query_records_ordered import query_records_ordered
from services.memory.read_review import read_review
from services.memory.review_state import review_state
from services.runtime.common_messages import (
    embedding_receipt_message,
    record_message,
    scope_message,
)
from services.workspace.messages import scope_from_message
from waggle.memory.v1 import (
    memory_service_pb2,
    memory_service_pb2_grpc,
    reviews_pb2,
)

_READ = ("memory_read",)
_REVIEW = ("memory_review",)


class MemoryServicer(memory_service_pb2_grpc.MemoryServiceServicer):
    """Records, embeddings and reviews; see the service's proto for what each method does and refuses."""

    def __init__(self, access: PartitionAccess, *, dimensions_max: int, cursor_key: bytes) -> None:
        """Serve through an access.

        Args:
            access: Runs commands and reads.
            dimensions_max: The operator's ceiling for vectors, 1 to 32,768.
            cursor_key: Key that cursors are sealed with, 32 bytes.
        """
        self._access = access
        self._dimensions_max = dimensions_max
        self._cursor_key = cursor_key

    def ExecuteCommand(
        self, request: memory_service_pb2.ExecuteCommandRequest, context: grpc.ServicerContext
    ) -> memory_service_pb2.ExecuteCommandResponse:
        """Create, update, delete or derive a record."""
        keyed = new_command(request.idempotency_key, record_command_from_message(request.operation), "operation")
        receipt = self._access.execute(call_token(context), scope_from_message(request.scope), keyed)
        return memory_service_pb2.ExecuteCommandResponse(contract_version=1, receipt=memory_receipt_message(receipt))

    def GetRecord(
        self, request: memory_service_pb2.GetRecordRequest, context: grpc.ServicerContext
    ) -> memory_service_pb2.GetRecordResponse:
        """Read one eligible record."""
        scope, record_id = scope_from_message(request), request.record_id
        stored = self._access.read(
            call_token(context),
            scope,
            lambda partition: get_record(partition, record_id),
            capabilities=_READ,
            partition_keys=[keys.record_key(record_id)],
        )
        return memory_service_pb2.GetRecordResponse(
            contract_version=1, scope=scope_message(scope.as_json()), record=record_message(stored.json)
        )

    def QueryRecords(
        self, request: memory_service_pb2.QueryRecordsRequest, context: grpc.ServicerContext
    ) -> memory_service_pb2.QueryRecordsResponse:
        """Walk records by id."""
        wanted, narrowing = request.filter, record_filter_from_message(request.filter)
        page = self._access.read(
            call_token(context),
            scope_from_message(request.scope),
            lambda partition: query_records(
                partition,
                narrowing,
                limit=wanted.limit,
                after=wanted.after if wanted.HasField("after") else None,
                scan_limit=wanted.scan_limit if wanted.HasField("scan_limit") else SCAN_LIMIT_DEFAULT,
            ),
            capabilities=_READ,
            pin=True,
        )
        return memory_service_pb2.QueryRecordsResponse(
            contract_version=1, scope=request.scope, page=record_page_message(page)
        )

    def QueryRecordsOrdered(
        self, request: memory_service_pb2.QueryRecordsOrderedRequest, context: grpc.ServicerContext
    ) -> memory_service_pb2.QueryRecordsOrderedResponse:
        """Walk records by time of creation."""
        query = ordered_query_from_message(request.query)
        page = self._access.read(
            call_token(context),
            scope_from_message(request.scope),
            lambda partition: query_records_ordered(partition, query, cursor_key=self._cursor_key),
            capabilities=_READ,
            takes_slot=True,
            pin=True,
        )
        return memory_service_pb2.QueryRecordsOrderedResponse(
            contract_version=1, page=ordered_page_message(page), scope=request.scope
        )

    def BatchReadRecords(
        self, request: memory_service_pb2.BatchReadRecordsRequest, context: grpc.ServicerContext
    ) -> memory_service_pb2.BatchReadRecordsResponse:
        """Read up to 100 records in one snapshot."""
        record_ids = list(request.record_ids)
        batch = self._access.read(
            call_token(context),
            scope_from_message(request.scope),
            lambda partition: batch_read_records(partition, record_ids),
            capabilities=_READ,
            takes_slot=True,
            pin=True,
        )
        return memory_service_pb2.BatchReadRecordsResponse(
            contract_version=1, scope=request.scope, batch=record_batch_message(batch)
        )

    def AttachEmbedding(
        self, request: memory_service_pb2.AttachEmbeddingRequest, context: grpc.ServicerContext
    ) -> memory_service_pb2.AttachEmbeddingResponse:
        """Bind a vector to a record revision."""
        command = attach_embedding_from_message(request, dimensions_max=self._dimensions_max)
        receipt = self._access.execute(
            call_token(context), scope_from_message(request.scope), new_command(request.idempotency_key, command)
        )
        return memory_service_pb2.AttachEmbeddingResponse(
            contract_version=1, receipt=embedding_receipt_message(receipt)
        )

    def ReviewRecord(
        self, request: reviews_pb2.ReviewRecordRequest, context: grpc.ServicerContext
    ) -> reviews_pb2.ReviewRecordResponse:
        """Put a decision on a record."""
        command = review_record_from_message(request.command)
        keyed = new_command(request.command.idempotency_key, command, "command")
        receipt = self._access.execute(call_token(context), scope_from_message(request.scope), keyed)
        return reviews_pb2.ReviewRecordResponse(contract_version=1, receipt=review_receipt_message(receipt))

    def GetReviewState(
        self, request: reviews_pb2.GetReviewStateRequest, context: grpc.ServicerContext
    ) -> reviews_pb2.GetReviewStateResponse:
        """Say how a record stands with its reviewers."""
        record_id = request.record_id
        state = self._access.read(
            call_token(context),
            scope_from_message(request.scope),
            lambda partition: review_state(partition, record_id),
            capabilities=_REVIEW,
            partition_keys=[keys.record_key(record_id)],
        )
        return reviews_pb2.GetReviewStateResponse(
            contract_version=1, scope=request.scope, state=review_state_message(state)
        )

    def ReadReview(
        self, request: reviews_pb2.ReadReviewRequest, context: grpc.ServicerContext
    ) -> reviews_pb2.ReadReviewResponse:
        """Read a past decision."""
        record_id, revision = request.record_id, request.revision
        receipt = self._access.read(
            call_token(context),
            scope_from_message(request.scope),
            lambda partition: read_review(partition, record_id, revision),
            capabilities=_REVIEW,
            partition_keys=[keys.review_key(record_id, revision)],
        )
        return reviews_pb2.ReadReviewResponse(contract_version=1, receipt=review_receipt_message(receipt))

    def DiagnoseEligibility(
        self, request: reviews_pb2.DiagnoseEligibilityRequest, context: grpc.ServicerContext
    ) -> reviews_pb2.DiagnoseEligibilityResponse:
        """Say whether a record is served, and which check fails first."""
        record_id = request.record_id
        diagnosis = self._access.read(
            call_token(context),
            scope_from_message(request.scope),
            lambda partition: diagnose_eligibility(partition, record_id),
            capabilities=_REVIEW,
            partition_keys=[keys.record_key(record_id)],
        )
        return reviews_pb2.DiagnoseEligibilityResponse(
            contract_version=1, scope=request.scope, eligibility=diagnosis_message(diagnosis)
        )

"""ConsolidationService over gRPC: convert, let `access` run it, convert back."""

from __future__ import annotations

import grpc

from services.consolidation.access import READ_AND_WRITE, JobAccess
from services.consolidation.convert_answers import (
    context_message,
    history_message,
    inspection_message,
    page_message,
    receipt_message,
)
from services.consolidation.convert_requests import command_from_message, status_from_number
from services.consolidation.execute_command import keyed_command
from services.consolidation.inspect_job import inspect_job
from services.consolidation.query_jobs import query_jobs
from services.consolidation.read_job_context import read_job_context
from services.domain import keys
from services.domain.lease import LeaseClaim
from services.identity.call_token import call_token
from services.runtime.identifiers import new_uuid
from services.workspace.messages import scope_from_message
from waggle.consolidation.v1 import consolidation_service_pb2, consolidation_service_pb2_grpc


class ConsolidationServicer(consolidation_service_pb2_grpc.ConsolidationServiceServicer):
    """Jobs of the calling subject; see the service's proto for what each method does and refuses."""

    def __init__(self, access: JobAccess) -> None:
        self._access = access

    def ExecuteConsolidationCommand(
        self,
        request: consolidation_service_pb2.ExecuteConsolidationCommandRequest,
        context: grpc.ServicerContext,
    ) -> consolidation_service_pb2.ExecuteConsolidationCommandResponse:
        """Change a job."""
        command = command_from_message(request.operation)
        new_ids = [new_uuid() for _ in range(command.new_id_count)]
        keyed = keyed_command(request.idempotency_key, command, new_ids=new_ids)
        receipt = self._access.execute(call_token(context), scope_from_message(request.scope), keyed)
        return consolidation_service_pb2.ExecuteConsolidationCommandResponse(
            contract_version=1, receipt=receipt_message(receipt)
        )

    def InspectJob(
        self, request: consolidation_service_pb2.InspectJobRequest, context: grpc.ServicerContext
    ) -> consolidation_service_pb2.InspectJobResponse:
        """Read a job and how it stands."""
        job_id = request.job_id
        inspection = self._access.read(
            call_token(context),
            scope_from_message(request.scope),
            lambda jobs, _principal: inspect_job(jobs, job_id),
            partition_keys=self._access.job_and_sources(job_id),
        )
        return consolidation_service_pb2.InspectJobResponse(
            contract_version=1, scope=request.scope, inspection=inspection_message(inspection)
        )

    def ReadJobRevision(
        self, request: consolidation_service_pb2.ReadJobRevisionRequest, context: grpc.ServicerContext
    ) -> consolidation_service_pb2.ReadJobRevisionResponse:
        """Read a job as one command left it."""
        job_id, revision = request.job_id, request.revision
        job, receipt = self._access.read(
            call_token(context),
            scope_from_message(request.scope),
            lambda jobs, _principal: jobs.history(job_id, revision),
            partition_keys=lambda subject_id: [keys.job_history_key(subject_id, job_id, revision)],
        )
        return consolidation_service_pb2.ReadJobRevisionResponse(
            contract_version=1, scope=request.scope, history=history_message(job, receipt)
        )

    def QueryJobs(
        self, request: consolidation_service_pb2.QueryJobsRequest, context: grpc.ServicerContext
    ) -> consolidation_service_pb2.QueryJobsResponse:
        """Walk the caller's jobs by id."""
        query = request.query
        page = self._access.read(
            call_token(context),
            scope_from_message(request.scope),
            lambda jobs, _principal: query_jobs(
                jobs,
                limit=query.limit,
                scan_limit=query.scan_limit,
                after=query.after if query.HasField("after") else None,
                status=status_from_number(query.status) if query.HasField("status") else None,
            ),
            pin=True,
        )
        return consolidation_service_pb2.QueryJobsResponse(
            contract_version=1, scope=request.scope, page=page_message(page)
        )

    def ReadJobContext(
        self, request: consolidation_service_pb2.ReadJobContextRequest, context: grpc.ServicerContext
    ) -> consolidation_service_pb2.ReadJobContextResponse:
        """Read the sources of a running job."""
        job_id, expected_revision, fence = request.job_id, request.expected_revision, request.fence
        found = self._access.read(
            call_token(context),
            scope_from_message(request.scope),
            lambda jobs, principal: read_job_context(
                jobs, job_id, expected_revision, LeaseClaim(principal.credential_id, fence)
            ),
            capabilities=READ_AND_WRITE,
            partition_keys=self._access.job_and_sources(job_id),
        )
        return consolidation_service_pb2.ReadJobContextResponse(
            contract_version=1, scope=request.scope, context=context_message(found, fence)
        )

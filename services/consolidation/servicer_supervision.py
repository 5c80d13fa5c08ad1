"""SupervisionService over gRPC: convert, let `CompanyAccess` run it, convert back."""

from __future__ import annotations

import grpc

from services.consolidation.commands import CancelJob
from services.consolidation.convert_answers import (
    company_page_message,
    history_message,
    inspection_message,
    receipt_message,
)
from services.consolidation.convert_requests import status_from_number
from services.consolidation.execute_command import execute_command, keyed_command
from services.consolidation.inspect_job import inspect_job
from services.consolidation.instruments import counted
from services.consolidation.job_partition import JobPartition
from services.consolidation.query_jobs import JobPlace, query_company_jobs
from services.domain import keys
from services.domain.receipts import CONSOLIDATION_FAMILY, Receipt
from services.identity.call_token import call_token
from services.runtime.fault_points import fault_point
from services.workspace.company_access import CompanyAccess, CompanyVisit
from services.workspace.messages import company_answer
from waggle.consolidation.v1 import supervision_service_pb2 as pb
from waggle.consolidation.v1 import supervision_service_pb2_grpc


class SupervisionServicer(supervision_service_pb2_grpc.SupervisionServiceServicer):
    """Jobs of all owners of a company, for its administrators; every method takes an admission slot."""

    def __init__(self, access: CompanyAccess) -> None:
        self._access = access

    def QueryCompanyJobs(
        self, request: pb.QueryCompanyJobsRequest, context: grpc.ServicerContext
    ) -> pb.QueryCompanyJobsResponse:
        """Walk the jobs of a workspace by owner and id."""
        query = request.query
        after = JobPlace(query.after.owner_id, query.after.job_id) if query.HasField("after") else None
        workspace, page = self._access.visit(
            call_token(context),
            request.workspace_id,
            lambda visit: query_company_jobs(
                visit.partition,
                limit=query.limit,
                scan_limit=query.scan_limit,
                after=after,
                status=status_from_number(query.status) if query.HasField("status") else None,
            ),
            pin=True,
        )
        return pb.QueryCompanyJobsResponse(
            **company_answer(workspace),
            page=company_page_message(page),
        )

    def InspectCompanyJob(
        self, request: pb.InspectCompanyJobRequest, context: grpc.ServicerContext
    ) -> pb.InspectCompanyJobResponse:
        """Read a job and how it stands."""
        owner_id, job_id = request.owner_id, request.job_id
        workspace, inspection = self._access.visit(
            call_token(context),
            request.workspace_id,
            lambda visit: inspect_job(JobPartition(visit.partition, owner_id), job_id),
            partition_keys=[keys.job_key(owner_id, job_id)],
            pin=True,
        )
        return pb.InspectCompanyJobResponse(
            **company_answer(workspace),
            inspection=inspection_message(inspection),
        )

    def ReadCompanyJobRevision(
        self, request: pb.ReadCompanyJobRevisionRequest, context: grpc.ServicerContext
    ) -> pb.ReadCompanyJobRevisionResponse:
        """Read a job as one command left it."""
        owner_id, job_id, revision = request.owner_id, request.job_id, request.revision
        workspace, (job, receipt) = self._access.visit(
            call_token(context),
            request.workspace_id,
            lambda visit: JobPartition(visit.partition, owner_id).history(job_id, revision),
            partition_keys=[keys.job_history_key(owner_id, job_id, revision)],
        )
        return pb.ReadCompanyJobRevisionResponse(
            **company_answer(workspace),
            history=history_message(job, receipt),
        )

    def CancelCompanyJob(
        self, request: pb.CancelCompanyJobRequest, context: grpc.ServicerContext
    ) -> pb.CancelCompanyJobResponse:
        """Cancel a job under one of its owner's idempotency keys, with the administrator as author."""
        owner_id, key = request.owner_id, request.idempotency_key
        command = CancelJob(request.job_id, request.expected_revision, request.evidence_ref)
        keyed = keyed_command(key, command, new_ids=(), member="")

        def run(visit: CompanyVisit) -> Receipt:
            receipt = execute_command(JobPartition(visit.partition, owner_id), visit.principal.author, keyed)
            fault_point("consolidation.before_commit")
            return receipt

        with counted(command.action):
            workspace, receipt = self._access.visit(
                call_token(context),
                request.workspace_id,
                run,
                partition_keys=[
                    keys.receipt_key(CONSOLIDATION_FAMILY, owner_id, key),
                    keys.job_key(owner_id, command.job_id),
                ],
            )
        fault_point("consolidation.after_commit")
        return pb.CancelCompanyJobResponse(
            **company_answer(workspace),
            receipt=receipt_message(receipt),
        )

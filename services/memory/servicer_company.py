"""CompanyMemoryService over gRPC: convert, let `CompanyAccess` run it, convert back."""

from __future__ import annotations

import grpc

from services.domain import keys
from services.identity.call_token import call_token
from services.memory.convert_answers import inspection_message, relation_history_message
from services.memory.convert_company import (
    entry_message,
    inventory_page_message,
    inventory_query_from_message,
    ordered_page_message,
    selection_from_message,
    view_from_message,
    workspace_page_message,
)
from services.memory.convert_requests import ordered_query_from_message
from services.memory.inspect_relation import inspect_relation
from services.memory.query_company_records import query_company_records
from services.memory.query_company_records_ordered import query_company_records_ordered
from services.memory.read_company_record import read_company_record
from services.memory.read_relation_revision import read_relation_revision
from services.workspace.company_access import CompanyAccess
from services.workspace.company_directory import LIMIT_DEFAULT, list_workspaces
from services.workspace.messages import company_answer
from waggle.memory.v1 import company_memory_service_pb2 as pb
from waggle.memory.v1 import company_memory_service_pb2_grpc


class CompanyMemoryServicer(company_memory_service_pb2_grpc.CompanyMemoryServiceServicer):
    """What a company's memory retains, for its administrators; every method takes an admission slot."""

    def __init__(self, access: CompanyAccess, *, cursor_key: bytes) -> None:
        """Serve through an access; cursors are sealed with a key of 32 bytes."""
        self._access = access
        self._cursor_key = cursor_key

    def ListWorkspaces(
        self, request: pb.ListWorkspacesRequest, context: grpc.ServicerContext
    ) -> pb.ListWorkspacesResponse:
        """List the workspaces of the company."""
        limit = request.limit if request.HasField("limit") else LIMIT_DEFAULT
        after = request.after_workspace_id if request.HasField("after_workspace_id") else None

        company_id, page = self._access.survey(
            call_token(context),
            lambda transaction, company_id: list_workspaces(transaction, company_id, limit=limit, after=after),
        )
        return pb.ListWorkspacesResponse(contract_version=1, company_id=company_id, page=workspace_page_message(page))

    def QueryCompanyRecords(
        self, request: pb.QueryCompanyRecordsRequest, context: grpc.ServicerContext
    ) -> pb.QueryCompanyRecordsResponse:
        """Walk the records of a workspace by id."""
        query = inventory_query_from_message(request.filter)
        workspace, page = self._access.visit(
            call_token(context),
            request.workspace_id,
            lambda visit: query_company_records(visit.partition, query),
            pin=True,
        )
        return pb.QueryCompanyRecordsResponse(
            **company_answer(workspace),
            page=inventory_page_message(page),
        )

    def ReadCompanyRecord(
        self, request: pb.ReadCompanyRecordRequest, context: grpc.ServicerContext
    ) -> pb.ReadCompanyRecordResponse:
        """Read one record."""
        record_id = request.record_id
        workspace, retained = self._access.visit(
            call_token(context),
            request.workspace_id,
            lambda visit: read_company_record(visit.partition, record_id),
            partition_keys=[keys.record_key(record_id)],
        )
        return pb.ReadCompanyRecordResponse(
            **company_answer(workspace),
            entry=entry_message(retained),
            record_bytes=retained.stored.size_bytes,
        )

    def QueryCompanyRecordsOrdered(
        self, request: pb.QueryCompanyRecordsOrderedRequest, context: grpc.ServicerContext
    ) -> pb.QueryCompanyRecordsOrderedResponse:
        """Walk the records of the company by time of creation."""
        query, selection = ordered_query_from_message(request.query), selection_from_message(request.selection)
        view = view_from_message(request)
        company_id, page = self._access.survey(
            call_token(context),
            lambda transaction, company_id: query_company_records_ordered(
                transaction, company_id, query, selection=selection, view=view, cursor_key=self._cursor_key
            ),
        )
        return pb.QueryCompanyRecordsOrderedResponse(
            contract_version=1, page=ordered_page_message(page), company_id=company_id
        )

    def InspectCompanyRelation(
        self, request: pb.InspectCompanyRelationRequest, context: grpc.ServicerContext
    ) -> pb.InspectCompanyRelationResponse:
        """Read any relation with whether it is served."""
        relation_id = request.relation_id
        workspace, inspection = self._access.visit(
            call_token(context),
            request.workspace_id,
            lambda visit: inspect_relation(visit.partition, relation_id),
            pin=True,
        )
        return pb.InspectCompanyRelationResponse(
            **company_answer(workspace),
            inspection=inspection_message(inspection),
        )

    def ReadCompanyRelationRevision(
        self, request: pb.ReadCompanyRelationRevisionRequest, context: grpc.ServicerContext
    ) -> pb.ReadCompanyRelationRevisionResponse:
        """Read a relation as one command left it."""
        relation_id, revision = request.relation_id, request.revision
        workspace, (relation, receipt) = self._access.visit(
            call_token(context),
            request.workspace_id,
            lambda visit: read_relation_revision(visit.partition, relation_id, revision),
            partition_keys=[keys.relation_history_key(relation_id, revision)],
        )
        return pb.ReadCompanyRelationRevisionResponse(
            **company_answer(workspace),
            history=relation_history_message(relation, receipt),
        )

"""Requests and answers of CompanyMemoryService from and to the values of this service. Nothing but conversion."""

from __future__ import annotations

from typing import cast

from services.memory.convert_answers import STOP_REASONS, diagnosis_message
from services.memory.convert_requests import record_filter_from_message
from services.memory.query_company_records import LIMIT_DEFAULT, SCAN_LIMIT_DEFAULT, InventoryPage, InventoryQuery
from services.memory.query_company_records_ordered import CompanyOrderedPage
from services.memory.retained_record import VIEW_DEFAULT, RecordView, RetainedRecord
from services.runtime.common_messages import record_message, words_by_number
from services.workspace.company_directory import WorkspacePage, WorkspaceSelection
from services.workspace.messages import dependency_work_message, visibility_from_number, workspace_message
from waggle.memory.v1 import company_memory_service_pb2 as pb

_VIEWS = cast(dict[int, RecordView], words_by_number(pb.RecordView.DESCRIPTOR))


def view_from_message(message: pb.CompanyRecordFilter | pb.QueryCompanyRecordsOrderedRequest) -> RecordView:
    """The view, with its default."""
    return _VIEWS[message.view] if message.HasField("view") else VIEW_DEFAULT


def inventory_query_from_message(message: pb.CompanyRecordFilter) -> InventoryQuery:
    """The filter of QueryCompanyRecords with its defaults."""
    return InventoryQuery(
        record_filter_from_message(message),
        view_from_message(message),
        message.limit if message.HasField("limit") else LIMIT_DEFAULT,
        message.scan_limit if message.HasField("scan_limit") else SCAN_LIMIT_DEFAULT,
        message.after if message.HasField("after") else None,
    )


def selection_from_message(message: pb.CompanySelection) -> WorkspaceSelection:
    """A selection of workspaces."""
    return WorkspaceSelection(
        message.project_id if message.HasField("project_id") else None,
        message.agent_id if message.HasField("agent_id") else None,
        message.private_subject_id if message.HasField("private_subject_id") else None,
        message.workspace_id if message.HasField("workspace_id") else None,
        visibility_from_number(message.visibility) if message.HasField("visibility") else None,
    )


def workspace_page_message(page: WorkspacePage) -> pb.WorkspacePage:
    """A page of workspaces."""
    return pb.WorkspacePage(workspaces=map(workspace_message, page.workspaces), next_after_workspace_id=page.next_after)


def entry_message(retained: RetainedRecord) -> pb.CompanyRecordEntry:
    """A retained record."""
    return pb.CompanyRecordEntry(
        record=record_message(retained.stored.json), eligibility=diagnosis_message(retained.eligibility)
    )


def inventory_page_message(page: InventoryPage) -> pb.CompanyRecordPage:
    """A page in id order."""
    return pb.CompanyRecordPage(
        entries=map(entry_message, page.entries),
        next_after=page.next_after,
        stop_reason=STOP_REASONS[page.stop_reason],
        evaluated_at_millis=page.evaluated_at_millis,
        scanned_records=page.scanned_records,
        record_bytes=page.record_bytes,
        dependency_work=dependency_work_message(page.dependency_work),
    )


def ordered_page_message(page: CompanyOrderedPage) -> pb.CompanyOrderedPage:
    """A page by time of creation."""
    return pb.CompanyOrderedPage(
        stop_reason=STOP_REASONS[page.stop_reason],
        evaluated_at_millis=page.evaluated_at_millis,
        scanned_records=page.scanned_records,
        record_bytes=page.record_bytes,
        dependency_work=dependency_work_message(page.dependency_work),
        next_cursor=page.next_cursor,
        entries=[
            pb.PlacedRecordEntry(
                record=record_message(entry.retained.stored.json),
                eligibility=diagnosis_message(entry.retained.eligibility),
                workspace=workspace_message(entry.workspace),
            )
            for entry in page.entries
        ],
    )

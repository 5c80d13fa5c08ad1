"""Answer messages from the values of this service. Nothing but conversion."""

from __future__ import annotations

from services.domain.receipts import Receipt
from services.domain.relations import Relation
from services.memory.batch_read_records import RecordBatch
from services.memory.diagnose_eligibility import Diagnosis
from services.memory.inspect_relation import Inspection
from services.memory.query_records import RecordPage
from services.memory.query_records_ordered import OrderedPage
from services.memory.review_state import ReviewState
from services.runtime.common_messages import (
    author_message,
    numbers_by_word,
    record_message,
    relation_message,
    review_message,
    source_ref_message,
)
from services.workspace.messages import (
    dependency_work_message,
    eligibility_failure_message,
    relation_receipt_message,
)
from waggle.memory.v1 import commands_pb2, reads_pb2, relation_service_pb2, reviews_pb2

_MEMORY_ACTIONS = numbers_by_word(commands_pb2.MemoryAction.DESCRIPTOR)
_RELATION_REASONS = numbers_by_word(relation_service_pb2.RelationEligibilityReason.DESCRIPTOR)
STOP_REASONS = numbers_by_word(reads_pb2.PageStopReason.DESCRIPTOR)


def memory_receipt_message(receipt: Receipt) -> commands_pb2.MemoryReceipt:
    """Receipt of a memory command."""
    return commands_pb2.MemoryReceipt(
        contract_version=receipt["contract_version"],
        idempotency_key=receipt["idempotency_key"],
        record_id=receipt["record_id"],
        revision=receipt["revision"],
        action=_MEMORY_ACTIONS[receipt["action"]],
        committed_at_millis=receipt["committed_at_millis"],
        author=author_message(receipt["author"]),
    )


def review_receipt_message(receipt: Receipt) -> reviews_pb2.ReviewReceipt:
    """Receipt of a review decision."""
    return reviews_pb2.ReviewReceipt(
        contract_version=receipt["contract_version"],
        idempotency_key=receipt["idempotency_key"],
        record_id=receipt["record_id"],
        revision=receipt["revision"],
        review=review_message(receipt["review"]),
        receipt_digest=receipt["receipt_digest"],
    )


def record_page_message(page: RecordPage) -> reads_pb2.RecordPage:
    """A page in id order."""
    return reads_pb2.RecordPage(
        records=[record_message(record.json) for record in page.records],
        next_after=page.next_after,
        scanned_records=page.scanned_records,
        dependency_work=dependency_work_message(page.dependency_work),
    )


def ordered_page_message(page: OrderedPage) -> reads_pb2.OrderedPage:
    """A page in the order of creation."""
    return reads_pb2.OrderedPage(
        stop_reason=STOP_REASONS[page.stop_reason],
        evaluated_at_millis=page.evaluated_at_millis,
        scanned_records=page.scanned_records,
        record_bytes=page.record_bytes,
        dependency_work=dependency_work_message(page.dependency_work),
        next_cursor=page.next_cursor,
        records=[record_message(record.json) for record in page.records],
    )


def record_batch_message(batch: RecordBatch) -> reads_pb2.RecordBatch:
    """The answer of a batch read."""
    return reads_pb2.RecordBatch(
        evaluated_at_millis=batch.evaluated_at_millis,
        entries=[
            reads_pb2.BatchEntry(record_id=record_id, record=None if record is None else record_message(record.json))
            for record_id, record in batch.entries
        ],
        record_bytes=batch.record_bytes,
        dependency_work=dependency_work_message(batch.dependency_work),
    )


def review_state_message(state: ReviewState) -> reviews_pb2.ReviewState:
    """How a record stands."""
    return reviews_pb2.ReviewState(
        record_id=state.record_id,
        revision=state.revision,
        review=review_message(None if state.review is None else state.review.as_json()),
        deleted=state.deleted,
        expired=state.expired,
    )


def diagnosis_message(diagnosis: Diagnosis) -> reviews_pb2.RecordEligibility:
    """A verdict on a record."""
    verdict = diagnosis.verdict
    return reviews_pb2.RecordEligibility(
        record_id=diagnosis.record_id,
        revision=diagnosis.revision,
        eligible=verdict.eligible,
        evaluated_at_millis=diagnosis.evaluated_at_millis,
        first_failure=eligibility_failure_message(verdict.failure),
        dependencies_checked=verdict.dependencies_checked,
        max_depth_examined=verdict.max_depth_examined,
        all_dependencies_checked=verdict.all_dependencies_checked,
        dependency_work=dependency_work_message(diagnosis.dependency_work),
    )


def inspection_message(inspection: Inspection) -> relation_service_pb2.RelationInspection:
    """A relation with the verdict on it."""
    verdict = inspection.verdict
    return relation_service_pb2.RelationInspection(
        relation=relation_message(inspection.relation.as_json()),
        eligibility=relation_service_pb2.RelationEligibility(
            eligible=verdict.eligible,
            reason=_RELATION_REASONS[verdict.reason],
            evaluated_at_millis=inspection.evaluated_at_millis,
            endpoint=None if verdict.endpoint is None else source_ref_message(verdict.endpoint.as_json()),
            dependency_work=dependency_work_message(inspection.dependency_work),
            evidence_failure=eligibility_failure_message(verdict.evidence_failure),
        ),
    )


def relation_history_message(relation: Relation, receipt: Receipt) -> relation_service_pb2.RelationHistory:
    """A relation as one command left it."""
    return relation_service_pb2.RelationHistory(
        relation=relation_message(relation.as_json()), receipt=relation_receipt_message(receipt)
    )

"""Answer messages from the values of this service. Nothing but conversion."""

from __future__ import annotations

from services.consolidation.inspect_job import JobInspection
from services.consolidation.query_jobs import CompanyJobPage, JobPage
from services.consolidation.read_job_context import JobContext
from services.domain.job_summaries import JobSummary
from services.domain.jobs import Attempt, Job, JobSpec, Usage
from services.domain.lease import Moment
from services.domain.receipts import Receipt
from services.runtime.common_messages import (
    author_message,
    numbers_by_word,
    provenance_message,
    record_message,
    source_ref_message,
)
from services.workspace.messages import (
    dependency_work_message,
    eligibility_failure_message,
    relation_receipt_message,
)
from waggle.consolidation.v1 import commands_pb2, consolidation_service_pb2, jobs_pb2, supervision_service_pb2

_STATUSES = numbers_by_word(jobs_pb2.ConsolidationStatus.DESCRIPTOR)
_OUTCOMES = numbers_by_word(jobs_pb2.AttemptOutcome.DESCRIPTOR)
_ACTIONS = numbers_by_word(commands_pb2.ConsolidationAction.DESCRIPTOR)


def receipt_message(receipt: Receipt) -> commands_pb2.ConsolidationReceipt:
    """Receipt of a command."""
    return commands_pb2.ConsolidationReceipt(
        contract_version=receipt["contract_version"],
        idempotency_key=receipt["idempotency_key"],
        job_id=receipt["job_id"],
        revision=receipt["revision"],
        action=_ACTIONS[receipt["action"]],
        author=author_message(receipt["author"]),
        committed_at_millis=receipt["committed_at_millis"],
        job_digest=receipt["job_digest"],
        command_digest=receipt["command_digest"],
        receipt_digest=receipt["receipt_digest"],
    )


def usage_message(usage: Usage) -> jobs_pb2.ConsolidationUsage:
    """Usage."""
    if usage is None:
        return jobs_pb2.ConsolidationUsage(unknown=jobs_pb2.UnknownUsage())
    reported = jobs_pb2.ReportedUsage(
        model_calls=usage.model_calls,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost_microusd=usage.cost_microusd,
    )
    return jobs_pb2.ConsolidationUsage(reported=reported)


def attempt_message(attempt: Attempt) -> jobs_pb2.ConsolidationAttempt:
    """An attempt."""
    lease = attempt.lease
    return jobs_pb2.ConsolidationAttempt(
        number=attempt.number,
        worker_id=attempt.worker_id,
        credential_id=lease.credential_id,
        fence=lease.fence,
        storage_incarnation=lease.incarnation,
        claimed_at_millis=lease.claimed_at_millis,
        expires_at_millis=lease.expires_at_millis,
        ended_at_millis=attempt.ended_at_millis,
        outcome=_OUTCOMES[attempt.outcome],
        usage=usage_message(attempt.usage),
        evidence_ref=attempt.evidence_ref,
        usage_evidence_ref=attempt.usage_evidence_ref,
    )


def spec_message(spec: JobSpec) -> jobs_pb2.ConsolidationSpec:
    """What a job asks for."""
    return jobs_pb2.ConsolidationSpec(
        sources=[source_ref_message(source.as_json()) for source in spec.sources],
        objective=spec.objective,
        policy_ref=spec.policy_ref,
        extractor=provenance_message(spec.extractor.as_json()),
        max_relations=spec.max_relations,
        max_attempts=spec.max_attempts,
        lease_millis=spec.lease_millis,
        max_attempt_millis=spec.max_attempt_millis,
    )


def job_message(job: Job) -> jobs_pb2.ConsolidationJob:
    """A job."""
    return jobs_pb2.ConsolidationJob(
        schema_version=1,
        job_id=job.job_id,
        revision=job.revision,
        created_by=author_message(job.created_by.as_json()),
        created_at_millis=job.created_at_millis,
        modified_at_millis=job.modified_at_millis,
        spec=spec_message(job.spec),
        status=_STATUSES[job.status],
        attempts=map(attempt_message, job.attempts),
        output_receipts=map(relation_receipt_message, job.output_receipts),
    )


def inspection_message(inspection: JobInspection) -> consolidation_service_pb2.JobInspection:
    """A job and how it stands."""
    return consolidation_service_pb2.JobInspection(
        job=job_message(inspection.job),
        evaluated_at_millis=inspection.evaluated_at_millis,
        lease_active=inspection.lease_active,
        recoverable=inspection.recoverable,
        source_failure=eligibility_failure_message(inspection.source_failure),
        dependency_work=dependency_work_message(inspection.dependency_work),
    )


def history_message(job: Job, receipt: Receipt) -> consolidation_service_pb2.JobHistory:
    """A job as one command left it."""
    return consolidation_service_pb2.JobHistory(job=job_message(job), receipt=receipt_message(receipt))


def page_message(page: JobPage) -> consolidation_service_pb2.JobPage:
    """A page of jobs."""
    return consolidation_service_pb2.JobPage(
        jobs=[summary_message(summary, page.moment) for summary in page.jobs],
        next_after=page.next_after,
        records_examined=page.records_examined,
        record_bytes=page.record_bytes,
        evaluated_at_millis=page.moment.now_ms,
    )


def company_page_message(page: CompanyJobPage) -> supervision_service_pb2.CompanyJobPage:
    """A page of the jobs of all owners."""
    after = page.next_after
    return supervision_service_pb2.CompanyJobPage(
        jobs=[
            supervision_service_pb2.CompanyJobEntry(
                owner_id=job.owner_id, summary=summary_message(job.summary, page.moment)
            )
            for job in page.jobs
        ],
        next_after=None
        if after is None
        else supervision_service_pb2.JobCursor(owner_id=after.owner_id, job_id=after.job_id),
        records_examined=page.records_examined,
        record_bytes=page.record_bytes,
        evaluated_at_millis=page.moment.now_ms,
    )


def summary_message(summary: JobSummary, moment: Moment) -> jobs_pb2.ConsolidationJobSummary:
    """A job in a list."""
    return jobs_pb2.ConsolidationJobSummary(
        job_id=summary.job_id,
        revision=summary.revision,
        status=_STATUSES[summary.status],
        created_at_millis=summary.created_at_millis,
        modified_at_millis=summary.modified_at_millis,
        attempts=summary.attempt_count,
        lease_active=summary.is_lease_active(moment),
        recoverable=summary.is_recoverable(moment),
    )


def context_message(context: JobContext, fence: str) -> consolidation_service_pb2.JobContext:
    """What a worker works on."""
    return consolidation_service_pb2.JobContext(
        job_id=context.job.job_id,
        job_revision=context.job.revision,
        fence=fence,
        records=[record_message(record.json) for record in context.manifest.records],
        evaluated_at_millis=context.evaluated_at_millis,
        record_bytes=context.manifest.record_bytes,
        dependency_work=dependency_work_message(context.manifest.work),
    )

"""Commands and queries from request messages that have passed `runtime.validation`. Nothing but conversion."""

from __future__ import annotations

from typing import cast

from services.consolidation.commands import (
    CancelJob,
    ClaimJob,
    Command,
    CreateJob,
    FailAttempt,
    PublishJob,
    ReconcileUsage,
    RecoverExpired,
    RenewLease,
)
from services.domain.errors import InvalidRequest
from services.domain.jobs import Assertion, JobSpec, JobStatus, ReportedUsage, Usage, check_spec
from services.runtime.common_messages import words_by_number
from services.workspace.messages import kind_from_number, provenance_from_message, source_ref_from_message
from waggle.consolidation.v1 import commands_pb2, jobs_pb2

_STATUSES = cast(dict[int, JobStatus], words_by_number(jobs_pb2.ConsolidationStatus.DESCRIPTOR))


def status_from_number(number: int) -> JobStatus:
    """The documented word of a status."""
    return _STATUSES[number]


def spec_from_message(message: jobs_pb2.ConsolidationSpec, *, member: str) -> JobSpec:
    """What a job asks for.

    Raises:
        InvalidRequest: A rule of `check_spec` is broken.
    """
    spec = JobSpec(
        tuple(map(source_ref_from_message, message.sources)),
        message.objective,
        message.policy_ref,
        provenance_from_message(message.extractor),
        message.max_relations,
        message.max_attempts,
        message.lease_millis,
        message.max_attempt_millis,
    )
    check_spec(spec, member=member)
    return spec


def usage_from_message(message: jobs_pb2.ConsolidationUsage) -> Usage:
    """Usage in figures, None for an unknown one."""
    if message.WhichOneof("usage") == "unknown":
        return None
    reported = message.reported
    return ReportedUsage(
        reported.model_calls,
        reported.input_tokens,
        reported.output_tokens,
        reported.cost_microusd if reported.HasField("cost_microusd") else None,
    )


def assertion_from_message(message: commands_pb2.ConsolidationAssertion) -> Assertion:
    """A relation to publish."""
    return Assertion(
        source_ref_from_message(message.source),
        source_ref_from_message(message.target),
        kind_from_number(message.kind),
        message.evidence_ref,
        message.valid_from_millis if message.HasField("valid_from_millis") else None,
        message.valid_until_millis if message.HasField("valid_until_millis") else None,
    )


def command_from_message(message: commands_pb2.ConsolidationOperation) -> Command:
    """The operation of ExecuteConsolidationCommand.

    Raises:
        InvalidRequest: A rule of `check_spec` is broken, or usage is reconciled with unknown usage.
    """
    match message.WhichOneof("operation"):
        case "create":
            return CreateJob(spec_from_message(message.create.spec, member="operation.spec"))
        case "claim":
            claim = message.claim
            return ClaimJob(claim.job_id, claim.expected_revision, claim.worker_id)
        case "renew":
            renew = message.renew
            return RenewLease(renew.job_id, renew.expected_revision, renew.fence)
        case "publish":
            publish = message.publish
            return PublishJob(
                publish.job_id,
                publish.expected_revision,
                publish.fence,
                tuple(map(assertion_from_message, publish.assertions)),
                usage_from_message(publish.usage),
                publish.evidence_ref,
            )
        case "fail":
            fail = message.fail
            return FailAttempt(
                fail.job_id, fail.expected_revision, fail.fence, usage_from_message(fail.usage), fail.evidence_ref
            )
        case "recover_expired":
            recover = message.recover_expired
            return RecoverExpired(recover.job_id, recover.expected_revision, recover.evidence_ref)
        case "cancel":
            cancel = message.cancel
            return CancelJob(cancel.job_id, cancel.expected_revision, cancel.evidence_ref)
        case _:
            return _reconcile_usage_from_message(message.reconcile_usage)


def _reconcile_usage_from_message(message: commands_pb2.ReconcileUsage) -> ReconcileUsage:
    usage = usage_from_message(message.usage)
    if usage is None:
        raise InvalidRequest("must be reported", member="operation.usage.status")
    return ReconcileUsage(
        message.job_id, message.expected_revision, message.attempt_number, usage, message.evidence_ref
    )

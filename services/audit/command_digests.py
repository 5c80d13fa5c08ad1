"""What the digest of a command must have been, worked out from what the command left."""

from __future__ import annotations

from typing import Any

from services.audit.stored_values import require
from services.consolidation.commands import CancelJob, ClaimJob, CreateJob, FailAttempt, RecoverExpired, RenewLease
from services.domain.jobs import Job
from services.domain.receipts import CONSOLIDATION_FAMILY, Receipt, command_digest
from services.domain.records import Record
from services.domain.relations import Relation
from services.memory.commands import (
    AssertRelation,
    CreateRecord,
    DeleteRecord,
    DeriveRecord,
    RestoreRelation,
    RetireRelation,
    ReviewRecord,
    ReviewRelation,
    UpdateRecord,
)

_PROBLEM = "is not what its command asked for, by the command's digest"


def check_record_command(record: Record, action: str, revision: int, digest: str) -> None:
    """Check the payload of a record against the command that wrote it.

    Args:
        record: As it is now; only decisions came after the command.
        action: What the command's receipt says.
        revision: The revision that it made.
        digest: Of the command.

    Raises:
        Unsound: They differ.
    """
    command: Any = None
    payload, derivation = record.payload, record.derivation
    if action == "deleted" and payload is None:
        command = DeleteRecord(record.record_id, revision - 1)
    elif payload is not None and action == "created":
        command = CreateRecord(payload)
    elif payload is not None and action == "derived" and derivation is not None:
        command = DeriveRecord(payload, derivation)
    elif payload is not None and action == "updated":
        command = UpdateRecord(record.record_id, revision - 1, payload)
    require(command is not None and _digest(command) == digest, _PROBLEM)


def check_review_command(receipt: Receipt, digest: str) -> None:
    """Check a decision on a record against its command. Raises Unsound."""
    review = receipt["review"]
    command = ReviewRecord(receipt["record_id"], receipt["revision"] - 1, review["disposition"], review["evidence_ref"])
    require(_digest(command) == digest, _PROBLEM)


def check_embedding_command(receipt: Receipt, digest: str) -> None:
    """Check a binding's receipt against its command. Raises Unsound."""
    members = ("record_id", "record_revision", "space", "vector_digest")
    require(command_digest(b"e", {member: receipt[member] for member in members}) == digest, _PROBLEM)


def check_relation_command(relation: Relation, receipt: Receipt) -> None:
    """Check a revision of a relation against its command, unless a job has published it. Raises Unsound."""
    before, evidence_ref = relation.revision - 1, receipt["evidence_ref"]
    command: Any
    match receipt["action"]:
        case "asserted":
            command = AssertRelation(relation.input)
        case "retired":
            command = RetireRelation(relation.relation_id, before, evidence_ref)
        case "restored":
            command = RestoreRelation(relation.relation_id, before, evidence_ref)
        case _:
            disposition = "unreviewed" if relation.review is None else relation.review.disposition
            command = ReviewRelation(relation.relation_id, before, evidence_ref, disposition)
    require(_digest(command) == receipt["command_digest"], _PROBLEM)


def check_job_command(job: Job, receipt: Receipt) -> None:
    """Check a revision of a job against its command, where the job still tells all of it. Raises Unsound."""
    before = job.revision - 1
    attempt = job.attempts[-1] if job.attempts else None
    command: Any
    match receipt["action"]:
        case "created":
            command = CreateJob(job.spec)
        case "claimed" if attempt is not None:
            command = ClaimJob(job.job_id, before, attempt.worker_id)
        case "renewed" if attempt is not None:
            command = RenewLease(job.job_id, before, attempt.lease.fence)
        case "failed" if attempt is not None:
            evidence_ref = attempt.evidence_ref or ""
            command = FailAttempt(job.job_id, before, attempt.lease.fence, attempt.usage, evidence_ref)
        case "recovered" if attempt is not None:
            command = RecoverExpired(job.job_id, before, attempt.evidence_ref or "")
        case "cancelled" if attempt is not None and attempt.ended_at_millis == job.modified_at_millis:
            command = CancelJob(job.job_id, before, attempt.evidence_ref or "")
        case _:
            # A publication tells its relations elsewhere, and a reconciliation not which attempt it was about.
            return
    digest = command_digest(CONSOLIDATION_FAMILY, command.normalized())
    require(digest == receipt["command_digest"], _PROBLEM)


def _digest(command: Any) -> str:
    return command_digest(command.family, command.normalized())

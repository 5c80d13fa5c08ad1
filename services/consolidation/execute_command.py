"""Execute one command under its idempotency key, inside a transaction that is already authorized."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from services.consolidation.cancel_job import cancel_job
from services.consolidation.claim_job import claim_job
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
from services.consolidation.create_job import create_job
from services.consolidation.fail_attempt import fail_attempt
from services.consolidation.job_partition import JobPartition
from services.consolidation.publish_job import publish_job
from services.consolidation.reconcile_usage import reconcile_usage
from services.consolidation.recover_expired import recover_expired
from services.consolidation.renew_lease import renew_lease
from services.domain.errors import WaggleError
from services.domain.jobs import Job
from services.domain.receipts import CONSOLIDATION_FAMILY, Receipt, command_digest
from services.domain.records import Author

MEMBER = "operation"


@dataclass(frozen=True, slots=True)
class KeyedCommand:
    """A command under its idempotency key.

    Attributes:
        digest: Digest of the normalised command.
        new_ids: As many new ids as the command needs, chosen before the transaction so that a rerun makes the same.
        member: Path of the command's members in the request.
    """

    idempotency_key: str
    command: Command
    digest: str
    new_ids: tuple[str, ...]
    member: str = MEMBER


def keyed_command(
    idempotency_key: str, command: Command, *, new_ids: Sequence[str], member: str = MEMBER
) -> KeyedCommand:
    """The command with its digest."""
    digest = command_digest(CONSOLIDATION_FAMILY, command.normalized())
    return KeyedCommand(idempotency_key, command, digest, tuple(new_ids), member)


def execute_command(jobs: JobPartition, author: Author, keyed: KeyedCommand) -> Receipt:
    """Replay the receipt of a command that was committed before, or apply its rules and buffer all that it changes.

    A refused command leaves nothing behind, its idempotency key included: every operation checks before it writes.

    Args:
        jobs: The jobs of the owner, whose idempotency keys these are.
        author: Who executes.
        keyed: The command.

    Raises:
        IdempotencyConflict: The key was used with another command.
        WaggleError: What the operation refuses.
    """
    key, digest = keyed.idempotency_key, keyed.digest
    original = jobs.memory.replayed_receipt(jobs.receipt_key(key), digest)
    if original is not None:
        return original
    try:
        job = _apply(jobs, author, keyed)
    except WaggleError as error:
        if keyed.member and error.member:
            error.member = f"{keyed.member}.{error.member}"
        elif error.member == "type":
            # A command that is a method of its own has no type that a caller could have chosen wrongly.
            error.member = None
        raise
    return jobs.put_step(job, action=keyed.command.action, author=author, idempotency_key=key, digest=digest)


def _apply(jobs: JobPartition, author: Author, keyed: KeyedCommand) -> Job:
    match keyed.command:
        case CreateJob() as command:
            return create_job(jobs, author, command, job_id=keyed.new_ids[0])
        case ClaimJob() as command:
            return claim_job(jobs, author, command, fence=keyed.new_ids[0])
        case RenewLease() as command:
            return renew_lease(jobs, author, command)
        case PublishJob() as command:
            return publish_job(
                jobs,
                author,
                command,
                relation_ids=keyed.new_ids,
                idempotency_key=keyed.idempotency_key,
                digest=keyed.digest,
            )
        case FailAttempt() as command:
            return fail_attempt(jobs, author, command)
        case RecoverExpired() as command:
            return recover_expired(jobs, command)
        case CancelJob() as command:
            return cancel_job(jobs, command)
        case ReconcileUsage() as command:
            return reconcile_usage(jobs, command)

"""What the owner of jobs can ask to be changed, as values.

`normalized` is the effective content that a command's digest covers: defaults written out, without scope and key.
`new_id_count` is how many identifiers the command needs; they are made before its transaction, so that a rerun makes
the same ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from services.domain.jobs import Assertion, JobSpec, ReportedUsage, Usage, usage_as_json
from services.domain.receipts import JobAction


@dataclass(frozen=True, slots=True)
class CreateJob:
    """Create a job."""

    action: ClassVar[JobAction] = "created"
    new_id_count: ClassVar[int] = 1

    spec: JobSpec

    def normalized(self) -> dict[str, Any]:
        """Effective content."""
        return {"type": "create", "spec": self.spec.as_json()}


@dataclass(frozen=True, slots=True)
class ClaimJob:
    """Start the next attempt of a ready job."""

    action: ClassVar[JobAction] = "claimed"
    new_id_count: ClassVar[int] = 1

    job_id: str
    expected_revision: int
    worker_id: str

    def normalized(self) -> dict[str, Any]:
        """Effective content."""
        return {
            "type": "claim",
            "job_id": self.job_id,
            "expected_revision": self.expected_revision,
            "worker_id": self.worker_id,
        }


@dataclass(frozen=True, slots=True)
class RenewLease:
    """Extend the lease of the running attempt."""

    action: ClassVar[JobAction] = "renewed"
    new_id_count: ClassVar[int] = 0

    job_id: str
    expected_revision: int
    fence: str

    def normalized(self) -> dict[str, Any]:
        """Effective content."""
        return {
            "type": "renew",
            "job_id": self.job_id,
            "expected_revision": self.expected_revision,
            "fence": self.fence,
        }


@dataclass(frozen=True, slots=True)
class PublishJob:
    """Publish what the running attempt has found, all of it or nothing."""

    action: ClassVar[JobAction] = "published"

    job_id: str
    expected_revision: int
    fence: str
    assertions: tuple[Assertion, ...]
    usage: Usage
    evidence_ref: str

    @property
    def new_id_count(self) -> int:
        """One for each relation."""
        return len(self.assertions)

    def normalized(self) -> dict[str, Any]:
        """Effective content."""
        return {
            "type": "publish",
            "job_id": self.job_id,
            "expected_revision": self.expected_revision,
            "fence": self.fence,
            "assertions": [assertion.as_json() for assertion in self.assertions],
            "usage": usage_as_json(self.usage),
            "evidence_ref": self.evidence_ref,
        }


@dataclass(frozen=True, slots=True)
class FailAttempt:
    """Close the running attempt as failed."""

    action: ClassVar[JobAction] = "failed"
    new_id_count: ClassVar[int] = 0

    job_id: str
    expected_revision: int
    fence: str
    usage: Usage
    evidence_ref: str

    def normalized(self) -> dict[str, Any]:
        """Effective content."""
        return {
            "type": "fail",
            "job_id": self.job_id,
            "expected_revision": self.expected_revision,
            "fence": self.fence,
            "usage": usage_as_json(self.usage),
            "evidence_ref": self.evidence_ref,
        }


@dataclass(frozen=True, slots=True)
class RecoverExpired:
    """Close an attempt whose lease has ended."""

    action: ClassVar[JobAction] = "recovered"
    new_id_count: ClassVar[int] = 0

    job_id: str
    expected_revision: int
    evidence_ref: str

    def normalized(self) -> dict[str, Any]:
        """Effective content."""
        return {
            "type": "recover_expired",
            "job_id": self.job_id,
            "expected_revision": self.expected_revision,
            "evidence_ref": self.evidence_ref,
        }


@dataclass(frozen=True, slots=True)
class CancelJob:
    """Call a job off."""

    action: ClassVar[JobAction] = "cancelled"
    new_id_count: ClassVar[int] = 0

    job_id: str
    expected_revision: int
    evidence_ref: str

    def normalized(self) -> dict[str, Any]:
        """Effective content."""
        return {
            "type": "cancel",
            "job_id": self.job_id,
            "expected_revision": self.expected_revision,
            "evidence_ref": self.evidence_ref,
        }


@dataclass(frozen=True, slots=True)
class ReconcileUsage:
    """Replace the usage of a closed attempt."""

    action: ClassVar[JobAction] = "usage_reconciled"
    new_id_count: ClassVar[int] = 0

    job_id: str
    expected_revision: int
    attempt_number: int
    usage: ReportedUsage
    evidence_ref: str

    def normalized(self) -> dict[str, Any]:
        """Effective content."""
        return {
            "type": "reconcile_usage",
            "job_id": self.job_id,
            "expected_revision": self.expected_revision,
            "attempt_number": self.attempt_number,
            "usage": usage_as_json(self.usage),
            "evidence_ref": self.evidence_ref,
        }


Command = CreateJob | ClaimJob | RenewLease | PublishJob | FailAttempt | RecoverExpired | CancelJob | ReconcileUsage

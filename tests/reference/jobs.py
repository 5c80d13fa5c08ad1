"""What a consolidation service must answer, in the plainest words: dictionaries and if-statements, no optimisation.

Written from the documented tables alone; shares nothing with the services but the command values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from services.consolidation.commands import Command
from services.domain.jobs import JobSpec
from services.domain.records import SourceRef

RUNNING_VERBS = ("renew", "publish", "fail")


@dataclass
class PlainAttempt:
    """One attempt."""

    credential: str
    fence: str
    incarnation: str
    claimed_ms: int
    expires_ms: int
    outcome: str = "running"
    usage: Any = None
    ended_ms: int | None = None


@dataclass
class PlainJob:
    """One job."""

    owner: str
    spec: JobSpec
    status: str = "ready"
    revision: int = 1
    attempts: list[PlainAttempt] = field(default_factory=list)
    relations: int = 0


@dataclass
class PlainConsolidation:
    """All jobs of a workspace.

    Attributes:
        current: Present revision of each record.
        sent: By subject and key: the command that was accepted under it, and its receipt.
    """

    current: dict[str, int]
    jobs: dict[str, PlainJob] = field(default_factory=dict)
    sent: dict[tuple[str, str], tuple[dict[str, Any], dict[str, Any]]] = field(default_factory=dict)

    def lease_active(self, job: PlainJob, now_ms: int, incarnation: str) -> bool:
        """Whether the lease of a job can be used."""
        if job.status != "running":
            return False
        attempt = job.attempts[-1]
        return attempt.claimed_ms <= now_ms < attempt.expires_ms and attempt.incarnation == incarnation

    def refusal(
        self, key: str, command: Command, *, subject: str, credential: str, now_ms: int, incarnation: str
    ) -> str | None:
        """The documented code that a new command is refused with; None when it is accepted or was before."""
        wanted = command.normalized()
        kind = wanted["type"]
        if (subject, key) in self.sent:
            return None if self.sent[subject, key][0] == wanted else "idempotency_conflict"
        if kind == "create":
            return None if self._hold(command.spec.sources) else "revision_conflict"  # type: ignore[union-attr]
        job = self.jobs.get(wanted["job_id"])
        if job is None or job.owner != subject:
            return "record_not_found"
        if wanted["expected_revision"] != job.revision:
            return "revision_conflict"
        active = self.lease_active(job, now_ms, incarnation)
        if kind == "reconcile_usage":
            number = wanted["attempt_number"]
            closed = number <= len(job.attempts) and job.attempts[number - 1].outcome != "running"
            return None if closed else "invalid_request"
        allowed = {"claim": ("ready",), "cancel": ("ready", "running")}.get(kind, ("running",))
        if job.status not in allowed:
            return "invalid_request"
        if kind == "recover_expired":
            return "revision_conflict" if active else None
        if kind in RUNNING_VERBS:
            attempt = job.attempts[-1]
            if not active or attempt.fence != wanted["fence"] or attempt.credential != credential:
                return "revision_conflict"
        if kind == "renew" and self._renewed(job, now_ms) <= job.attempts[-1].expires_ms:
            return "revision_conflict"
        if kind == "publish" and not self._is_output_legal(job, wanted["assertions"]):
            return "invalid_request"
        if kind in ("claim", "publish") and not self._hold(job.spec.sources):
            return "revision_conflict"
        return None

    def apply(
        self,
        key: str,
        command: Command,
        receipt: dict[str, Any],
        *,
        subject: str,
        credential: str,
        now_ms: int,
        incarnation: str,
        fence: str,
    ) -> None:
        """Note an accepted command; `fence` is the one that a claim was given."""
        wanted = command.normalized()
        kind = wanted["type"]
        self.sent[subject, key] = (wanted, receipt)
        if kind == "create":
            self.jobs[receipt["job_id"]] = PlainJob(subject, command.spec)  # type: ignore[union-attr]
            return
        job = self.jobs[wanted["job_id"]]
        job.revision += 1
        if kind == "claim":
            expires_ms = now_ms + job.spec.lease_millis
            job.attempts.append(PlainAttempt(credential, fence, incarnation, now_ms, expires_ms))
            job.status = "running"
        elif kind == "renew":
            job.attempts[-1].expires_ms = self._renewed(job, now_ms)
        elif kind == "publish":
            self._close(job, "published", wanted["usage"], now_ms)
            job.status, job.relations = "published", len(wanted["assertions"])
        elif kind == "fail":
            self._close(job, "failed", wanted["usage"], now_ms)
            job.status = "ready" if len(job.attempts) < job.spec.max_attempts else "exhausted"
        elif kind == "recover_expired":
            self._close(job, "unknown", {"status": "unknown"}, now_ms)
            job.status = "ready" if len(job.attempts) < job.spec.max_attempts else "exhausted"
        elif kind == "cancel":
            if job.status == "running":
                self._close(job, "unknown", {"status": "unknown"}, now_ms)
            job.status = "cancelled"
        else:
            job.attempts[wanted["attempt_number"] - 1].usage = wanted["usage"]

    def _close(self, job: PlainJob, outcome: str, usage: Any, now_ms: int) -> None:
        attempt = job.attempts[-1]
        attempt.outcome, attempt.usage, attempt.ended_ms = outcome, usage, now_ms

    def _renewed(self, job: PlainJob, now_ms: int) -> int:
        return min(now_ms + job.spec.lease_millis, job.attempts[-1].claimed_ms + job.spec.max_attempt_millis)

    def _hold(self, sources: Sequence[SourceRef]) -> bool:
        return all(self.current[source.record_id] == source.revision for source in sources)

    def _is_output_legal(self, job: PlainJob, assertions: list[dict[str, Any]]) -> bool:
        manifest = [source.as_json() for source in job.spec.sources]
        return len(assertions) <= job.spec.max_relations and all(
            found["source"] in manifest and found["target"] in manifest and found["source"] != found["target"]
            for found in assertions
        )

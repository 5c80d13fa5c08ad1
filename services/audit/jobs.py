"""Jobs: an unbroken history each by legal moves, listed as they are, their manifests and outputs present."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from services.audit.command_digests import check_job_command
from services.audit.findings import Findings
from services.audit.receipts import ReceiptLedger, StepKey, check_job_receipt, check_relation_receipt
from services.audit.records import RecordFact, judge_references, words_of_step
from services.audit.stored_values import fingerprint, read_encodable, read_json, read_value, require
from services.domain import keys
from services.domain.job_summaries import summary_of_job
from services.domain.jobs import Attempt, AttemptOutcome, Job, JobStatus, decode_job, job_digest, job_from_json
from services.domain.receipts import Receipt
from services.domain.records import SourceRef

_MEMBERS: Final = {"job", "receipt"}
_CLOSED_BY: Final[dict[str, AttemptOutcome]] = {
    "published": "published",
    "failed": "failed",
    "recovered": "unknown",
    "cancelled": "unknown",
}


class _JobFact(NamedTuple):
    owner_id: str
    revision: int
    fingerprint: bytes
    summary: bytes
    sources: tuple[SourceRef, ...]


class JobsAudit:
    """All jobs of a workspace with histories and summaries. Keys of one kind come in ascending order.

    Attributes:
        outputs: Fingerprint of each output receipt, by relation id and revision.
        owners: Owner by job id.
    """

    def __init__(self, partition: bytes, findings: Findings) -> None:
        self._partition = partition
        self._findings = findings
        self._facts: dict[str, _JobFact] = {}
        self._summaries: dict[str, bytes] = {}
        self._previous: Job | None = None
        self._newest: dict[str, tuple[int, bytes]] = {}
        self._receipts: dict[StepKey, bytes] = {}
        self.outputs: dict[StepKey, bytes] = {}
        self.owners: dict[str, str] = {}

    def take_job(self, key: bytes, value: bytes) -> None:
        """Take one job. Raises Unsound."""
        job = read_encodable(value, decode_job)
        summary = summary_of_job(job, job_bytes=len(value)).encode()
        self.owners[job.job_id] = job.owner_id
        self._facts[job.job_id] = _JobFact(
            job.owner_id, job.revision, fingerprint(job.as_json()), summary, job.spec.sources
        )
        for receipt in job.output_receipts:
            check_relation_receipt(self._partition, receipt)
            self.outputs[receipt["relation_id"], receipt["revision"]] = fingerprint(receipt)
        require(key == keys.job_key(job.owner_id, job.job_id), "lies under the key of another")
        _check_attempts(job)

    def take_history(self, key: bytes, value: bytes) -> None:
        """Take a job as one command left it. Raises Unsound."""
        previous, self._previous = self._previous, None
        stored = read_json(value)
        require(isinstance(stored, dict) and stored.keys() == _MEMBERS, "cannot be read")
        receipt: Receipt = stored["receipt"]
        job = read_value(lambda: job_from_json(stored["job"]))
        require(job.as_json() == stored["job"], "is not the documented object")
        where = (job.job_id, job.revision)
        self._previous = job
        self._newest[job.job_id] = (job.revision, fingerprint(stored["job"]))
        self._receipts[where] = fingerprint(receipt)
        require(key == keys.job_history_key(job.owner_id, *where), "lies under the key of another")
        check_job_receipt(self._partition, receipt)
        require((receipt["job_id"], receipt["revision"]) == where, "carries the receipt of another step")
        require(receipt["job_digest"] == job_digest(job.encode()), "does not agree with its digest")
        _check_attempts(job)
        check_job_command(job, receipt)
        same = previous is not None and previous.job_id == job.job_id
        _check_step(previous if same else None, job, receipt)

    def take_summary(self, key: bytes, value: bytes) -> None:
        """Take what a list shows of a job."""
        self._summaries[keys.id_text(key[-16:])] = key + b"\x00" + value

    def finish(self, ledger: ReceiptLedger, records: Mapping[str, RecordFact]) -> None:
        """Compare what was taken, the receipts, and the records."""
        for job_id, fact in self._facts.items():
            if self._newest.pop(job_id, None) != (fact.revision, fact.fingerprint):
                self._findings.add("job", job_id, "is not what its history says")
            listed = keys.job_summary_key(fact.owner_id, job_id) + b"\x00" + fact.summary
            if self._summaries.pop(job_id, None) != listed:
                self._findings.add("job", job_id, "is listed otherwise than it is")
            judge_references(fact.sources, records, "job", job_id, self._findings)
        for job_id in sorted(self._newest):
            self._findings.add("job", job_id, "is missing, but there is a history of it")
        for job_id in sorted(self._summaries):
            self._findings.add("job", job_id, "is missing, but it is listed")
        for where in sorted(self._receipts.keys() | ledger.jobs.keys()):
            if self._receipts.get(where) != ledger.jobs.get(where):
                self._findings.add("job history", words_of_step(where), "does not carry the receipt of its step")
        ledger.judge_job_keys(self.owners, self._findings)


def _check_attempts(job: Job) -> None:
    """Check what holds of the attempts of any job. Raises Unsound."""
    attempts = job.attempts
    require(
        [attempt.number for attempt in attempts] == list(range(1, len(attempts) + 1)), "numbers its attempts wrongly"
    )
    running = [attempt.number for attempt in attempts if attempt.outcome == "running"]
    require(running == ([len(attempts)] if job.status == "running" else []), "has attempts that do not fit its status")
    require(len({attempt.lease.fence for attempt in attempts}) == len(attempts), "uses a fence twice")
    require(len(attempts) <= job.spec.max_attempts, "has more attempts than it allows")
    require(bool(job.output_receipts) <= (job.status == "published"), "has outputs without being published")


def _check_step(previous: Job | None, job: Job, receipt: Receipt) -> None:
    """Check that a revision follows from the one before by what its receipt says was done. Raises Unsound."""
    at_millis, action = receipt["committed_at_millis"], receipt["action"]
    require(job.modified_at_millis == at_millis, "was made at another time than its receipt says")
    if previous is None:
        is_first = (job.revision, job.created_at_millis, job.status, job.attempts) == (1, at_millis, "ready", ())
        require(is_first and action == "created", "does not begin with its creation")
        return
    require(job.revision == previous.revision + 1, f"does not follow revision {previous.revision}")
    same = replace(
        previous,
        revision=job.revision,
        modified_at_millis=at_millis,
        status=job.status,
        attempts=job.attempts,
        output_receipts=job.output_receipts if action == "published" else previous.output_receipts,
    )
    is_legal = _is_legal(action, previous, job, at_millis)
    require(is_legal and same == job, "does not follow from the revision before it")


def _is_legal(action: str, previous: Job, job: Job, at_millis: int) -> bool:
    before, after = previous.attempts, job.attempts
    if action == "claimed":
        return (
            (previous.status, job.status) == ("ready", "running") and after[:-1] == before and len(after) > len(before)
        )
    if action == "usage_reconciled":
        return job.status == previous.status and [_without_usage(item) for item in after] == [
            _without_usage(item) for item in before
        ]
    if action == "renewed":
        return (
            previous.status == job.status == "running"
            and after[:-1] == before[:-1]
            and _without_end(after[-1]) == _without_end(before[-1])
            and after[-1].lease.expires_at_millis > before[-1].lease.expires_at_millis
        )
    if action == "cancelled" and previous.status == "ready":
        return job.status == "cancelled" and after == before
    outcome = _CLOSED_BY.get(action)
    if outcome is None or previous.status != "running" or after[:-1] != before[:-1]:
        return False
    ended = after[-1]
    closed = replace(
        before[-1], outcome=outcome, ended_at_millis=at_millis, usage=ended.usage, evidence_ref=ended.evidence_ref
    )
    return job.status == _status_after(action, job) and ended == closed and ended.evidence_ref is not None


def _status_after(action: str, job: Job) -> JobStatus:
    if action == "published":
        return "published"
    if action == "cancelled":
        return "cancelled"
    return "ready" if len(job.attempts) < job.spec.max_attempts else "exhausted"


def _without_usage(attempt: Attempt) -> Attempt:
    return replace(attempt, usage=None, usage_evidence_ref=None)


def _without_end(attempt: Attempt) -> Attempt:
    return replace(attempt, lease=replace(attempt.lease, expires_at_millis=0))

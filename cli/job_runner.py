"""What `waggle worker` does with jobs: claim and run those of its extractor, resume what it left, recover."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from cli.attempt_journals import AttemptJournal, AttemptJournals
from cli.lease_renewal import Extractor, renewing
from qilbeedb import (
    ConsolidationClient,
    ConsolidationStopped,
    ConsumerAPIError,
    ConsumerProtocolError,
    ExternalConsolidationWorker,
    ReconciliationRequired,
    SQLiteConsolidationJournal,
)

PAGE_JOBS = 100
PAGE_SCAN = 1000

NO_USAGE = {"status": "reported", "model_calls": 0, "input_tokens": 0, "output_tokens": 0, "cost_microusd": 0}
"""What an attempt has used whose extractor has not run."""

_NOT_ALLOWED = (401, 403)


class RecoverPolicy(StrEnum):
    """Whose expired attempts are closed, so that their jobs can be claimed again.

    An extractor may then run a second time for them; one that costs nothing, or that gives its provider an idempotency
    key, does not mind.
    """

    NEVER = "never"
    OWN = "own"
    ANY = "any"


@dataclass(frozen=True, slots=True)
class Report:
    """Something that happened to a job.

    Attributes:
        event: `working`, `renewed`, `published`, `failed`, `lost`, `refused`, `uncertain`, `recovered`, `passed`.
        job_id: The job.
        detail: For people.
    """

    event: str
    job_id: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ExtractorModule:
    """An extractor and how jobs name it.

    Attributes:
        extract: The callback.
        method: `spec.extractor.method` of its jobs.
        method_revision: `spec.extractor.method_revision` of its jobs.
    """

    extract: Extractor
    method: str
    method_revision: str

    def is_meant_by(self, spec: dict[str, Any]) -> bool:
        """Tell whether a job is for this extractor."""
        extractor = spec["extractor"]
        return (extractor["method"], extractor["method_revision"]) == (self.method, self.method_revision)


class JobRunner:
    """Works on jobs, one at a time. Errors of the connection pass through, and lose nothing.

    Args:
        client: The jobs' owner.
        journals: What was begun.
        worker_id: Label of the attempts.
        extractor: What runs.
        policy: Which expired attempts are recovered.
        report: Called with everything that happens.
    """

    def __init__(
        self,
        client: ConsolidationClient,
        journals: AttemptJournals,
        *,
        worker_id: str,
        extractor: ExtractorModule,
        policy: RecoverPolicy,
        report: Callable[[Report], None],
    ) -> None:
        self._client = client
        self._journals = journals
        self._worker_id = worker_id
        self._extractor = extractor
        self._policy = policy
        self._report = report
        # Job id -> revision at which it was found to be nothing for this worker.
        self._passed: dict[str, int] = {}

    def resume(self, should_end: Callable[[], bool], job_id: str | None = None) -> None:
        """Go on with every unsettled journal, or with those of one job."""
        for journal in self._journals.unsettled():
            if should_end():
                return
            if job_id in (None, journal.job_id):
                self._attend(journal)

    def run_ready(self, should_end: Callable[[], bool]) -> int:
        """Run every ready job of this extractor; return how many."""
        count = 0
        for summary in self._list_jobs("ready"):
            if should_end():
                break
            if self._passed.get(summary["job_id"]) != summary["revision"]:
                count += self.run_job(self._client.inspect(summary["job_id"]))
        return count

    def run_job(self, inspection: dict[str, Any]) -> bool:
        """Run a job if it is ready and meant for this extractor; tell whether it was."""
        job = inspection["job"]
        if job["status"] != "ready":
            return False
        if not self._extractor.is_meant_by(job["spec"]):
            return self._pass_over(
                job, f"is for the extractor {job['spec']['extractor']['method']}, not for {self._extractor.method}"
            )
        if inspection["source_failure"] is not None:
            failure = inspection["source_failure"]
            return self._pass_over(job, f"source {failure['record_id']}: {failure['reason']}")
        journal = self._journals.begin(job["job_id"], job["revision"])
        if self._journals.is_closed(journal):
            return self._pass_over(job, "this claim was settled before")
        self._attend(journal)
        return True

    def recover_expired(self) -> int:
        """Close the expired attempts that the policy names; return how many."""
        if self._policy is RecoverPolicy.NEVER:
            return 0
        return sum(
            self.recover(self._client.inspect(summary["job_id"]))
            for summary in self._list_jobs("running")
            if summary["recoverable"]
        )

    def recover(self, inspection: dict[str, Any]) -> bool:
        """Close the attempt of one job if it has expired and the policy names it; tell whether that was done."""
        job = inspection["job"]
        if not inspection["recoverable"] or not self._extractor.is_meant_by(job["spec"]):
            return False
        attempt = job["attempts"][-1]
        is_own = attempt["worker_id"] == self._worker_id
        if self._policy is RecoverPolicy.NEVER or (self._policy is RecoverPolicy.OWN and not is_own):
            return False
        operation = {
            "type": "recover_expired",
            "job_id": job["job_id"],
            "expected_revision": job["revision"],
            "evidence_ref": f"{self._worker_id}: lease of attempt {attempt['number']} is over, its outcome unknown",
        }
        try:
            # The revision is part of the key: a usage report may come between two tries.
            self._client.command(operation, idempotency_key=f"worker-recover-{attempt['fence']}-{job['revision']}")
        except ConsumerAPIError as error:
            # Somebody else was faster: before this command came, or with the same key and a label of its own.
            if error.code not in ("revision_conflict", "idempotency_conflict"):
                raise
            return False
        self._report(Report("recovered", job["job_id"], f"attempt {attempt['number']} of {attempt['worker_id']}"))
        return True

    def _attend(self, journal: AttemptJournal) -> None:
        job_id = journal.job_id
        sdk_journal = SQLiteConsolidationJournal(journal.directory)
        worker = ExternalConsolidationWorker(self._client, sdk_journal, worker_id=self._worker_id)
        self._report(Report("working", job_id))
        extract = renewing(self._extractor.extract, on_renewal=lambda: self._report(Report("renewed", job_id)))
        try:
            result = worker.run_once(job_id, extract)
        except ConsolidationStopped as stop:
            if stop.code in ("job_not_ready", "claim_no_longer_current"):
                self._journals.close(journal)
                self._report(Report("lost", job_id, stop.code))
            elif stop.code != "journal_in_use":
                self._set_aside(journal, stop.code)
            return
        except (ReconciliationRequired, ConsumerProtocolError) as error:
            # The journal cannot be read, or the output cannot be sent: no later try would do better.
            if error.code not in ("invalid_journal_state", "consolidation_value_too_large"):
                raise
            self._set_aside(journal, error.code)
            return
        except ConsumerAPIError as error:
            if not _is_of_the_job(error):
                raise
            self._end_refused(journal, worker, error)
            return
        self._journals.close(journal)
        receipt, job = result["receipt"], result["inspection"]["job"]
        detail = f"{len(job['output_receipts'])} assertions, revision {receipt['revision']}"
        self._report(Report(receipt["action"], job_id, detail))

    def _set_aside(self, journal: AttemptJournal, code: str) -> None:
        """Put away what a person should look at."""
        kept = self._journals.close(journal)
        self._report(Report("uncertain", journal.job_id, f"{code}, journal kept in {kept}"))

    def _end_refused(
        self, journal: AttemptJournal, worker: ExternalConsolidationWorker, error: ConsumerAPIError
    ) -> None:
        """Settle what was refused: a claim, or an attempt, which ends now rather than when its lease is over."""
        with worker.journal.transaction() as transaction:
            state = transaction.load(worker.binding_id, journal.job_id)
        match state:
            case {"stage": "prepared", "command": held}:
                report = Report("refused", journal.job_id, error.code)
                self._fail(held, held["usage"], f"output refused with {error.code}")
            case {"stage": "claimed", "revision": revision, "fence": fence}:
                # The sources are not what they were, and nothing has run yet.
                report = Report("lost", journal.job_id, error.code)
                held = {"job_id": journal.job_id, "expected_revision": revision, "fence": fence}
                self._fail(held, NO_USAGE, f"context refused with {error.code}")
            case {"stage": "complete", "receipt": receipt}:
                report = Report(receipt["action"], journal.job_id, f"revision {receipt['revision']}")
            case _:
                report = Report("lost", journal.job_id, error.code)
        self._journals.close(journal)
        self._report(report)

    def _fail(self, held: dict[str, Any], usage: dict[str, Any], why: str) -> None:
        operation = {
            "type": "fail",
            "job_id": held["job_id"],
            "expected_revision": held["expected_revision"],
            "fence": held["fence"],
            "usage": usage,
            "evidence_ref": f"{self._worker_id}: {why}",
        }
        try:
            self._client.command(operation, idempotency_key=f"worker-refused-{held['fence']}")
        except ConsumerAPIError as refusal:
            # The attempt is over already.
            if refusal.checkpoint_outcome != "rejected":
                raise

    def _pass_over(self, job: dict[str, Any], why: str) -> bool:
        self._passed[job["job_id"]] = job["revision"]
        self._report(Report("passed", job["job_id"], why))
        return False

    def _list_jobs(self, status: str) -> Iterator[dict[str, Any]]:
        after = None
        while True:
            page = self._client.query(limit=PAGE_JOBS, scan_limit=PAGE_SCAN, after=after, status=status)
            yield from page["jobs"]
            after = page["next_after"]
            if after is None:
                return


def _is_of_the_job(error: ConsumerAPIError) -> bool:
    """Whether a refusal is about the job at hand: neither about the caller, nor of a moment, nor of a wrong address."""
    is_refusal = error.status is not None and 400 <= error.status < 500 and error.status not in _NOT_ALLOWED
    return is_refusal and error.checkpoint_outcome != "unknown" and error.code != "not_found"

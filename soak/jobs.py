"""Jobs that several workers of the SDK race for, through the edge, while processes die."""

from __future__ import annotations

import random
import threading
from pathlib import Path

from qilbeedb import (
    ConsolidationClient,
    ConsolidationStopped,
    ConsumerError,
    ExternalConsolidationWorker,
    SQLiteConsolidationJournal,
)
from soak.caller import Caller, Exchange
from soak.history import Attempt, History, JobStep, Json
from soak.running import SoakedSuite
from soak.steady import digest_of, outcome_of
from tests.harness import builders
from tests.harness.linking_extractor import EXTRACTOR, extract
from tests.harness.suite import Suite

COMMANDS = "memory/consolidation/commands"
_OPEN_MAX = 6
_PAUSE_S = 0.3
_TIMEOUT_S = 30.0


class JobPlace:
    """One workspace with jobs, of the first company.

    Attributes:
        scope, marker: Where and how it is told.
        sent: Body of each command by route and key.
    """

    def __init__(self, suite: Suite, marker: str) -> None:
        self.suite, self.marker = suite, marker
        self.sent: dict[tuple[str, str], Json] = {}
        self.scope = builders.scope_json(f"project-{marker}")


class JobMaker:
    """Makes records and jobs over them, and takes jobs back whose lease has ended. Used by one thread."""

    def __init__(self, place: JobPlace, caller: Caller, history: History, seed: str, stop: threading.Event) -> None:
        self._place, self._caller, self._history, self._stop = place, caller, history, stop
        self._random = random.Random(seed)
        self._number = 0
        self._records: list[Json] = []

    def take_turn(self) -> None:
        """Make a job when few are open; else look after those that run."""
        if len(self._records) < 6:
            self._make_record()
        elif len(self._listed("ready")) < _OPEN_MAX:
            self._make_job()
        for summary in self._listed("running"):
            self._recover(summary["job_id"])
        self._stop.wait(_PAUSE_S)

    def _make_record(self) -> None:
        record = builders.record_json(f"source {self._place.marker}")
        answer = self._send("memory/commands", {"type": "create", "record": record})
        if answer.is_success:
            receipt = answer.json["receipt"]
            self._records.append(builders.reference(receipt["record_id"], receipt["revision"]))

    def _make_job(self) -> None:
        spec = builders.job_spec_json(
            *self._random.sample(self._records, 2), objective=f"link {self._place.marker}",
            extractor={**EXTRACTOR, "evidence_ref": "soak"}, max_relations=1, max_attempts=3,
            lease_millis=30_000, max_attempt_millis=600_000,
        )  # fmt: skip
        self._note(self._send(COMMANDS, {"type": "create", "spec": spec}))

    def _recover(self, job_id: str) -> None:
        answer = self._post("memory/consolidation/inspect", {"job_id": job_id})
        if not answer.is_success or answer.json["inspection"]["lease_active"]:
            return
        job = answer.json["inspection"]["job"]
        if job["status"] == "running":
            operation = {
                "type": "recover_expired", "job_id": job_id, "expected_revision": job["revision"],
                "evidence_ref": "soak:recover",
            }  # fmt: skip
            self._note(self._send(COMMANDS, operation))

    def _listed(self, status: str) -> list[Json]:
        query = {"limit": 100, "scan_limit": 1000, "status": status}
        answer = self._post("memory/consolidation/query", {"query": query})
        # Not known: nothing is made for now.
        return answer.json["page"]["jobs"] if answer.is_success else [{}] * _OPEN_MAX if status == "ready" else []

    def _note(self, answer: Exchange) -> None:
        if answer.is_success:
            self._history.add(step_of(self._place.marker, answer.json["receipt"]))

    def _send(self, route: str, operation: Json) -> Exchange:
        """Send under a new key until there is an answer or the run ends."""
        self._number += 1
        key = f"{self._place.marker}j{self._number}"
        body = {"idempotency_key": key, "operation": operation}
        self._place.sent[route, key] = body
        while True:
            answer = self._post(route, body)
            text = answer.text if answer.is_success else ""
            self._history.add(Attempt(self._place.marker, route, key, digest_of(body), outcome_of(answer), text))
            if not (answer.is_unknown or answer.status == 503) or self._stop.wait(_PAUSE_S):
                return answer

    def _post(self, route: str, body: Json) -> Exchange:
        return self._caller.send(
            "POST", route, {"contract_version": 1, "scope": self._place.scope, **body},
            key=self._place.suite.writer_key, own=frozenset({self._place.marker}),
        )  # fmt: skip


class JobWorker:
    """One worker of the SDK with a journal of its own. Used by one thread.

    Attributes:
        stops: How often it gave a job up, by code.
    """

    def __init__(self, name: str, place: JobPlace, soaked: SoakedSuite, history: History, directory: Path) -> None:
        self._place, self._history = place, history
        self._client = ConsolidationClient(
            soaked.edge_url, place.suite.writer_key, tenant_id=place.suite.company, subject_id="writer",
            scope=place.scope, timeout=_TIMEOUT_S,
        )  # fmt: skip
        self._worker = ExternalConsolidationWorker(
            self._client, SQLiteConsolidationJournal(directory / f"journal-{name}"), worker_id=name
        )
        self._open: list[str] = []
        self._random = random.Random(name)

    def take_turn(self, stop: threading.Event) -> None:
        """Bring one job further, one's own unfinished ones first."""
        try:
            if not self._open:
                jobs = self._client.query(limit=100, scan_limit=1000, status="ready")["jobs"]
                if jobs:
                    self._open.append(self._random.choice(jobs)["job_id"])
            if self._open:
                receipt = self._worker.run_once(self._open[0], extract)["receipt"]
                self._history.add(step_of(self._place.marker, receipt))
                self._open.clear()
        except ConsolidationStopped:
            # Another has it, or its lease is lost: it comes back to the list when it can be claimed again.
            self._open.clear()
        except ConsumerError as error:
            if error.code in ("revision_conflict", "record_not_found", "invalid_request"):
                self._open.clear()
        stop.wait(_PAUSE_S)


def step_of(marker: str, receipt: Json) -> JobStep:
    """A job's receipt as the history has it."""
    return JobStep(marker, receipt["job_id"], receipt["action"], receipt["revision"], receipt["idempotency_key"])

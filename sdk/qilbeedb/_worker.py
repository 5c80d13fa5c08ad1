"""Runs an application's extractor against one job, so that no death repeats a call or loses a finished output.

The journal is written before each step that could be repeated. A state names the step that comes next:

    claiming -> claimed -> calling -> prepared -> complete

Only `calling` cannot be resumed: whether the extractor ran, and what that cost, is known to its provider alone.
"""

from __future__ import annotations

import copy
import threading
import uuid as uuids
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, NoReturn, Optional

from qilbeedb._checks import (
    EVIDENCE,
    NAME,
    REVISION,
    any_object,
    anything,
    array,
    boolean,
    choice,
    closed,
    tagged,
    uuid,
)
from qilbeedb._consolidation_client import ConsolidationClient
from qilbeedb._errors import ConsolidationStopped, ConsumerProtocolError, ReconciliationRequired, refuse
from qilbeedb._identities import binding_digest, reference_key
from qilbeedb._jobs import RECEIPT, USAGE, spec
from qilbeedb._journal import JournalTransaction, SQLiteConsolidationJournal
from qilbeedb._strict_json import JsonObject, compact_json, parse_response

OUTPUT_BYTES_MAX = 61_440


@dataclass(frozen=True)
class ConsolidationInput:
    """What an extractor gets.

    Attributes:
        job_id: The job.
        attempt_id: Id of this attempt (its fence); a good idempotency key for a provider.
        spec: The job's specification. A copy.
        records: The sources at their exact revisions, in the order of `spec["sources"]`. Copies.
        renew: Extends the lease. Works inside the callback and in the thread that called it; raises ConsumerError.
    """

    job_id: str
    attempt_id: str
    spec: JsonObject
    records: List[JsonObject]
    renew: Callable[[], None]


@dataclass(frozen=True)
class ConsolidationResult:
    """What an extractor returns.

    Attributes:
        assertions: Documented assertions between sources of the job; may be empty.
        usage: What it has cost, or `{"status": "unknown"}`.
        evidence_ref: The application's reference to this execution.
        failed: The attempt ends as failed; there must be no assertions then.
    """

    assertions: List[JsonObject]
    usage: JsonObject
    evidence_ref: str
    failed: bool = False


Extractor = Callable[[ConsolidationInput], ConsolidationResult]

_CLAIM_KEY = "worker-claim-"
_RESULT_KEY = "worker-result-"

_CLAIM = closed({"type": choice("claim"), "job_id": uuid, "expected_revision": REVISION, "worker_id": NAME})
_END = {"type": anything, "job_id": uuid, "expected_revision": REVISION, "fence": uuid, "usage": USAGE}
_FAIL = closed({**_END, "evidence_ref": EVIDENCE})
_PUBLISH = closed({**_END, "evidence_ref": EVIDENCE, "assertions": array(any_object, 0, 16)})
_HELD = closed({"stage": anything, "revision": REVISION, "fence": uuid, "spec": spec})
_STATES = {
    "claiming": closed({"stage": anything, "command": _CLAIM, "key": NAME}),
    "claimed": _HELD,
    "calling": _HELD,
    "prepared": closed(
        {"stage": anything, "command": tagged("type", {"fail": _FAIL, "publish": _PUBLISH}), "key": NAME}
    ),
    "complete": closed({"stage": anything, "receipt": RECEIPT}),
}


class ExternalConsolidationWorker:
    """Runs extractors under one label, with one client and one journal.

    Args:
        client: The job owner's client.
        journal: Where the worker remembers; a job that was uncertain in it stays so.
        worker_id: Label that the server keeps with each attempt.

    Attributes:
        client: As given.
        journal: As given.
        worker_id: As given.
        binding_id: Names client and label in the journal.

    Raises:
        ConsumerProtocolError: `invalid_response`, when the label is not documented text.
    """

    def __init__(self, client: ConsolidationClient, journal: SQLiteConsolidationJournal, *, worker_id: str) -> None:
        NAME(worker_id)
        self.client = client
        self.journal = journal
        self.worker_id = worker_id
        self.binding_id = binding_digest("qilbee.consolidation.worker.v1", client.binding_id, worker_id)

    def run_once(self, job_id: str, extractor: Extractor) -> Dict[str, JsonObject]:
        """Bring one job to the receipt of its publication or failure, from wherever the journal says that it is.

        Holds the journal's lock throughout, the extractor's work included.

        Returns:
            `receipt`, that of the committed command, and `inspection`, a current view of the job.

        Raises:
            ConsolidationStopped: See its codes.
            ConsumerError: The server refused, could not be reached, or did not answer as documented. Calling again goes
                on from the saved step.
        """
        uuid(job_id)
        with self.journal.transaction() as transaction:
            return _Run(self, transaction, job_id).advance(extractor)


class _Run:
    """One `run_once`: reads the state, takes steps, saves before each."""

    def __init__(self, worker: ExternalConsolidationWorker, transaction: JournalTransaction, job_id: str) -> None:
        self._client = worker.client
        self._worker_id = worker.worker_id
        self._binding_id = worker.binding_id
        self._transaction = transaction
        self._job_id = job_id

    def advance(self, extractor: Extractor) -> Dict[str, JsonObject]:
        state = self._load()
        if state is None:
            state = self._intend_claim()
        if state["stage"] == "claiming":
            state = self._claim(state)
        elif state["stage"] == "calling":
            raise ConsolidationStopped("provider_outcome_unknown")
        if state["stage"] == "claimed":
            state = self._extract(state, extractor)
        if state["stage"] == "prepared":
            receipt = self._client.command(state["command"], idempotency_key=state["key"])
            state = self._save({"stage": "complete", "receipt": receipt})
        return {"receipt": state["receipt"], "inspection": self._client.inspect(self._job_id)}

    def _load(self) -> Optional[JsonObject]:
        state = self._transaction.load(self._binding_id, self._job_id)
        if state is None:
            return None
        check = _STATES.get(str(state.get("stage")))
        try:
            if check is None:
                refuse()
            check(state)
            self._check_binding(state)
        except ConsumerProtocolError as error:
            raise ReconciliationRequired("invalid_journal_state") from error
        return state

    def _check_binding(self, state: JsonObject) -> None:
        """Refuse a state that this worker has not written for this job: nothing may be sent on its word."""
        if state["stage"] == "complete":
            receipt = state["receipt"]
            if receipt["job_id"] != self._job_id or receipt["action"] not in ("published", "failed"):
                refuse()
        elif "command" in state:
            command, key = state["command"], state["key"]
            is_own = (
                command["worker_id"] == self._worker_id and key.startswith(_CLAIM_KEY)
                if state["stage"] == "claiming"
                else key == _RESULT_KEY + command["fence"]
            )
            if command["job_id"] != self._job_id or not is_own:
                refuse()

    def _save(self, state: JsonObject) -> JsonObject:
        self._transaction.save(self._binding_id, self._job_id, state)
        return state

    def _intend_claim(self) -> JsonObject:
        inspection = self._client.inspect(self._job_id)
        job = inspection["job"]
        if job["status"] != "ready" or inspection["source_failure"] is not None:
            raise ConsolidationStopped("job_not_ready")
        command = {
            "type": "claim",
            "job_id": self._job_id,
            "expected_revision": job["revision"],
            "worker_id": self._worker_id,
        }
        return self._save({"stage": "claiming", "command": command, "key": f"{_CLAIM_KEY}{uuids.uuid4()}"})

    def _claim(self, state: JsonObject) -> JsonObject:
        receipt = self._client.command(state["command"], idempotency_key=state["key"])
        inspection = self._client.inspect(self._job_id)
        job = inspection["job"]
        # A repeated claim gets its old receipt, whatever has happened to the attempt since.
        if not inspection["lease_active"] or job["revision"] != receipt["revision"]:
            raise ConsolidationStopped("claim_no_longer_current")
        attempt = job["attempts"][-1]
        holder = (attempt["credential_id"], attempt["worker_id"])
        if holder != (receipt["author"]["credential_id"], self._worker_id):
            refuse()
        return self._save(
            {"stage": "claimed", "revision": job["revision"], "fence": attempt["fence"], "spec": job["spec"]}
        )

    def _extract(self, state: JsonObject, extractor: Extractor) -> JsonObject:
        context = self._client.context(self._job_id, state["revision"], state["fence"])
        sources = [reference_key(source) for source in state["spec"]["sources"]]
        if [reference_key(record) for record in context["records"]] != sources:
            refuse("context_manifest_mismatch")
        lease = _Lease(self, state)
        prepared_input = ConsolidationInput(
            job_id=self._job_id,
            attempt_id=state["fence"],
            spec=copy.deepcopy(state["spec"]),
            records=copy.deepcopy(context["records"]),
            renew=lease.renew,
        )
        lease.save()
        try:
            result = extractor(prepared_input)
        except Exception as error:
            raise ConsolidationStopped("provider_outcome_unknown") from error
        finally:
            lease.end()
        command = _output_command(self._job_id, lease.state, result)
        return self._save({"stage": "prepared", "command": command, "key": _RESULT_KEY + state["fence"]})

    def renew(self, held: JsonObject) -> JsonObject:
        """Extend the lease of a `calling` state and return the state that follows."""
        command = {
            "type": "renew",
            "job_id": self._job_id,
            "expected_revision": held["revision"],
            "fence": held["fence"],
        }
        key = f"worker-renew-{held['fence']}-{held['revision']}"
        receipt = self._client.command(command, idempotency_key=key)
        return self._save({**held, "revision": receipt["revision"]})

    def save_calling(self, held: JsonObject) -> JsonObject:
        """Save that the extractor may begin."""
        return self._save({**held, "stage": "calling"})


class _Lease:
    """The attempt while the extractor runs: its state, followed through renewals."""

    def __init__(self, run: _Run, state: JsonObject) -> None:
        self._run = run
        self._thread: Optional[int] = None
        self.state = state

    def save(self) -> None:
        self.state = self._run.save_calling(self.state)
        self._thread = threading.get_ident()

    def end(self) -> None:
        self._thread = None

    def renew(self) -> None:
        if self._thread is None:
            raise RuntimeError("renew() works only while the extractor runs")
        if self._thread != threading.get_ident():
            raise RuntimeError("renew() works only in the thread that called the extractor")
        self.state = self._run.renew(self.state)


def _output_command(job_id: str, held: JsonObject, result: Any) -> JsonObject:
    """Turn what the extractor returned into the command that ends the attempt.

    Raises:
        ConsolidationStopped: `invalid_provider_result`.
        ConsumerProtocolError: `consolidation_value_too_large`.
    """
    if not isinstance(result, ConsolidationResult):
        _stop_invalid()
    try:
        boolean(result.failed)
        EVIDENCE(result.evidence_ref)
        USAGE(result.usage)
        _check_assertions(result, held["spec"])
        command: JsonObject = {
            "type": "fail" if result.failed else "publish",
            "job_id": job_id,
            "expected_revision": held["revision"],
            "fence": held["fence"],
            "usage": result.usage,
            "evidence_ref": result.evidence_ref,
        }
        if not result.failed:
            command["assertions"] = result.assertions
        encoded = compact_json(command)
        # What is saved has to be read again exactly: no repeated members, no numbers beyond 64 bits.
        command = parse_response(encoded)
    except ConsumerProtocolError as error:
        raise ConsolidationStopped("invalid_provider_result") from error
    if len(encoded) > OUTPUT_BYTES_MAX:
        refuse("consolidation_value_too_large")
    return command


def _check_assertions(result: ConsolidationResult, job_spec: JsonObject) -> None:
    assertions = result.assertions
    if not isinstance(assertions, list) or len(assertions) > job_spec["max_relations"]:
        refuse()
    if result.failed and assertions:
        refuse()
    sources = job_spec["sources"]
    for assertion in assertions:
        if not isinstance(assertion, dict):
            refuse()
        source, target = assertion.get("source"), assertion.get("target")
        # Compared as JSON: True is no revision 1.
        if not _is_among(source, sources) or not _is_among(target, sources) or source == target:
            refuse()


def _is_among(reference: Any, sources: List[JsonObject]) -> bool:
    return reference in sources and type(reference["revision"]) is int


def _stop_invalid() -> NoReturn:
    raise ConsolidationStopped("invalid_provider_result")

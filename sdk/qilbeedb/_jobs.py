"""Jobs, attempts and their receipts: the members one by one, and what has to fit between them."""

from __future__ import annotations

from typing import Any, List

from qilbeedb._checks import (
    EVIDENCE,
    I64_MAX,
    MILLIS,
    NAME,
    REVISION,
    U64,
    VERSION_1,
    anything,
    array,
    boolean,
    choice,
    closed,
    distinct,
    hex64,
    ident,
    integer,
    nullable,
    tagged,
    uuid,
)
from qilbeedb._errors import refuse
from qilbeedb._identities import AUTHOR, DEPENDENCY_WORK, SOURCE_REF
from qilbeedb._records import ELIGIBILITY_FAILURE
from qilbeedb._relations import RELATION_RECEIPT, extractor
from qilbeedb._strict_json import JsonObject

STATUSES = ("ready", "running", "published", "cancelled", "exhausted")
STATUS = choice(*STATUSES)
ACTION_OF_OPERATION = {
    "create": "created",
    "claim": "claimed",
    "renew": "renewed",
    "publish": "published",
    "fail": "failed",
    "recover_expired": "recovered",
    "cancel": "cancelled",
    "reconcile_usage": "usage_reconciled",
}

USAGE = tagged(
    "status",
    {
        "unknown": closed({"status": anything}),
        "reported": closed(
            {"status": anything, "model_calls": U64, "input_tokens": U64, "output_tokens": U64},
            {"cost_microusd": nullable(U64)},
        ),
    },
)
UNKNOWN_USAGE = {"status": "unknown"}

_SPEC = closed(
    {
        "sources": array(SOURCE_REF, 2, 16),
        "objective": ident(4096),
        "policy_ref": EVIDENCE,
        "extractor": extractor,
        "max_relations": integer(1, 16),
        "max_attempts": integer(1, 32),
        "lease_millis": integer(1_000, 900_000),
        "max_attempt_millis": integer(1_000, 86_400_000),
    }
)
_ATTEMPT = closed(
    {
        "number": integer(1, 32),
        "worker_id": NAME,
        "credential_id": uuid,
        "fence": uuid,
        "storage_incarnation": uuid,
        "claimed_at_millis": MILLIS,
        "expires_at_millis": MILLIS,
        "ended_at_millis": nullable(MILLIS),
        "outcome": choice("running", "published", "failed", "unknown"),
        "usage": USAGE,
        "evidence_ref": nullable(EVIDENCE),
        "usage_evidence_ref": nullable(EVIDENCE),
    }
)
_JOB = closed(
    {
        "schema_version": VERSION_1,
        "job_id": uuid,
        "revision": REVISION,
        "created_by": AUTHOR,
        "created_at_millis": MILLIS,
        "modified_at_millis": MILLIS,
        "spec": anything,
        "status": STATUS,
        "attempts": array(_ATTEMPT, 0, 32),
        "output_receipts": array(RELATION_RECEIPT, 0, 16),
    }
)
RECEIPT = closed(
    {
        "contract_version": VERSION_1,
        "idempotency_key": NAME,
        "job_id": uuid,
        "revision": REVISION,
        "action": choice(*ACTION_OF_OPERATION.values()),
        "author": AUTHOR,
        "committed_at_millis": MILLIS,
        "job_digest": hex64,
        "command_digest": hex64,
        "receipt_digest": hex64,
    }
)
_INSPECTION = closed(
    {
        "job": anything,
        "evaluated_at_millis": MILLIS,
        "lease_active": boolean,
        "recoverable": boolean,
        "source_failure": nullable(ELIGIBILITY_FAILURE),
        "dependency_work": DEPENDENCY_WORK,
    }
)
_HISTORY = closed({"job": anything, "receipt": RECEIPT})


def spec(value: Any) -> None:
    """The immutable specification of a job."""
    _SPEC(value)
    distinct(source["record_id"] for source in value["sources"])
    if value["max_attempt_millis"] < value["lease_millis"]:
        refuse()


def check_job(job: Any, *, job_id: str, subject_id: str) -> None:
    """Check a job of this subject, and that its status, attempts and outputs fit together."""
    _JOB(job)
    spec(job["spec"])
    if job["job_id"] != job_id or job["created_by"]["subject_id"] != subject_id:
        refuse()
    if job["modified_at_millis"] < job["created_at_millis"]:
        refuse()
    attempts = job["attempts"]
    if len(attempts) > job["spec"]["max_attempts"] or len(job["output_receipts"]) > job["spec"]["max_relations"]:
        refuse()
    distinct(attempt["fence"] for attempt in attempts)
    for position, attempt in enumerate(attempts, start=1):
        if attempt["number"] != position:
            refuse()
        _check_attempt(attempt, job)
    _check_status(job, [attempt["outcome"] for attempt in attempts])
    for receipt in job["output_receipts"]:
        if receipt["action"] != "asserted" or receipt["author"]["subject_id"] != subject_id:
            refuse()


def _check_attempt(attempt: JsonObject, job: JsonObject) -> None:
    claimed_at, expires_at, ended_at = (attempt[f"{name}_at_millis"] for name in ("claimed", "expires", "ended"))
    deadline = claimed_at + job["spec"]["max_attempt_millis"]
    if claimed_at < job["created_at_millis"] or deadline > I64_MAX or not claimed_at < expires_at <= deadline:
        refuse()
    is_running = attempt["outcome"] == "running"
    if is_running != (ended_at is None) or is_running != (attempt["evidence_ref"] is None):
        refuse()
    if is_running and attempt["usage"] != UNKNOWN_USAGE:
        refuse()
    if ended_at is not None and ended_at < claimed_at:
        refuse()


def _check_status(job: JsonObject, outcomes: List[str]) -> None:
    status, attempts_max = job["status"], job["spec"]["max_attempts"]
    is_running = outcomes[-1:] == ["running"]
    if is_running != (status == "running") or "running" in outcomes[:-1]:
        refuse()
    if outcomes.count("published") != (1 if status == "published" else 0):
        refuse()
    if status == "ready" and len(outcomes) >= attempts_max:
        refuse()
    if status == "exhausted" and len(outcomes) != attempts_max:
        refuse()
    if job["output_receipts"] and status != "published":
        refuse()


def check_receipt(receipt: Any, *, idempotency_key: str, operation: JsonObject, subject_id: str) -> None:
    """Check the receipt of a command that was just sent."""
    RECEIPT(receipt)
    kind = operation.get("type")
    if receipt["idempotency_key"] != idempotency_key:
        refuse()
    if not isinstance(kind, str) or receipt["action"] != ACTION_OF_OPERATION.get(kind):
        refuse()
    if "job_id" in operation:
        expected = operation.get("expected_revision")
        if receipt["job_id"] != operation["job_id"] or not isinstance(expected, int):
            refuse()
        if receipt["revision"] != expected + 1:
            refuse()
    # An administrator of the company may have carried out a cancellation with this key.
    if receipt["action"] != "cancelled" and receipt["author"]["subject_id"] != subject_id:
        refuse()


def check_inspection(inspection: Any, *, job_id: str, subject_id: str) -> None:
    """Check an inspection, and that its lease fits its job."""
    _INSPECTION(inspection)
    check_job(inspection["job"], job_id=job_id, subject_id=subject_id)
    check_lease(inspection["job"]["status"], inspection)


def check_lease(status: str, value: JsonObject) -> None:
    """Check `lease_active` and `recoverable` of an inspection or a summary against the status."""
    is_running = status == "running"
    if value["lease_active"] and not is_running:
        refuse()
    if value["recoverable"] != (is_running and not value["lease_active"]):
        refuse()


def check_history(history: Any, *, job_id: str, revision: int, subject_id: str) -> None:
    """Check one revision of a job and the receipt that made it."""
    _HISTORY(history)
    job, receipt = history["job"], history["receipt"]
    check_job(job, job_id=job_id, subject_id=subject_id)
    if job["revision"] != revision or receipt["revision"] != revision or receipt["job_id"] != job_id:
        refuse()
    if receipt["committed_at_millis"] != job["modified_at_millis"]:
        refuse()
    if receipt["action"] != "cancelled" and receipt["author"]["subject_id"] != subject_id:
        refuse()

"""Every member of jobs, pages and receipts, and every rule between them, is checked before anything is trusted."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from qilbeedb import ConsumerProtocolError
from qilbeedb._job_pages import check_page
from qilbeedb._jobs import check_history, check_inspection, check_receipt
from tests.harness import scripted_jobs as jobs
from tests.harness.spoiling import spoiled, without
from tests.unit.sdk.refusals import refuses

U64_MAX = 2**64 - 1
OTHER = "00000000-0000-4000-8000-000000000009"
ENDED: dict[str, Any] = {"outcome": "failed", "ended_at_millis": jobs.NOW_MS, "evidence_ref": "e"}


def relation_receipt(**members: Any) -> dict[str, Any]:
    return {
        "contract_version": 1,
        "idempotency_key": "k#0",
        "relation_id": OTHER,
        "revision": 1,
        "action": "asserted",
        "author": dict(jobs.AUTHOR),
        "committed_at_millis": jobs.NOW_MS,
        "evidence_ref": "e",
        "relation_digest": jobs.DIGEST,
        "command_digest": jobs.DIGEST,
        "receipt_digest": jobs.DIGEST,
        **members,
    }


def job(status: str = "ready", *attempts: dict[str, Any], **members: Any) -> dict[str, Any]:
    """A job with these attempts, numbered and with fences of their own."""
    numbered = [
        {**one, "number": number, "fence": f"00000000-0000-4000-8000-{number:012}"}
        for number, one in enumerate(attempts, start=1)
    ]
    return {**jobs.ScriptedJobs().job, "status": status, "attempts": numbered, **members}


def inspection(of: dict[str, Any], **members: Any) -> dict[str, Any]:
    is_running = of["status"] == "running"
    return {
        "job": of,
        "evaluated_at_millis": jobs.NOW_MS,
        "lease_active": is_running,
        "recoverable": False,
        "source_failure": None,
        "dependency_work": dict(jobs.WORK),
        **members,
    }


RUNNING = jobs.attempt()
FAILED = jobs.attempt(**ENDED)
UNKNOWN = jobs.attempt(**{**ENDED, "outcome": "unknown"})
REPORTED = {"status": "reported", "model_calls": U64_MAX, "input_tokens": 0, "output_tokens": 0, "cost_microusd": None}
PUBLISHED = jobs.attempt(**{**ENDED, "outcome": "published"}, usage=REPORTED)
WHOLE = job("published", FAILED, PUBLISHED, output_receipts=[relation_receipt()])
FAILURE = {"record_id": OTHER, "expected_revision": 1, "actual_revision": None, "reason": "source_missing"}


def accept(document: dict[str, Any]) -> None:
    check_inspection(document, job_id=jobs.JOB_ID, subject_id=jobs.SUBJECT)


@pytest.mark.parametrize(
    "document",
    [
        inspection(job()),
        inspection(job("ready", FAILED)),
        inspection(job("running", RUNNING)),
        inspection(job("running", FAILED, RUNNING), lease_active=False, recoverable=True),
        inspection(WHOLE, source_failure=FAILURE),
        inspection(job("published", PUBLISHED)),
        inspection(job("cancelled")),
        inspection(job("cancelled", UNKNOWN)),
        inspection(job("exhausted", FAILED, UNKNOWN)),
        inspection(job(created_at_millis=-5, revision=U64_MAX)),
    ],
)
def test_accepted_jobs(document: dict[str, Any]) -> None:
    """Every lawful combination of status, attempts and outputs is accepted."""
    accept(document)


def test_every_member_of_an_inspection_is_checked() -> None:
    """Any member taken away, added, or of another type is refused, in every place of a whole job."""
    whole = inspection(WHOLE, source_failure=FAILURE)
    usage_cost = "job/attempts/1/usage/cost_microusd"
    kept = []
    for what, document in [*spoiled(whole), *without(whole)]:
        try:
            accept(document)
        except ConsumerProtocolError:
            continue
        kept.append(what)
    # Documented: an absent cost is an unknown one, and zero is a cost. A cause may not be known, nor may its revision.
    assert [f"{usage_cost} as a number", usage_cost] == kept


@pytest.mark.parametrize(
    "document",
    [
        inspection(job("ready", FAILED, FAILED)),
        inspection(job("ready", RUNNING)),
        inspection(job("ready", PUBLISHED)),
        inspection(job("running")),
        inspection(job("running", FAILED)),
        inspection(job("running", RUNNING, FAILED)),
        inspection(job("running", RUNNING, RUNNING)),
        inspection(job("running", PUBLISHED, RUNNING)),
        inspection(job("published", FAILED)),
        inspection(job("published", PUBLISHED, PUBLISHED)),
        inspection(job("cancelled", RUNNING)),
        inspection(job("cancelled", PUBLISHED)),
        inspection(job("cancelled", output_receipts=[relation_receipt()])),
        inspection(job("exhausted", FAILED)),
        inspection(job("exhausted", FAILED, PUBLISHED)),
        inspection(job("ready", FAILED, output_receipts=[relation_receipt()])),
        inspection(job("published", PUBLISHED, FAILED, FAILED)),
        inspection(job("published", PUBLISHED, output_receipts=[relation_receipt()] * 3)),
        inspection(job("published", PUBLISHED, output_receipts=[relation_receipt(action="retired")])),
        inspection(
            job(
                "published",
                PUBLISHED,
                output_receipts=[relation_receipt(author={"credential_id": OTHER, "subject_id": "other"})],
            )
        ),
        inspection(job("done")),
        inspection(job(modified_at_millis=jobs.NOW_MS - 1)),
        inspection(job(job_id=OTHER)),
        inspection(job(created_by={"credential_id": OTHER, "subject_id": "other"})),
        inspection(job("running", RUNNING), recoverable=True),
        inspection(job("running", RUNNING), lease_active=False),
        inspection(job(), lease_active=True),
        inspection(job(), recoverable=True),
        inspection(job(), source_failure={**FAILURE, "reason": "eligible"}),
        inspection(job(), source_failure={**FAILURE, "expected_revision": 0}),
    ],
)
def test_contradictory_jobs(document: dict[str, Any]) -> None:
    """Status, attempts, outputs, lease and ownership have to fit together."""
    assert "invalid_response" == refuses(lambda: accept(document))


@pytest.mark.parametrize(
    "members",
    [
        {"claimed_at_millis": jobs.NOW_MS - 1},
        {"expires_at_millis": jobs.NOW_MS},
        {"expires_at_millis": jobs.NOW_MS + 60_001},
        {"ended_at_millis": jobs.NOW_MS},
        {"evidence_ref": "e"},
        {"usage": REPORTED},
        {"usage": {"status": "unknown", "model_calls": 0}},
        {"outcome": "failed", "ended_at_millis": jobs.NOW_MS, "evidence_ref": None},
        {"outcome": "failed", "ended_at_millis": None, "evidence_ref": "e"},
        {"outcome": "failed", "ended_at_millis": jobs.NOW_MS - 1, "evidence_ref": "e"},
        {"outcome": "lost"},
        {"worker_id": " "},
        {"worker_id": "a\u0085b"},
        {"worker_id": "\u00e9" * 129},
        {"usage_evidence_ref": "x" * 2049},
        {"fence": "C7A1D0DE-2F0B-4C55-B1A4-6F1D6E0A9B21"},
        {"number": 2},
    ],
)
def test_contradictory_attempts(members: dict[str, Any]) -> None:
    """Deadlines, ends, evidence and consumption of an attempt have to fit its outcome."""
    broken = inspection({**job("running"), "attempts": [jobs.attempt(**members)]})
    assert "invalid_response" == refuses(lambda: accept(broken))


def test_deadline_must_fit_64_bits() -> None:
    """A hard deadline beyond signed 64 bits is no deadline."""
    last = 2**63 - 1
    edge = jobs.attempt(claimed_at_millis=last - 60_000, expires_at_millis=last - 1)
    accept(inspection({**job("running"), "attempts": [edge]}))
    late = jobs.attempt(claimed_at_millis=last - 59_999, expires_at_millis=last - 1)
    assert "invalid_response" == refuses(lambda: accept(inspection({**job("running"), "attempts": [late]})))


def test_fences_are_distinct() -> None:
    """One fence names one attempt."""
    twice = job("exhausted", FAILED, FAILED)
    twice["attempts"][1]["fence"] = twice["attempts"][0]["fence"]
    assert "invalid_response" == refuses(lambda: accept(inspection(twice)))


@pytest.mark.parametrize(
    "members",
    [
        {"sources": jobs.SOURCES[:1]},
        {"sources": [jobs.SOURCES[0], {**jobs.SOURCES[1], "record_id": jobs.SOURCES[0]["record_id"]}]},
        {"sources": [{**jobs.SOURCES[0], "revision": 0}, jobs.SOURCES[1]]},
        {"sources": [{**jobs.SOURCES[0], "revision": U64_MAX + 1}, jobs.SOURCES[1]]},
        {"objective": "x" * 4097},
        {"max_relations": 17},
        {"max_attempts": 33},
        {"lease_millis": 999},
        {"lease_millis": 900_001, "max_attempt_millis": 900_001},
        {"max_attempt_millis": 4999},
        {"max_attempt_millis": 86_400_001},
        {"extractor": {**jobs.spec()["extractor"], "origin": "model_inference"}},
        {"extractor": {**jobs.spec()["extractor"], "origin": "guess"}},
        {"extractor": {**jobs.spec()["extractor"], "model": {"provider": "p", "model": "m"}}},
    ],
)
def test_broken_specifications(members: dict[str, Any]) -> None:
    """Bounds of the specification, distinct sources, and a complete model for a model's inference."""
    broken = inspection(job(spec={**jobs.spec(), **members}))
    assert "invalid_response" == refuses(lambda: accept(broken))


def page(ids: list[int], **members: Any) -> dict[str, Any]:
    summary = {
        "revision": 1, "status": "ready", "created_at_millis": 0, "modified_at_millis": 0, "attempts": 0,
        "lease_active": False, "recoverable": False,
    }  # fmt: skip
    return {
        "jobs": [{"job_id": numbered(number), **summary} for number in ids],
        "next_after": None,
        "records_examined": len(ids),
        "record_bytes": 0,
        "evaluated_at_millis": 0,
        **members,
    }


def numbered(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012}"


@pytest.mark.parametrize(
    ("code", "document"),
    [
        ("non_advancing_job_page", page([2, 2])),
        ("non_advancing_job_page", page([3, 2])),
        ("non_advancing_job_page", page([1])),
        ("non_advancing_job_page", page([], next_after=numbered(1), records_examined=1)),
        ("non_advancing_job_page", page([], next_after=numbered(9))),
        ("cursor_precedes_job", page([2, 4], next_after=numbered(3))),
        ("invalid_response", page([2, 3, 4, 5])),
        ("invalid_response", page([2], records_examined=0)),
        ("invalid_response", page([2], records_examined=11)),
        ("invalid_response", {**page([2]), "jobs": [{**page([2])["jobs"][0], "status": "published"}]}),
        ("invalid_response", {**page([2]), "jobs": [{**page([2])["jobs"][0], "recoverable": True}]}),
        ("invalid_response", {**page([2]), "jobs": [{**page([2])["jobs"][0], "attempts": []}]}),
    ],
)
def test_pages_that_lead_nowhere(code: str, document: dict[str, Any]) -> None:
    """Ids ascend beyond the cursor, the filter is kept, and a continuation goes forward."""
    assert code == refuses(lambda: check_page(document, limit=3, scan_limit=10, after=numbered(1), status="ready"))


def test_accepted_pages() -> None:
    """An empty page may go on; the cursor may stand on the last job or behind it."""
    for document in (
        page([], next_after=numbered(9), records_examined=10),
        page([2, 3], next_after=numbered(3)),
        page([2, 3], next_after=numbered(7), records_examined=6),
        page([2]),
    ):
        check_page(document, limit=3, scan_limit=10, after=numbered(1), status="ready")


RECEIPT = {
    "contract_version": 1, "idempotency_key": "k", "job_id": jobs.JOB_ID, "revision": 3, "action": "renewed",
    "author": dict(jobs.AUTHOR), "committed_at_millis": jobs.NOW_MS, "job_digest": jobs.DIGEST,
    "command_digest": jobs.DIGEST, "receipt_digest": jobs.DIGEST,
}  # fmt: skip
RENEW = {"type": "renew", "job_id": jobs.JOB_ID, "expected_revision": 2, "fence": jobs.FENCE}
STRANGER = {"credential_id": OTHER, "subject_id": "administrator"}


def accept_receipt(receipt: Any, operation: dict[str, Any] = RENEW) -> None:
    check_receipt(receipt, idempotency_key="k", operation=operation, subject_id=jobs.SUBJECT)


def test_every_member_of_a_receipt_is_checked() -> None:
    """Nothing may be missing, added, of another type, or of another command."""
    accept_receipt(RECEIPT)
    broken = [document for _, document in [*spoiled(RECEIPT), *without(RECEIPT)]]
    others: list[dict[str, Any]] = [
        {"idempotency_key": "l"},
        {"job_id": OTHER},
        {"revision": 2},
        {"revision": 4},
        {"action": "claimed"},
        {"author": STRANGER},
        {"job_digest": "AB" * 32},
    ]
    for document in [*broken, *({**RECEIPT, **other} for other in others)]:
        assert "invalid_response" == refuses(lambda document=document: accept_receipt(document))  # type: ignore[misc]


def test_a_cancellation_may_be_an_administrators() -> None:
    """Only there may the author be somebody else."""
    cancel = {**RENEW, "type": "cancel"}
    accept_receipt({**RECEIPT, "action": "cancelled", "author": STRANGER}, cancel)
    assert "invalid_response" == refuses(lambda: accept_receipt({**RECEIPT, "action": "cancelled"}))


def test_history_fits_together() -> None:
    """Job, receipt and request speak of the same revision, and the receipt of the same moment."""

    def check(history: dict[str, Any]) -> None:
        check_history(history, job_id=jobs.JOB_ID, revision=3, subject_id=jobs.SUBJECT)

    whole = {"job": job("running", RUNNING, revision=3), "receipt": dict(RECEIPT)}
    check(whole)
    check({**whole, "receipt": {**RECEIPT, "action": "cancelled", "author": STRANGER}})
    changes: list[tuple[str, dict[str, Any]]] = [
        ("job", {"revision": 2}),
        ("receipt", {"revision": 2}),
        ("receipt", {"job_id": OTHER}),
        ("receipt", {"committed_at_millis": jobs.NOW_MS + 1}),
        ("receipt", {"author": STRANGER}),
        ("job", {"job_id": OTHER}),
    ]
    for name, members in changes:
        broken = copy.deepcopy(whole)
        broken[name].update(members)
        assert "invalid_response" == refuses(lambda broken=broken: check(broken))  # type: ignore[misc]

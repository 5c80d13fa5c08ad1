"""Every member of a context, and every rule between them, is checked before a record reaches an extractor."""

from __future__ import annotations

from typing import Any

import pytest

from qilbeedb import ConsumerProtocolError
from qilbeedb._contexts import check_context
from tests.harness import scripted_jobs as jobs
from tests.harness.spoiling import spoiled, without
from tests.unit.sdk.refusals import refuses

OTHER = "00000000-0000-4000-8000-000000000009"

# May be left out of a record, by the documentation.
OPTIONAL = {
    "payload/content/secondary",
    "payload/content/data",
    "payload/content/embedding",
    "payload/valid_until_millis",
    "payload/tags",
    "payload/metadata",
    "review",
    "derivation",
}


def context(**members: Any) -> dict[str, Any]:
    return {
        "job_id": jobs.JOB_ID,
        "job_revision": 2,
        "fence": jobs.FENCE,
        "records": [jobs.record(source) for source in jobs.SOURCES],
        "evaluated_at_millis": jobs.NOW_MS,
        "record_bytes": 1,
        "dependency_work": dict(jobs.WORK),
        **members,
    }


def accept_context(document: dict[str, Any]) -> None:
    check_context(document, job_id=jobs.JOB_ID, job_revision=2, fence=jobs.FENCE)


def test_every_member_of_a_context_is_checked() -> None:
    """Any member taken away, added, or of another type is refused, except where the documentation allows it."""
    free = ("data", "metadata")
    whole = context()
    accept_context(whole)
    for record in whole["records"]:
        record["review"] = {
            "disposition": "approved", "evidence_ref": "e", "author": dict(jobs.AUTHOR), "reviewed_at_millis": 0,
        }  # fmt: skip
        record["derivation"] = {
            "sources": [{"record_id": OTHER, "revision": 1}],
            "method": "m", "method_revision": "1", "evidence_ref": "e",
        }  # fmt: skip
        record["payload"]["valid_until_millis"] = jobs.NOW_MS + 1
    accept_context(whole)
    kept = set()
    for what, document in spoiled(whole, free=free):
        try:
            accept_context(document)
        except ConsumerProtocolError:
            continue
        kept.add(what.partition("/")[2].partition("/")[2])
    # Number arrays hold floats; zero is a number where null stood; a custom kind of event may have any name.
    allowed = {"payload/content/embedding/1 as a float"}
    assert set() == kept - allowed
    missing = {
        what.split("/", 2)[-1]
        for what, document in without(whole)
        if what.startswith("records/0/") and _is_accepted(document)
    }
    assert OPTIONAL - {"payload/content/data"} <= missing
    assert missing - OPTIONAL <= {"payload/content/data/deep", "payload/metadata/any"}


def _is_accepted(document: dict[str, Any]) -> bool:
    try:
        accept_context(document)
    except ConsumerProtocolError:
        return False
    return True


def with_record(**members: Any) -> dict[str, Any]:
    document = context()
    document["records"][1].update(members)
    return document


def with_payload(**members: Any) -> dict[str, Any]:
    document = context()
    document["records"][1]["payload"].update(members)
    return document


REVIEW = {"disposition": "rejected", "evidence_ref": "e", "author": jobs.AUTHOR, "reviewed_at_millis": 0}
DERIVATION = {"sources": [jobs.SOURCES[1]], "method": "m", "method_revision": "1", "evidence_ref": "e"}


@pytest.mark.parametrize(
    ("code", "document"),
    [
        ("duplicate_context_record", context(records=[jobs.record(jobs.SOURCES[0])] * 2)),
        ("expired_context_record", with_payload(valid_until_millis=jobs.NOW_MS)),
        ("ineligible_context_review", with_record(review=REVIEW)),
        ("self_derived_context_record", with_record(derivation=DERIVATION)),
        ("invalid_response", with_record(derivation={**DERIVATION, "sources": [jobs.SOURCES[0]] * 2})),
        ("invalid_response", with_record(payload=None)),
        ("invalid_response", with_payload(tags=None)),
        ("invalid_response", with_payload(metadata=None)),
        ("invalid_response", with_payload(episode_type="observation")),
        ("invalid_response", with_payload(episode_type={"Custom": "a", "More": "b"})),
        ("invalid_response", with_payload(content={"primary": "x", "embedding": [True]})),
        ("invalid_response", with_payload(content={"primary": "x", "embedding": [3.5e38]})),
        ("invalid_response", context(records=[jobs.record(jobs.SOURCES[0])])),
        ("invalid_response", context(record_bytes=0)),
        ("invalid_response", context(record_bytes=8_388_609)),
        ("invalid_response", context(job_revision=3)),
        ("invalid_response", context(job_id=OTHER)),
        ("invalid_response", context(fence=OTHER)),
        ("invalid_response", context(dependency_work={"records_examined": 4097, "bytes_examined": 0})),
    ],
)
def test_contexts_that_must_not_be_used(code: str, document: dict[str, Any]) -> None:
    """What may not be extracted from has its own code."""
    assert code == refuses(lambda: accept_context(document))

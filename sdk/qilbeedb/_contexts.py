"""The context of an attempt: the records that an extractor may work on, checked before it sees any of them."""

from __future__ import annotations

from typing import Any

from qilbeedb._checks import MILLIS, REVISION, array, closed, integer, uuid
from qilbeedb._errors import refuse
from qilbeedb._identities import DEPENDENCY_WORK
from qilbeedb._records import is_expired, is_rejected, is_self_derived, record

_CONTEXT = closed(
    {
        "job_id": uuid,
        "job_revision": REVISION,
        "fence": uuid,
        "records": array(record, 2, 16),
        "evaluated_at_millis": MILLIS,
        "record_bytes": integer(1, 8_388_608),
        "dependency_work": DEPENDENCY_WORK,
    }
)


def check_context(context: Any, *, job_id: str, job_revision: int, fence: str) -> None:
    """Check a context against the request for it, and that each of its records may be used.

    Raises:
        ConsumerProtocolError: `duplicate_context_record`, `expired_context_record`, `ineligible_context_review`,
            `self_derived_context_record`, or `invalid_response`.
    """
    _CONTEXT(context)
    if (context["job_id"], context["job_revision"], context["fence"]) != (job_id, job_revision, fence):
        refuse()
    records = context["records"]
    if len({found["record_id"] for found in records}) != len(records):
        refuse("duplicate_context_record")
    for found in records:
        if is_expired(found, context["evaluated_at_millis"]):
            refuse("expired_context_record")
        if is_rejected(found):
            refuse("ineligible_context_review")
        if is_self_derived(found):
            refuse("self_derived_context_record")

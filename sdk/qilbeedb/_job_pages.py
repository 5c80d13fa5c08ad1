"""Pages of job summaries: order, filter and cursors."""

from __future__ import annotations

from typing import Any, Optional

from qilbeedb._checks import MILLIS, REVISION, array, boolean, closed, integer, nullable, uuid
from qilbeedb._errors import refuse
from qilbeedb._jobs import STATUS, check_lease

_SUMMARY = closed(
    {
        "job_id": uuid,
        "revision": REVISION,
        "status": STATUS,
        "created_at_millis": MILLIS,
        "modified_at_millis": MILLIS,
        "attempts": integer(0, 32),
        "lease_active": boolean,
        "recoverable": boolean,
    }
)
_PAGE = closed(
    {
        "jobs": array(_SUMMARY, 0, 100),
        "next_after": nullable(uuid),
        "records_examined": integer(0, 1000),
        "record_bytes": integer(0, 4_194_304),
        "evaluated_at_millis": MILLIS,
    }
)


def check_page(page: Any, *, limit: int, scan_limit: int, after: Optional[str], status: Optional[str]) -> None:
    """Check a page against the query that asked for it.

    Raises:
        ConsumerProtocolError: `non_advancing_job_page` when ids or the cursor do not ascend, `cursor_precedes_job` when
            the cursor would list a returned job again, `invalid_response` otherwise.
    """
    _PAGE(page)
    jobs, next_after = page["jobs"], page["next_after"]
    if not len(jobs) <= limit or not len(jobs) <= page["records_examined"] <= scan_limit:
        refuse()
    previous = after
    for summary in jobs:
        if previous is not None and summary["job_id"] <= previous:
            refuse("non_advancing_job_page")
        previous = summary["job_id"]
        if status is not None and summary["status"] != status:
            refuse()
        check_lease(summary["status"], summary)
    if next_after is not None:
        if not page["records_examined"] or (after is not None and next_after <= after):
            refuse("non_advancing_job_page")
        if jobs and next_after < jobs[-1]["job_id"]:
            refuse("cursor_precedes_job")

"""Walk the jobs of one owner in ascending order of their ids."""

from __future__ import annotations

from dataclasses import dataclass

from services.consolidation.job_partition import JobPartition
from services.domain import keys, limits
from services.domain.job_summaries import JobSummary, decode_summary
from services.domain.jobs import JobStatus
from services.domain.lease import Moment


@dataclass(frozen=True, slots=True)
class JobPage:
    """One page.

    Attributes:
        next_after: Id of the last examined job when more exist, else None.
        records_examined: Jobs examined, those of another status included.
        record_bytes: Length of their stored forms, at most 4 MiB.
        moment: What their leases are judged by.
    """

    jobs: tuple[JobSummary, ...]
    next_after: str | None
    records_examined: int
    record_bytes: int
    moment: Moment


def query_jobs(
    jobs: JobPartition, *, limit: int, scan_limit: int, after: str | None, status: JobStatus | None
) -> JobPage:
    """Return the next jobs of a status. The page also ends, with a continuation, before its jobs pass 4 MiB.

    Args:
        jobs: The jobs of the owner.
        limit: Greatest number of jobs, 1 to 100.
        scan_limit: Greatest number of jobs to examine, 1 to 1,000.
        after: Only greater ids; any id will do, whether it exists or not.
        status: Only this status; None for all.
    """
    prefix = keys.job_summary_prefix(jobs.owner_id)
    start = prefix if after is None else keys.job_summary_key(jobs.owner_id, after) + b"\x00"
    # One row more than may be examined tells whether anything is left.
    wanted = 1 + (scan_limit if status is not None else min(limit, scan_limit))
    rows = jobs.memory.transaction.scan(jobs.memory.id, start, keys.prefix_end(prefix), limit=wanted)
    found: list[JobSummary] = []
    examined, examined_bytes = 0, 0
    last_id: str | None = None
    for _, value in rows:
        summary = decode_summary(value)
        is_over_bytes = examined_bytes + summary.job_bytes > limits.JOB_PAGE_BYTES_MAX
        if len(found) == limit or examined == scan_limit or is_over_bytes:
            return JobPage(tuple(found), last_id, examined, examined_bytes, jobs.moment)
        examined += 1
        examined_bytes += summary.job_bytes
        last_id = summary.job_id
        if status is None or summary.status == status:
            found.append(summary)
    return JobPage(tuple(found), None, examined, examined_bytes, jobs.moment)

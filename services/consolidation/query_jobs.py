"""Walk the jobs of one owner in ascending order of their ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from services.consolidation.job_partition import JobPartition
from services.domain import keys, limits
from services.domain.jobs import Job, JobStatus, decode_job

_ROWS_IN_FIRST_SCAN: Final = 16
_BYTES_IN_ONE_SCAN: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class JobSummary:
    """A job and whether its lease can be used, at the clock of its page."""

    job: Job
    lease_active: bool
    recoverable: bool


@dataclass(frozen=True, slots=True)
class JobPage:
    """One page.

    Attributes:
        next_after: Id of the last examined job when more exist, else None.
        records_examined: Jobs examined, those of another status included.
        record_bytes: Length of their stored forms, at most 4 MiB.
    """

    jobs: tuple[JobSummary, ...]
    next_after: str | None
    records_examined: int
    record_bytes: int
    evaluated_at_millis: int


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
    moment, transaction = jobs.moment, jobs.memory.transaction
    prefix = keys.job_prefix(jobs.owner_id)
    start = prefix if after is None else keys.job_key(jobs.owner_id, after) + b"\x00"
    end = keys.prefix_end(prefix)
    found: list[JobSummary] = []
    examined, examined_bytes = 0, 0
    last_id: str | None = None
    while True:
        # One row more than may be examined tells whether anything is left.
        wanted = min(_rows_in_next_scan(examined, examined_bytes), scan_limit - examined + 1)
        if status is None:
            wanted = min(wanted, limit - len(found) + 1)
        rows = transaction.scan(jobs.memory.id, start, end, limit=wanted)
        for _, value in rows:
            is_over_bytes = examined_bytes + len(value) > limits.JOB_PAGE_BYTES_MAX
            if len(found) == limit or examined == scan_limit or is_over_bytes:
                return JobPage(tuple(found), last_id, examined, examined_bytes, moment.now_ms)
            job = decode_job(value)
            examined += 1
            examined_bytes += len(value)
            last_id = job.job_id
            if status is None or job.status == status:
                found.append(JobSummary(job, job.is_lease_active(moment), job.is_recoverable(moment)))
        if len(rows) < wanted:
            return JobPage(tuple(found), None, examined, examined_bytes, moment.now_ms)
        start = rows[-1][0] + b"\x00"


def _rows_in_next_scan(examined: int, examined_bytes: int) -> int:
    if not examined:
        return _ROWS_IN_FIRST_SCAN
    return max(_ROWS_IN_FIRST_SCAN, _BYTES_IN_ONE_SCAN * examined // examined_bytes)

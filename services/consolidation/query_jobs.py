"""Walk jobs: those of one owner by id, or those of all owners of a workspace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from services.consolidation.job_partition import JobPartition
from services.domain import keys, limits
from services.domain.job_summaries import JobSummary, decode_summary
from services.domain.jobs import JobStatus
from services.domain.lease import Moment
from services.workspace.partition import MemoryPartition

Job = TypeVar("Job")
Place = TypeVar("Place")


class JobPlace(NamedTuple):
    """A place in the order of a company's jobs."""

    owner_id: str
    job_id: str


class OwnedSummary(NamedTuple):
    """A job in a list of all owners."""

    owner_id: str
    summary: JobSummary


@dataclass(frozen=True, slots=True)
class ScannedJobs(Generic[Job, Place]):
    """One page.

    Attributes:
        next_after: Place of the last examined job when more exist, else None.
        records_examined: Jobs examined, those of another status included.
        record_bytes: Length of their stored forms, at most 4 MiB.
        moment: What their leases are judged by.
    """

    jobs: tuple[Job, ...]
    next_after: Place | None
    records_examined: int
    record_bytes: int
    moment: Moment


JobPage = ScannedJobs[JobSummary, str]
CompanyJobPage = ScannedJobs[OwnedSummary, JobPlace]


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
    return _scan(
        jobs.memory,
        keys.job_summary_prefix(jobs.owner_id),
        None if after is None else keys.job_summary_key(jobs.owner_id, after),
        lambda _key, summary: (summary, summary.job_id),
        limit=limit,
        scan_limit=scan_limit,
        status=status,
    )


def query_company_jobs(
    memory: MemoryPartition, *, limit: int, scan_limit: int, after: JobPlace | None, status: JobStatus | None
) -> CompanyJobPage:
    """Return the next jobs of all owners, by the bytes of the owner's JSON text and then by id; see `query_jobs`.

    Args:
        memory: The workspace.
        limit, scan_limit, status: As there.
        after: Only jobs behind this place, whether there is a job at it or not.
    """

    def place(key: bytes, summary: JobSummary) -> tuple[OwnedSummary, JobPlace]:
        owner_id = keys.job_summary_owner(key)
        return OwnedSummary(owner_id, summary), JobPlace(owner_id, summary.job_id)

    return _scan(
        memory,
        keys.JOB_SUMMARY,
        None if after is None else keys.job_summary_key(*after),
        place,
        limit=limit,
        scan_limit=scan_limit,
        status=status,
    )


def _scan(
    memory: MemoryPartition,
    prefix: bytes,
    after_key: bytes | None,
    listed: Callable[[bytes, JobSummary], tuple[Job, Place]],
    *,
    limit: int,
    scan_limit: int,
    status: JobStatus | None,
) -> ScannedJobs[Job, Place]:
    transaction = memory.transaction
    moment = Moment(memory.now_ms, transaction.incarnation)
    start = prefix if after_key is None else after_key + b"\x00"
    # One row more than may be examined tells whether anything is left.
    wanted = 1 + (scan_limit if status is not None else min(limit, scan_limit))
    rows = transaction.scan(memory.id, start, keys.prefix_end(prefix), limit=wanted)
    found: list[Job] = []
    examined, examined_bytes = 0, 0
    last: Place | None = None
    for key, value in rows:
        summary = decode_summary(value)
        is_over_bytes = examined_bytes + summary.job_bytes > limits.JOB_PAGE_BYTES_MAX
        if len(found) == limit or examined == scan_limit or is_over_bytes:
            return ScannedJobs(tuple(found), last, examined, examined_bytes, moment)
        examined += 1
        examined_bytes += summary.job_bytes
        job, last = listed(key, summary)
        if status is None or summary.status == status:
            found.append(job)
    return ScannedJobs(tuple(found), None, examined, examined_bytes, moment)

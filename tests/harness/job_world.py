"""A small company with memories and consolidation jobs: short calls for everything that can be done to a job."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from services.consolidation.access import READ_AND_WRITE, JobAccess
from services.consolidation.commands import ClaimJob, Command, CreateJob, FailAttempt, PublishJob, RenewLease
from services.consolidation.execute_command import keyed_command
from services.consolidation.inspect_job import JobInspection, inspect_job
from services.consolidation.query_jobs import JobPage, query_jobs
from services.consolidation.read_job_context import JobContext, read_job_context
from services.domain.errors import WaggleError
from services.domain.jobs import Assertion, Job, JobSpec, JobStatus, ReportedUsage
from services.domain.lease import LeaseClaim
from services.domain.receipts import Receipt
from services.domain.records import SourceRef
from services.domain.relations import Provenance, RelationKind
from services.domain.scope import Scope
from services.identity.tokens import Token
from services.runtime.admission import release_slot
from services.runtime.identifiers import new_uuid
from services.storage.contract import Store
from tests.harness.interposed_store import InterposedStore
from tests.harness.memory_world import SCOPE, START_MS, MemoryWorld

EXTRACTOR = Provenance("tool_observation", "linker", "7", "extractor:1")
LEASE_MS = 5_000
ATTEMPT_MS = 12_000
USAGE = ReportedUsage(1, 2, 3)
ABSENT = "00000000-0000-4000-8000-00000000dead"


def spec_of(sources: tuple[SourceRef, ...], **members: Any) -> JobSpec:
    """A specification over these sources; members override the defaults."""
    values: dict[str, Any] = {
        "objective": "link what belongs together",
        "policy_ref": "policy:1",
        "extractor": EXTRACTOR,
        "max_relations": 4,
        "max_attempts": 2,
        "lease_millis": LEASE_MS,
        "max_attempt_millis": ATTEMPT_MS,
    }
    return JobSpec(sources, **(values | members))


def assertion(source: SourceRef, target: SourceRef, kind: RelationKind = "supports", **members: Any) -> Assertion:
    """An assertion with evidence of its own."""
    return Assertion(source, target, kind, members.pop("evidence_ref", "found:1"), **members)


def reason_of(call: Callable[[], Any]) -> str:
    """The documented code that a call is refused with."""
    with pytest.raises(WaggleError) as refused:
        call()
    return refused.value.reason


def member_of(call: Callable[[], Any]) -> str | None:
    """The member at fault that a refused call names."""
    with pytest.raises(WaggleError) as refused:
        call()
    return refused.value.member


class JobWorld(MemoryWorld):
    """A `MemoryWorld` whose store can be watched and opened again, with two sources and access to jobs.

    Attributes:
        traffic: The store as a test can act on it.
        jobs: Access to jobs.
        sources: Two records, the first with the earlier event time.
    """

    def __init__(self, *, slot_count: int = 2) -> None:
        super().__init__(slot_count=slot_count)
        self.jobs = JobAccess(self.store, self.authority, self.slots)
        self._job_keys = itertools.count(1)
        self.sources = self.more_sources(2)

    def open_store(self) -> Store:
        """A store that can be watched and opened again."""
        self.traffic = InterposedStore(self.clock)
        return self.traffic

    def more_sources(self, count: int) -> tuple[SourceRef, ...]:
        """New records with ascending event times."""
        return tuple(self.create(f"source {index}", event_time_millis=START_MS + index) for index in range(count))

    def run(
        self, command: Command, key: str | None = None, *, scope: Scope = SCOPE, token: Token | None = None
    ) -> Receipt:
        """Carry out a command under a key, a new one by default."""
        new_ids = [new_uuid() for _ in range(command.new_id_count)]
        keyed = keyed_command(key or f"job-{next(self._job_keys)}", command, new_ids=new_ids)
        try:
            return self.jobs.execute(token or self.token, scope, keyed)
        finally:
            release_slot()

    def inspect(self, job_id: str, *, scope: Scope = SCOPE, token: Token | None = None) -> JobInspection:
        """Read a job and how it stands."""
        return self._view(
            lambda jobs, _principal: inspect_job(jobs, job_id),
            scope=scope,
            token=token,
            partition_keys=self.jobs.job_and_sources(job_id),
        )

    def history(
        self, job_id: str, revision: int, *, scope: Scope = SCOPE, token: Token | None = None
    ) -> tuple[Job, Receipt]:
        """Read a job as one command left it."""
        return self._view(lambda jobs, _principal: jobs.history(job_id, revision), scope=scope, token=token)

    def context(
        self, job_id: str, revision: int, fence: str, *, scope: Scope = SCOPE, token: Token | None = None
    ) -> JobContext:
        """Read the sources as a worker."""
        return self._view(
            lambda jobs, principal: read_job_context(
                jobs, job_id, revision, LeaseClaim(principal.credential_id, fence)
            ),
            scope=scope,
            token=token,
            capabilities=READ_AND_WRITE,
            partition_keys=self.jobs.job_and_sources(job_id),
        )

    def query(
        self,
        *,
        limit: int = 100,
        scan_limit: int = 1000,
        after: str | None = None,
        status: JobStatus | None = None,
        scope: Scope = SCOPE,
        token: Token | None = None,
    ) -> JobPage:
        """Read a page of jobs."""
        return self._view(
            lambda jobs, _principal: query_jobs(jobs, limit=limit, scan_limit=scan_limit, after=after, status=status),
            scope=scope,
            token=token,
            pin=True,
        )

    def job(self, job_id: str) -> Job:
        """The job at its current revision."""
        return self.inspect(job_id).job

    def new_job(self, *, scope: Scope = SCOPE, token: Token | None = None, **members: Any) -> str:
        """Create a job over `sources` and return its id."""
        sources = members.pop("sources", self.sources)
        receipt = self.run(CreateJob(spec_of(sources, **members)), scope=scope, token=token)
        job_id: str = receipt["job_id"]
        return job_id

    def claim(self, job_id: str, *, revision: int | None = None, token: Token | None = None) -> str:
        """Claim a job and return the fence."""
        expected = self.job(job_id).revision if revision is None else revision
        self.run(ClaimJob(job_id, expected, "worker"), token=token)
        return self.job(job_id).attempts[-1].lease.fence

    def running_job(self, **members: Any) -> tuple[str, str]:
        """Create a job, claim it, and return its id and the fence; it is then at revision 2."""
        job_id = self.new_job(**members)
        return job_id, self.claim(job_id, revision=1)

    def renew(self, job_id: str, fence: str, *, token: Token | None = None) -> Receipt:
        """Renew the lease at the current revision."""
        return self.run(RenewLease(job_id, self.job(job_id).revision, fence), token=token)

    def publish(
        self, job_id: str, fence: str, *assertions: Assertion, token: Token | None = None, key: str | None = None
    ) -> Receipt:
        """Publish at the current revision."""
        return self.run(
            PublishJob(job_id, self.job(job_id).revision, fence, assertions, USAGE, "published:1"), key, token=token
        )

    def fail(self, job_id: str, fence: str, *, token: Token | None = None) -> Receipt:
        """Fail at the current revision."""
        return self.run(FailAttempt(job_id, self.job(job_id).revision, fence, None, "failed:1"), token=token)

    def _view(self, function: Callable[..., Any], *, scope: Scope, token: Token | None, **options: Any) -> Any:
        try:
            return self.jobs.read(token or self.token, scope, function, **options)
        finally:
            release_slot()

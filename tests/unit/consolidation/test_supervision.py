"""Supervision of jobs: the order over owners, pages, and cancellation by an administrator."""

from __future__ import annotations

import json
from typing import Any

import pytest

from services.consolidation.commands import CancelJob, PublishJob
from services.consolidation.execute_command import execute_command, keyed_command
from services.consolidation.job_partition import JobPartition
from services.consolidation.query_jobs import CompanyJobPage, JobPlace, query_company_jobs
from services.domain import keys
from services.domain.job_summaries import summary_of_job
from services.domain.receipts import Receipt
from services.domain.scope import workspace_for
from services.identity.tokens import Token
from services.workspace.company_access import CompanyVisit
from tests.harness.job_world import ABSENT, USAGE, JobWorld, member_of, reason_of
from tests.harness.memory_world import SCOPE
from tests.harness.supervisor import Supervisor, workspace_id

LAST = "ffffffff-ffff-ffff-ffff-ffffffffffff"
OWNERS = ["a", "a ", "a!", 'a"', "a\\", "ab", "svc", "é", "日本", "\N{HONEYBEE}", "￿"]


@pytest.fixture
def admin(world: JobWorld) -> Supervisor:
    """The administrator of the company."""
    return Supervisor(world)


def query(admin: Supervisor, *, limit: int = 100, scan_limit: int = 1000, **members: Any) -> CompanyJobPage:
    wanted = {"after": None, "status": None, **members}
    return admin.visit(lambda visit: query_company_jobs(visit.partition, limit=limit, scan_limit=scan_limit, **wanted))[
        1
    ]


def cancel(
    admin: Supervisor,
    job_id: str,
    *,
    owner: str = "svc",
    revision: int = 1,
    key: str = "cancel",
    evidence: str = "e",
    token: Token | None = None,
) -> Receipt:
    keyed = keyed_command(key, CancelJob(job_id, revision, evidence), new_ids=(), member="")

    def run(visit: CompanyVisit) -> Receipt:
        return execute_command(JobPartition(visit.partition, owner), visit.principal.author, keyed)

    return admin.visit(run, token=token)[1]


def documented(place: JobPlace) -> tuple[bytes, str]:
    """The documented sort key."""
    return json.dumps(place.owner_id, ensure_ascii=False).encode(), place.job_id


@pytest.fixture
def places(world: JobWorld) -> list[JobPlace]:
    """Two jobs of each of several owners with odd names, in the documented order."""
    found = []
    for owner in OWNERS:
        token = world.issue(subject=owner)
        found += [JobPlace(owner, world.new_job(token=token)) for _ in range(2)]
    return sorted(found, key=documented)


@pytest.mark.parametrize(("limit", "scan_limit"), [(100, 1000), (1, 1), (3, 1000), (100, 4)])
def test_order_over_owners(admin: Supervisor, places: list[JobPlace], limit: int, scan_limit: int) -> None:
    """By the bytes of the owner's JSON text, then by id, each job once however the pages are cut."""
    found: list[JobPlace] = []
    after: JobPlace | None = None
    while True:
        page = query(admin, limit=limit, scan_limit=scan_limit, after=after)
        found += [JobPlace(job.owner_id, job.summary.job_id) for job in page.jobs]
        if page.next_after is None:
            break
        assert page.next_after == found[-1]
        after = page.next_after
    assert found == places


def test_an_owner_that_extends_another_comes_first() -> None:
    """The closing quote takes part: with a blank or `!` behind, a name sorts before the shorter one."""
    in_order = sorted(["a", "a!", "a "], key=lambda owner: keys.job_summary_key(owner, LAST))
    assert in_order == ["a ", "a!", "a"]


@pytest.mark.parametrize("owner", [*OWNERS, "\x7f", "a\nb", "x" * 256])
def test_owner_is_read_back_from_its_key(owner: str) -> None:
    """Whatever a subject is called, its jobs are listed under exactly that name."""
    assert keys.job_summary_owner(keys.job_summary_key(owner, ABSENT)) == owner


def test_any_place_is_only_a_position(admin: Supervisor, places: list[JobPlace]) -> None:
    """A place of no job, or of no subject at all, is a place between jobs."""
    for after in (JobPlace("a", LAST), JobPlace("aa", ABSENT), JobPlace("zz", ABSENT), JobPlace("\0", ABSENT)):
        found = [JobPlace(job.owner_id, job.summary.job_id) for job in query(admin, after=after).jobs]
        assert found == [place for place in places if documented(place) > documented(after)]


def test_summaries_and_status(world: JobWorld, admin: Supervisor) -> None:
    """A summary is that of the owner's list; jobs of another status are examined and counted; the clock is told."""
    job_id, _ = world.running_job()
    other = world.new_job()
    page = query(admin, status="running")
    job = world.job(job_id)
    assert [entry.summary for entry in page.jobs] == [summary_of_job(job, job_bytes=len(job.encode()))]
    assert (page.records_examined, page.moment.now_ms) == (2, world.clock.ms)
    assert page.record_bytes == len(job.encode()) + len(world.job(other).encode())
    first = min(job_id, other)
    cut = query(admin, status="published", scan_limit=1)
    assert (cut.jobs, cut.next_after) == ((), JobPlace("svc", first))


def test_cancelling_fences_the_owner(world: JobWorld, admin: Supervisor) -> None:
    """The author is the administrator, the creator stays; the attempt ends as unknown and cannot publish."""
    job_id, fence = world.running_job()
    receipt = cancel(admin, job_id, revision=2)
    assert (receipt["action"], receipt["revision"]) == ("cancelled", 3)
    assert receipt["author"] == {"credential_id": admin.token.credential_id, "subject_id": "administrator"}
    job, kept = world.history(job_id, 3)
    assert (job.status, job.owner_id, job.attempts[0].outcome, job.attempts[0].evidence_ref, kept) == (
        "cancelled", "svc", "unknown", "e", receipt,
    )  # fmt: skip
    assert reason_of(lambda: world.publish(job_id, fence)) == "invalid_request"
    stale = PublishJob(job_id, 2, fence, (), USAGE, "late")
    assert reason_of(lambda: world.run(stale)) == "revision_conflict"


def test_the_keys_are_the_owners(world: JobWorld, admin: Supervisor) -> None:
    """The owner, the administrator and another one all get the first receipt back for the same command and key."""
    job_id = world.new_job()
    receipt = cancel(admin, job_id, key="k")
    assert world.run(CancelJob(job_id, 1, "e"), "k") == receipt
    assert cancel(admin, job_id, key="k") == receipt
    another = world.issue(subject="deputy", capabilities=("credential_admin",), grants=())
    assert cancel(admin, job_id, key="k", token=another) == receipt
    assert reason_of(lambda: cancel(admin, job_id, key="k", evidence="other")) == "idempotency_conflict"
    second = world.new_job()
    world.run(CancelJob(second, 1, "e"), "owner-key")
    assert reason_of(lambda: cancel(admin, job_id, key="owner-key")) == "idempotency_conflict"
    own = world.run(CancelJob(world.new_job(), 1, "e"), "cancelled-by-owner")
    assert cancel(admin, own["job_id"], key="cancelled-by-owner") == own


def test_refusals_of_cancel(world: JobWorld, admin: Supervisor) -> None:
    """Unknown owner or job 404, stale revision 409, terminal status 400; members stand at the top of the request."""
    job_id = world.new_job()
    for call in (lambda: cancel(admin, ABSENT), lambda: cancel(admin, job_id, owner="nobody")):
        assert (reason_of(call), member_of(call)) == ("record_not_found", "job_id")
    stale = lambda: cancel(admin, job_id, revision=2)  # noqa: E731
    assert (reason_of(stale), member_of(stale)) == ("revision_conflict", "expected_revision")
    assert reason_of(lambda: cancel(admin, job_id, token=world.token)) == "forbidden"
    # A refused command leaves its key free.
    cancel(admin, job_id)
    ended = lambda: cancel(admin, job_id, revision=2, key="again")  # noqa: E731
    assert (reason_of(ended), member_of(ended)) == ("invalid_request", None)


def test_cancelling_registers_nobody(world: JobWorld, admin: Supervisor) -> None:
    """What is written is job, summary, history and receipt; no agent."""
    job_id = world.new_job()
    partition = workspace_for("acme", SCOPE, "svc").partition
    before = world.partition_rows(partition)
    cancel(admin, job_id)
    changed = {key[:1] for key, value in world.partition_rows(partition).items() if before.get(key) != value}
    assert changed == {keys.JOB, keys.JOB_SUMMARY, keys.JOB_HISTORY, keys.RECEIPT}
    assert workspace_id() == partition.hex()

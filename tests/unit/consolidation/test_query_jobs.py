"""Lists of jobs: order, bounds, cursors; and the keys behind the order."""

from __future__ import annotations

import itertools
import json

import pytest

from services.consolidation.commands import CancelJob, RecoverExpired
from services.domain import keys, limits
from services.domain.errors import InvalidRequest
from services.domain.job_summaries import summary_of_job
from services.domain.jobs import check_job_bytes
from services.domain.scope import workspace_for
from tests.harness.job_world import LEASE_MS, JobWorld, spec_of
from tests.harness.memory_world import SCOPE

LAST = "ffffffff-ffff-ffff-ffff-ffffffffffff"


def all_ids(world: JobWorld, **options: int) -> list[str]:
    """Ids of every page until the end, each page checked against the documented bounds."""
    found: list[str] = []
    after: str | None = None
    while True:
        page = world.query(after=after, limit=options.get("limit", 3), scan_limit=options.get("scan_limit", 5))
        ids = [summary.job_id for summary in page.jobs]
        assert len(ids) <= page.records_examined <= options.get("scan_limit", 5)
        found += ids
        if page.next_after is None:
            return found
        assert page.records_examined > 0
        assert after is None or page.next_after > after
        assert not ids or page.next_after >= ids[-1]
        after = page.next_after


@pytest.mark.parametrize(("limit", "scan_limit"), [(1, 1), (1, 1000), (3, 2), (100, 1000), (4, 8)])
def test_each_job_once_in_order(world: JobWorld, limit: int, scan_limit: int) -> None:
    """Ascending ids, each exactly once, whatever the size of the pages."""
    ids = sorted(world.new_job() for _ in range(8))
    assert all_ids(world, limit=limit, scan_limit=scan_limit) == ids


def standing(world: JobWorld) -> tuple[bool, bool]:
    """Whether the lease of the first job is active and whether it is recoverable, as its list says."""
    page = world.query()
    assert page.moment.now_ms == world.clock.ms
    return page.jobs[0].is_lease_active(page.moment), page.jobs[0].is_recoverable(page.moment)


def test_summary(world: JobWorld) -> None:
    """A summary is that of the job, counts attempts, and says how the lease stands by the clock of its page."""
    job_id, _ = world.running_job()
    page, job = world.query(), world.job(job_id)
    assert page.jobs == (summary_of_job(job, job_bytes=len(job.encode())),)
    assert (page.jobs[0].attempt_count, page.record_bytes) == (1, len(job.encode()))
    assert standing(world) == (True, False)
    world.clock.ms += LEASE_MS
    assert standing(world) == (False, True)
    world.run(RecoverExpired(job_id, 2, "e"))
    assert standing(world) == (False, False)


def test_restart_shows_in_the_list(world: JobWorld) -> None:
    """A lease of an opening that is over is not active."""
    world.running_job()
    world.traffic.reopen()
    assert standing(world) == (False, True)


def test_filter_by_status(world: JobWorld) -> None:
    """Filtered jobs are examined and counted; an empty page may go on."""
    ids = sorted(world.new_job() for _ in range(5))
    world.run(CancelJob(ids[4], 1, "e"))
    page = world.query(status="cancelled", scan_limit=3)
    assert (page.jobs, page.next_after, page.records_examined) == ((), ids[2], 3)
    page = world.query(status="cancelled", scan_limit=3, after=ids[2])
    assert [summary.job_id for summary in page.jobs] == [ids[4]]
    assert (page.next_after, page.records_examined) == (None, 2)


def test_position_that_was_never_issued(world: JobWorld) -> None:
    """Any id is only a position in the caller's own list, also that of a foreign job, and the last one possible."""
    ids = sorted(world.new_job() for _ in range(3))
    foreign = world.new_job(token=world.issue(subject="other"))
    for position in ("00000000-0000-0000-0000-000000000000", foreign, LAST):
        found = [summary.job_id for summary in world.query(after=position).jobs]
        assert found == [job_id for job_id in ids if job_id > position]


def test_pages_while_jobs_come(world: JobWorld) -> None:
    """Jobs that were there throughout appear exactly once, though others come between the pages."""
    ids = sorted(world.new_job() for _ in range(6))
    seen: list[str] = []
    after: str | None = None
    while True:
        page = world.query(limit=2, after=after)
        seen += [summary.job_id for summary in page.jobs]
        world.new_job()
        after = page.next_after
        if after is None or len(seen) > 100:
            break
    assert [job_id for job_id in seen if job_id in ids] == ids
    assert len(set(seen)) == len(seen)


def test_pages_end_before_4_mib(world: JobWorld) -> None:
    """The jobs of a page have at most 4 MiB together; a continuation follows."""
    # As if they were far larger than usual jobs.
    ids = sorted(world.new_job(max_attempts=32) for _ in range(20))
    partition = workspace_for("acme", SCOPE, "svc").partition
    for job_id in ids:
        summary = summary_of_job(world.job(job_id), job_bytes=400_000)
        world.put(partition, keys.job_summary_key("svc", job_id), summary.encode())
    page = world.query()
    assert page.record_bytes == 400_000 * page.records_examined
    assert page.records_examined == limits.JOB_PAGE_BYTES_MAX // 400_000
    assert page.next_after == ids[page.records_examined - 1]
    assert all_ids(world, limit=100, scan_limit=1000) == ids


def test_order_over_owners_is_that_of_their_json_text() -> None:
    """Keys of jobs sort by the UTF-8 bytes of the owner's JSON text, closing quote included, then by id."""
    owners = ["a", "a b", "a!", "ab", 'a"', "a\\", "é", "z", "日本", "\N{HONEYBEE}", "~", "a" * 256]
    ids = ["00000000-0000-4000-8000-000000000000", LAST]
    pairs = list(itertools.product(owners, ids))

    def documented(pair: tuple[str, str]) -> tuple[bytes, str]:
        return json.dumps(pair[0], ensure_ascii=False).encode(), pair[1]

    assert sorted(pairs, key=lambda pair: keys.job_summary_key(*pair)) == sorted(pairs, key=documented)


def test_prefix_holds_one_owner_only() -> None:
    """No owner's jobs lie within the range of another, even of one whose name begins alike."""
    owners = ["a", "a b", "ab", 'a"', "a\\", 'a\\"']
    for owner, other in itertools.permutations(owners, 2):
        prefix = keys.job_summary_prefix(owner)
        assert not prefix <= keys.job_summary_key(other, LAST) < keys.prefix_end(prefix)


def test_value_of_a_job_is_bounded(world: JobWorld) -> None:
    """The longest possible job stays below 512 KiB, so that no legal command is ever refused for its size."""
    quotes = '"' * 2048
    job = world.job(world.new_job(max_attempts=32))
    longest = spec_of(world.sources, objective='"' * 4096, policy_ref=quotes)
    attempt = world.job(world.running_job(max_attempts=32)[0]).attempts[0].as_json()
    attempt |= {"worker_id": '"' * 256, "evidence_ref": quotes, "usage_evidence_ref": quotes}
    value = job.as_json() | {"spec": longest.as_json(), "attempts": [attempt] * 32}
    assert len(json.dumps(value)) + 16 * 8192 < limits.JOB_VALUE_BYTES_MAX


@pytest.mark.parametrize(("over_job", "over_history"), [(0, 0), (1, 0), (0, 1)])
def test_bounds_of_stored_values(over_job: int, over_history: int) -> None:
    """A job of 512 KiB and a history value of 1 MiB pass; a byte more of either is refused."""
    job, history = bytes(limits.JOB_VALUE_BYTES_MAX + over_job), bytes(limits.JOB_HISTORY_BYTES_MAX + over_history)
    if over_job or over_history:
        with pytest.raises(InvalidRequest):
            check_job_bytes(job, history)
    else:
        check_job_bytes(job, history)

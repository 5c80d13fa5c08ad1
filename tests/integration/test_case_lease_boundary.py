"""C17: leases at the very millisecond, every verb alike, with the server's clock under the test's control."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness import builders
from tests.harness.api import Api
from tests.harness.both_ways import BothWays, Outcome
from tests.harness.clocked_suite import ClockedSuite, running_clocked_suite

LEASE_MS, ATTEMPT_MS = 1_000, 1_600
COMMANDS = "memory/consolidation/commands"
ABSENT = "00000000-0000-4000-8000-00000000dead"
HOLDERS = ["context", "renew", "publish", "fail"]
Json = dict[str, Any]


@pytest.fixture(scope="module")
def clocked() -> Iterator[ClockedSuite]:
    """A suite whose clock the tests of this module move, forwards only."""
    with running_clocked_suite() as suite:
        yield suite


@pytest.fixture(scope="module")
def sibling(clocked: ClockedSuite) -> str:
    """Another credential of the same subject."""
    return clocked.issue("writer", ["memory_read", "memory_write"])


@pytest.fixture(scope="module")
def both(clocked: ClockedSuite) -> Iterator[BothWays]:
    with BothWays(clocked) as caller:  # type: ignore[arg-type]
        yield caller


class Attempt:
    """A job that has just been claimed, and everything that can be done to it.

    Attributes:
        ends_at_ms: When its lease ends.
    """

    def __init__(self, clocked: ClockedSuite, both: BothWays) -> None:
        self.clocked, self.both = clocked, both
        self.scope = builders.scope_json(f"project-{uuid.uuid4()}")
        with clocked.client() as client:
            api = Api(client, self.scope)
            self.sources = [api.create("one"), api.create("two")]
        spec = {
            "sources": self.sources, "objective": "o", "policy_ref": "p", "extractor": builders.provenance_json(),
            "max_relations": 1, "max_attempts": 2, "lease_millis": LEASE_MS, "max_attempt_millis": ATTEMPT_MS,
        }  # fmt: skip
        created = self.command({"type": "create", "spec": spec})
        self.job_id = created.document["receipt"]["job_id"]
        self.claim(1)

    def claim(self, revision: int) -> None:
        claim = {"type": "claim", "job_id": self.job_id, "expected_revision": revision, "worker_id": "w"}
        assert (200, "") == self.command(claim).verdict
        self.revision = revision + 1
        lease = self.job()["attempts"][-1]
        self.fence, self.ends_at_ms = lease["fence"], lease["expires_at_millis"]
        assert self.clocked.clock.ms + LEASE_MS == self.ends_at_ms

    def command(self, operation: Json, key: str | None = None) -> Outcome:
        body = {"scope": self.scope, "idempotency_key": builders.new_key(), "operation": operation}
        return self.both.post(COMMANDS, body, key=key)

    def inspect(self) -> Json:
        outcome = self.both.post("memory/consolidation/inspect", {"scope": self.scope, "job_id": self.job_id})
        inspection: Json = outcome.document["inspection"]
        return inspection

    def job(self) -> Json:
        job: Json = self.inspect()["job"]
        return job

    def do(self, verb: str, *, fence: str | None = None, key: str | None = None) -> Outcome:
        """One of the holder's verbs, or recover."""
        held = {"job_id": self.job_id, "expected_revision": self.revision, "fence": fence or self.fence}
        if verb == "context":
            return self.both.post("memory/consolidation/context", {"scope": self.scope, **held}, key=key)
        members: dict[str, Json] = {
            "renew": {},
            "publish": {
                "assertions": [
                    {"source": self.sources[0], "target": self.sources[1], "kind": "supports", "evidence_ref": "e"}
                ],
                "usage": {"status": "unknown"},
                "evidence_ref": "e",
            },
            "fail": {"usage": {"status": "unknown"}, "evidence_ref": "e"},
            "recover_expired": {"evidence_ref": "e"},
        }
        if verb == "recover_expired":
            del held["fence"]
        return self.command({"type": verb, **held, **members[verb]}, key=key)

    def edges(self) -> int:
        walk = {"scope": self.scope, "query": {"root_record_ids": [self.sources[0]["record_id"]]}}
        return len(self.both.post("memory/graph/typed", walk).document["graph"]["edges"])

    def assert_untouched(self) -> None:
        job = self.job()
        assert (self.revision, "running", []) == (job["revision"], job["status"], job["output_receipts"])
        assert self.ends_at_ms == job["attempts"][-1]["expires_at_millis"]
        assert 0 == self.edges()


@pytest.fixture
def attempt(clocked: ClockedSuite, both: BothWays) -> Attempt:
    return Attempt(clocked, both)


@pytest.mark.parametrize("verb", HOLDERS)
@pytest.mark.parametrize("offset_ms", [-1, 0, 1])
def test_the_holder_at_the_boundary(attempt: Attempt, verb: str, offset_ms: int) -> None:
    """Every verb is served one millisecond before the end, and none of them at the end or after it."""
    attempt.clocked.clock.ms = attempt.ends_at_ms + offset_ms
    if offset_ms < 0:
        assert (200, "") == attempt.do(verb).verdict
        return
    assert (409, "revision_conflict") == attempt.do(verb).verdict
    attempt.assert_untouched()


@pytest.mark.parametrize("offset_ms", [-1, 0, 1])
def test_recovery_at_the_boundary(attempt: Attempt, offset_ms: int) -> None:
    """Recovery begins in the millisecond in which the holder's right ends, and inspection says the same."""
    attempt.clocked.clock.ms = attempt.ends_at_ms + offset_ms
    inspection = attempt.inspect()
    assert (offset_ms < 0, offset_ms >= 0) == (inspection["lease_active"], inspection["recoverable"])
    page = attempt.both.post(
        "memory/consolidation/query", {"scope": attempt.scope, "query": {"limit": 9, "scan_limit": 9}}
    )
    (summary,) = page.document["page"]["jobs"]
    assert (offset_ms < 0, offset_ms >= 0) == (summary["lease_active"], summary["recoverable"])
    outcome = attempt.do("recover_expired")
    if offset_ms < 0:
        assert (409, "revision_conflict") == outcome.verdict
        attempt.assert_untouched()
    else:
        assert (200, "") == outcome.verdict
        assert ["unknown"] == [found["outcome"] for found in attempt.job()["attempts"]]
        for verb in HOLDERS:
            assert (409, "revision_conflict") == attempt.do(verb).verdict


@pytest.mark.parametrize("verb", HOLDERS)
def test_fence_and_credential_must_both_fit(attempt: Attempt, sibling: str, verb: str) -> None:
    """The right fence with a sibling credential, and another fence with the right credential: 409, no effect."""
    assert (409, "revision_conflict") == attempt.do(verb, key=sibling).verdict
    assert (409, "revision_conflict") == attempt.do(verb, fence=ABSENT).verdict
    attempt.assert_untouched()
    assert (200, "") == attempt.do("fail").verdict
    old = attempt.fence
    attempt.claim(attempt.revision + 1)
    assert (409, "revision_conflict") == attempt.do(verb, fence=old).verdict
    attempt.assert_untouched()


def test_a_renewal_must_advance_and_never_passes_the_deadline(attempt: Attempt) -> None:
    """Refused at the instant of the claim; cut to the hard deadline; refused there, and after the end for good."""
    clock, began_ms = attempt.clocked.clock, attempt.clocked.clock.ms
    assert (409, "revision_conflict") == attempt.do("renew").verdict
    clock.ms += 1
    for elapsed_ms, expiry_ms in ((500, 1_500), (1_000, ATTEMPT_MS)):
        clock.ms = began_ms + elapsed_ms
        assert (200, "") == attempt.do("renew").verdict
        attempt.revision += 1
        assert began_ms + expiry_ms == attempt.job()["attempts"][-1]["expires_at_millis"]
    attempt.ends_at_ms = began_ms + ATTEMPT_MS
    for elapsed_ms in (1_001, ATTEMPT_MS - 1, ATTEMPT_MS, ATTEMPT_MS + 1):
        clock.ms = began_ms + elapsed_ms
        assert (409, "revision_conflict") == attempt.do("renew").verdict
        attempt.assert_untouched()
    assert (200, "") == attempt.do("recover_expired").verdict


@pytest.mark.parametrize("verb", ["renew", "publish", "fail"])
def test_time_that_passes_before_the_commit_counts(attempt: Attempt, verb: str) -> None:
    """A verb that looked in time and is committed at the end has no effect: it is judged where it takes effect."""
    clock = attempt.clocked.clock
    clock.ms = attempt.ends_at_ms - 1
    attempt.clocked.store.before_commit = lambda: setattr(clock, "ms", attempt.ends_at_ms)
    assert (409, "revision_conflict") == attempt.do(verb).verdict
    attempt.assert_untouched()
    assert (200, "") == attempt.do("recover_expired").verdict


@pytest.mark.parametrize("verb", ["renew", "publish", "fail"])
def test_time_that_passes_within_the_lease_does_not(attempt: Attempt, verb: str) -> None:
    """A commit that waits until just before the end is carried out."""
    clock = attempt.clocked.clock
    clock.ms += 1
    attempt.clocked.store.before_commit = lambda: setattr(clock, "ms", attempt.ends_at_ms - 1)
    assert (200, "") == attempt.do(verb).verdict
    assert attempt.revision + 1 == attempt.job()["revision"]


@pytest.mark.parametrize("verb", HOLDERS)
def test_a_restart_of_storage_ends_every_lease(attempt: Attempt, verb: str) -> None:
    """However much time is left: the incarnation is another one, the attempt is recoverable at once."""
    attempt.clocked.store.reopen()
    assert (409, "revision_conflict") == attempt.do(verb).verdict
    attempt.assert_untouched()
    inspection = attempt.inspect()
    assert (False, True) == (inspection["lease_active"], inspection["recoverable"])
    assert (200, "") == attempt.do("recover_expired").verdict


def test_attempts_run_out_through_recovery_alone(attempt: Attempt) -> None:
    """A worker that dies in every attempt without a word: the job ends `exhausted` after `max_attempts`."""
    for number in (1, 2):
        attempt.clocked.clock.ms = attempt.ends_at_ms
        assert (200, "") == attempt.do("recover_expired").verdict
        attempt.revision += 1
        assert ("ready" if number == 1 else "exhausted") == attempt.job()["status"]
        if number == 1:
            attempt.claim(attempt.revision)
    claim = {"type": "claim", "job_id": attempt.job_id, "expected_revision": attempt.revision, "worker_id": "w"}
    assert (400, "invalid_request") == attempt.command(claim).verdict
    assert ["unknown", "unknown"] == [found["outcome"] for found in attempt.job()["attempts"]]


def test_a_credential_that_expires_loses_its_lease_with_it(clocked: ClockedSuite, both: BothWays) -> None:
    """Until the millisecond before its end it may do everything, at its end nothing: 401, before any lease is seen."""
    ends_at_ms = clocked.clock.ms + 500
    key = clocked.issue("writer", ["memory_read", "memory_write"], expires_at_millis=ends_at_ms)
    attempt = Attempt(clocked, both)
    for moment_ms, expected in ((ends_at_ms - 1, 409), (ends_at_ms, 401), (ends_at_ms + 1, 401)):
        clocked.clock.ms = moment_ms
        for verb in HOLDERS:
            assert expected == attempt.do(verb, key=key).status, (verb, moment_ms)
    attempt.assert_untouched()

"""Jobs under commands that come twice, late, out of order or with lost answers, clock jumps and restarts.

Every answer is compared with a plain model that is written from the documented tables (`tests.reference.jobs`), and so
is the whole state after every step.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from services.consolidation.commands import (
    CancelJob,
    ClaimJob,
    Command,
    CreateJob,
    FailAttempt,
    PublishJob,
    ReconcileUsage,
    RecoverExpired,
    RenewLease,
)
from services.domain import keys
from services.domain.errors import WaggleError
from services.domain.job_summaries import summary_of_job
from services.domain.jobs import Assertion, ReportedUsage
from services.domain.records import SourceRef
from services.identity.tokens import Token
from services.memory.commands import UpdateRecord
from tests.harness.job_world import ABSENT, ATTEMPT_MS, LEASE_MS, JobWorld, assertion, spec_of
from tests.harness.memory_world import record_input
from tests.reference.jobs import RUNNING_VERBS, PlainConsolidation

VERBS = ("claim", "renew", "publish", "fail", "recover_expired", "cancel", "reconcile_usage")
OUTPUTS = ("nothing", "one", "two", "too many", "self", "foreign")
# What makes sense for the job as it stands, and anything else.
LIKELY_VERBS = ("fitting",) * 7 + VERBS
FITTING_VERBS = {"ready": ("claim",), "running": ("publish", "renew", "fail", "recover_expired")}
# The credential that fits, the other one of the owner, the one of another subject.
CREDENTIALS = st.sampled_from([0, 0, 0, 0, 0, 1, 2])
PICKS = st.integers(0, 7)


class JobMachine(RuleBasedStateMachine):
    """Two credentials of the owner, one of another subject, four records, any number of jobs."""

    def __init__(self) -> None:
        super().__init__()
        self.world = JobWorld()
        self.tokens = [self.world.token, self.world.issue(), self.world.issue(subject="other")]
        self.subjects = ["svc", "svc", "other"]
        self.records = [source.record_id for source in self.world.more_sources(4)]
        self.model = PlainConsolidation(dict.fromkeys(self.records, 1))
        self.fences: list[str] = [ABSENT]
        self.written: list[tuple[str, Command]] = []
        self.latest_ms = 0
        # Too many of these, and no job ever comes to anything.
        self.restarts_left = 2
        self.changes_left = 2

    def teardown(self) -> None:
        """Let the store go."""
        self.world.close()

    # Writing commands

    def _new_key(self) -> str:
        return f"key-{len(self.written)}"

    def _ref(self, record_id: str) -> SourceRef:
        return SourceRef(record_id, self.model.current[record_id])

    def _assertions(self, job_id: str, output: str) -> tuple[Assertion, ...]:
        job = self.model.jobs.get(job_id)
        if job is None:
            return ()
        first, second = job.spec.sources[:2]
        return {
            "nothing": (),
            "one": (assertion(first, second),),
            "two": (assertion(first, second), assertion(second, first)),
            "too many": (assertion(first, second),) * 3,
            "self": (assertion(first, second), assertion(first, first)),
            "foreign": (assertion(first, SourceRef(ABSENT, 1)),),
        }[output]

    def _command(self, verb: str, pick: int, revision_offset: int, fence_pick: int, output: str) -> Command:
        job_ids = list(self.model.jobs)
        job_id = ABSENT if pick == 7 else job_ids[pick % len(job_ids)]
        job = self.model.jobs.get(job_id)
        if verb == "fitting":
            choice = FITTING_VERBS.get(job.status if job else "", ("reconcile_usage",))
            verb = choice[fence_pick % len(choice)]
        revision = max(1, (job.revision if job else 1) + revision_offset)
        # Usually the right fence, where there is one.
        fence = self.fences[fence_pick % len(self.fences)]
        if job is not None and job.attempts and fence_pick < 6:
            fence = job.attempts[-1].fence
        match verb:
            case "claim":
                return ClaimJob(job_id, revision, "w")
            case "renew":
                return RenewLease(job_id, revision, fence)
            case "publish":
                return PublishJob(job_id, revision, fence, self._assertions(job_id, output), None, "e")
            case "fail":
                return FailAttempt(job_id, revision, fence, ReportedUsage(1, 2, 3), "e")
            case "recover_expired":
                return RecoverExpired(job_id, revision, "e")
            case "cancel":
                return CancelJob(job_id, revision, "e")
            case _:
                return ReconcileUsage(job_id, revision, 1 + fence_pick % 3, ReportedUsage(fence_pick, 0, 0), "e")

    def _who(self, command: Command, deviation: int) -> int:
        """Index of the credential that fits a command, or of another one."""
        job = None if isinstance(command, CreateJob) else self.model.jobs.get(command.job_id)
        fitting = 0
        if job is not None:
            fitting = self.subjects.index(job.owner)
            if job.status == "running":
                fitting = [token.credential_id for token in self.tokens].index(job.attempts[-1].credential)
        return (fitting + deviation) % 3

    # Sending commands

    def _send(self, key: str, command: Command, who: int) -> None:
        """Send a command and compare its outcome with the model's."""
        token, subject = self.tokens[who], self.subjects[who]
        status = self.world.traffic.status()
        facts: dict[str, Any] = {
            "subject": subject,
            "credential": token.credential_id,
            "now_ms": status.clock_ms,
            "incarnation": status.incarnation,
        }
        replayed = self.model.sent.get((subject, key))
        expected = self.model.refusal(key, command, **facts)
        receipt = self._outcome(key, command, token, expected)
        if receipt is None:
            return
        if replayed is not None:
            assert receipt == replayed[1]
            return
        fence = ""
        if isinstance(command, ClaimJob):
            fence = self.world.inspect(command.job_id, token=token).job.attempts[-1].lease.fence
            assert fence not in self.fences
            self.fences.append(fence)
        self.model.apply(key, command, receipt, fence=fence, **facts)

    def _outcome(self, key: str, command: Command, token: Token, expected: str | None) -> dict[str, Any] | None:
        reason: str | None = None
        receipt: dict[str, Any] | None = None
        try:
            receipt = self.world.run(command, key, token=token)
        except WaggleError as error:
            reason = error.reason
        assert reason == expected, command
        return receipt

    @initialize(attempts=st.integers(1, 3))
    def first_job(self, attempts: int) -> None:
        """There is something to work on."""
        self.create(who=0, first=1, count=3, attempts=attempts, stale=False)

    @precondition(lambda self: len(self.model.jobs) < 4)
    @rule(who=CREDENTIALS, first=PICKS, count=st.integers(2, 4), attempts=st.integers(1, 3), stale=st.booleans())
    def create(self, who: int, first: int, count: int, attempts: int, stale: bool) -> None:
        """Create a job, sometimes over a revision that is gone."""
        chosen = [self.records[(first + step) % 4] for step in range(count)]
        sources = tuple(map(self._ref, chosen))
        if stale and first == 0:
            sources = (SourceRef(sources[0].record_id, sources[0].revision + 1), *sources[1:])
        command = CreateJob(spec_of(sources, max_relations=2, max_attempts=attempts))
        key = self._new_key()
        self.written.append((key, command))
        self._send(key, command, who)

    @rule(
        verb=st.sampled_from(LIKELY_VERBS),
        who=CREDENTIALS,
        pick=PICKS,
        revision_offset=st.sampled_from([0, 0, 0, 0, -1, 1]),
        fence_pick=PICKS,
        output=st.sampled_from(OUTPUTS),
        is_late=st.sampled_from([False, False, False, True]),
        is_lost=st.sampled_from([False, False, False, True]),
    )
    def command(
        self,
        verb: str,
        who: int,
        pick: int,
        revision_offset: int,
        fence_pick: int,
        output: str,
        is_late: bool,
        is_lost: bool,
    ) -> None:
        """Write a command; send it now or leave it for later, and lose its answer now and then."""
        command = self._command(verb, pick, revision_offset, fence_pick, output)
        key = self._new_key()
        self.written.append((key, command))
        if is_late:
            return
        self.world.traffic.loses_answer = is_lost
        self._send(key, command, self._who(command, who))
        self.world.traffic.loses_answer = False

    @rule(pick=st.integers(0, 6), choice=PICKS, output=st.sampled_from(("nothing", "one", "two")))
    def work(self, pick: int, choice: int, output: str) -> None:
        """Do what makes sense for a job, by who may do it."""
        command = self._command("fitting", pick, 0, choice % 4, output)
        key = self._new_key()
        self.written.append((key, command))
        self._send(key, command, self._who(command, 0))

    @rule(pick=st.integers(0, 6), choices=st.lists(PICKS, min_size=3, max_size=6))
    def work_on(self, pick: int, choices: list[int]) -> None:
        """Do several things in a row that make sense for one job, a little time between them."""
        for choice in choices:
            self.work(pick, choice, "one")
            self.world.clock.ms += 1

    @precondition(lambda self: self.written)
    @rule(who=CREDENTIALS, pick=st.integers(0, 99))
    def resend(self, who: int, pick: int) -> None:
        """Send a command again, or at last: duplicates, latecomers and reordered ones."""
        key, command = self.written[pick % len(self.written)]
        self._send(key, command, self._who(command, who))

    @precondition(lambda self: len(self.written) > 1)
    @rule(who=CREDENTIALS, pick=st.integers(0, 99))
    def reuse_key(self, who: int, pick: int) -> None:
        """Send a command under the key of another one."""
        key, _ = self.written[pick % len(self.written)]
        _, command = self.written[(pick + 1) % len(self.written)]
        self._send(key, command, self._who(command, who))

    @precondition(lambda self: any(job.status in FITTING_VERBS for job in self.model.jobs.values()))
    @rule(verb=st.sampled_from(RUNNING_VERBS), pick=PICKS)
    def holder_waits_past_the_end(self, verb: str, pick: int) -> None:
        """The holder's command passes its checks, and its lease ends before it is committed: it has no effect."""
        open_ids = [job_id for job_id, job in self.model.jobs.items() if job.status in FITTING_VERBS]
        job_id = open_ids[pick % len(open_ids)]
        job = self.model.jobs[job_id]
        if job.status == "ready":
            self.work(list(self.model.jobs).index(job_id), 0, "one")
            if job.status == "ready":
                return
            self.world.clock.ms += 1
        attempt = job.attempts[-1]
        who = [token.credential_id for token in self.tokens].index(attempt.credential)
        status = self.world.traffic.status()
        command = self._command(verb, list(self.model.jobs).index(job_id), 0, 0, "one")
        key = self._new_key()
        self.written.append((key, command))
        expected = self.model.refusal(
            key,
            command,
            subject=job.owner,
            credential=attempt.credential,
            now_ms=status.clock_ms,
            incarnation=status.incarnation,
        )

        def pass_the_end() -> None:
            self.world.clock.ms = attempt.expires_ms

        self.world.traffic.before_commit = pass_the_end
        assert self._outcome(key, command, self.tokens[who], expected or "revision_conflict") is None
        self.world.traffic.before_commit = None

    # What happens around them

    @rule(by_ms=st.sampled_from([1, 999, LEASE_MS - 1, LEASE_MS, ATTEMPT_MS, -1, -LEASE_MS]))
    def move_clock(self, by_ms: int) -> None:
        """The host's clock moves, backwards too."""
        self.world.clock.ms += by_ms

    @precondition(lambda self: any(job.status == "running" for job in self.model.jobs.values()))
    @rule(offset_ms=st.sampled_from([-1, 0, 1]), pick=PICKS)
    def move_clock_to_a_boundary(self, offset_ms: int, pick: int) -> None:
        """The host's clock moves to the end of a lease, give or take a millisecond."""
        ends = [job.attempts[-1].expires_ms for job in self.model.jobs.values() if job.status == "running"]
        self.world.clock.ms = ends[pick % len(ends)] + offset_ms

    @precondition(lambda self: self.restarts_left)
    @rule()
    def restart(self) -> None:
        """Storage is opened again: a new incarnation on the same data."""
        self.restarts_left -= 1
        self.world.traffic.reopen()

    @precondition(lambda self: self.changes_left)
    @rule(pick=PICKS)
    def change_record(self, pick: int) -> None:
        """A source changes."""
        self.changes_left -= 1
        record_id = self.records[pick % 4]
        self.world.execute(UpdateRecord(record_id, self.model.current[record_id], record_input("changed")))
        self.model.current[record_id] += 1

    # What must hold after every step

    @invariant()
    def state_is_that_of_the_model(self) -> None:
        """Every job has the model's state, lease and history; its attempts and outputs fit its status."""
        relation_count = 0
        for job_id, plain in self.model.jobs.items():
            token = self.tokens[self.subjects.index(plain.owner)]
            inspection = self.world.inspect(job_id, token=token)
            job = inspection.job
            assert (plain.status, plain.revision) == (job.status, job.revision)
            assert [
                (one.credential, one.fence, one.incarnation, one.claimed_ms, one.expires_ms, one.outcome, one.ended_ms)
                for one in plain.attempts
            ] == [
                (
                    one.lease.credential_id,
                    one.lease.fence,
                    one.lease.incarnation,
                    one.lease.claimed_at_millis,
                    one.lease.expires_at_millis,
                    one.outcome,
                    one.ended_at_millis,
                )
                for one in job.attempts
            ]
            for plain_attempt, attempt in zip(plain.attempts, job.attempts, strict=True):
                assert (plain_attempt.usage or {"status": "unknown"}) == attempt.as_json()["usage"]
            status = self.world.traffic.status()
            active = self.model.lease_active(plain, inspection.evaluated_at_millis, status.incarnation)
            assert (active, plain.status == "running" and not active) == (
                inspection.lease_active,
                inspection.recoverable,
            )
            assert len(job.output_receipts) == plain.relations
            assert sum(attempt.outcome == "published" for attempt in job.attempts) == (job.status == "published")
            last, receipt = self.world.history(job_id, job.revision, token=token)
            assert (last, receipt["committed_at_millis"]) == (job, job.modified_at_millis)
            relation_count += plain.relations
        for subject, who in (("svc", 0), ("other", 2)):
            listed = self.world.query(token=self.tokens[who]).jobs
            owned = sorted(job_id for job_id, plain in self.model.jobs.items() if plain.owner == subject)
            assert owned == [summary.job_id for summary in listed]
            for summary in listed:
                job = self.world.inspect(summary.job_id, token=self.tokens[who]).job
                assert summary_of_job(job, job_bytes=len(job.encode())) == summary
        rows = self.world.rows()
        assert relation_count == sum(key.startswith(keys.RELATION) for key in rows)
        assert relation_count == sum(key.startswith(keys.OUTGOING) for key in rows)
        assert relation_count == sum(key.startswith(keys.INCOMING) for key in rows)
        assert len(self.model.jobs) == sum(key.startswith(keys.JOB) for key in rows)
        revisions = sum(job.revision for job in self.model.jobs.values())
        assert revisions == sum(key.startswith(keys.JOB_HISTORY) for key in rows)

    @invariant()
    def clock_never_goes_back(self) -> None:
        """The clock that decides never goes backwards past what was committed by it."""
        for plain in self.model.jobs.values():
            for attempt in plain.attempts:
                self.latest_ms = max(self.latest_ms, attempt.claimed_ms, attempt.ended_ms or 0)
        assert self.world.traffic.status().clock_ms >= self.latest_ms


TestJobs = JobMachine.TestCase
TestJobs.settings = settings(stateful_step_count=40)

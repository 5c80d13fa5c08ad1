"""What `waggle worker` does when something comes between: it settles that job, and goes on with the others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.attempt_journals import AttemptJournals
from cli.job_runner import ExtractorModule, JobRunner, RecoverPolicy, Report
from qilbeedb import ConsolidationClient, ConsolidationInput, ConsolidationResult, ConsumerTransportError
from tests.harness import builders
from tests.harness.api import Api
from tests.harness.suite import COMPANY, Suite, wait_until

LEASE_MS = 1_000
EXTRACTOR = {"origin": "tool_observation", "method": "runner", "method_revision": "1", "evidence_ref": "e"}


class Disturbed(ConsolidationClient):
    """A client before whose calls something happens, once."""

    before_context: Callable[[], None] | None = None
    before_command: Callable[[], None] | None = None

    def context(self, *arguments: Any) -> Any:
        disturb, self.before_context = self.before_context, None
        if disturb is not None:
            disturb()
        return super().context(*arguments)

    def command(self, *arguments: Any, **members: Any) -> Any:
        disturb, self.before_command = self.before_command, None
        if disturb is not None:
            disturb()
        return super().command(*arguments, **members)


class Bench:
    """A runner, its client, and what it has reported."""

    def __init__(self, suite: Suite, api: Api, directory: Path, extract: Callable[..., ConsolidationResult]) -> None:
        self._suite, self._api, self._directory, self._extract = suite, api, directory, extract
        self.reports: list[Report] = []
        self.client = self.connect()
        self.runner = self.make_runner("w", self.client, RecoverPolicy.OWN)

    def connect(self) -> Disturbed:
        return Disturbed(
            self._suite.url,
            self._suite.writer_key,
            tenant_id=COMPANY,
            subject_id="writer",
            scope=self._api.scope,
            timeout=30,
        )

    def make_runner(self, worker_id: str, client: ConsolidationClient, policy: RecoverPolicy) -> JobRunner:
        return JobRunner(
            client,
            AttemptJournals(self._directory / worker_id),
            worker_id=worker_id,
            extractor=ExtractorModule(self._extract, "runner", "1"),
            policy=policy,
            report=self.reports.append,
        )

    def create_job(self, *sources: dict[str, Any], **members: Any) -> str:
        spec = {
            "sources": list(sources) or [self._api.create("one"), self._api.create("two")],
            "objective": "o",
            "policy_ref": "p",
            "extractor": EXTRACTOR,
            "max_relations": 16,
            "max_attempts": 3,
            "lease_millis": LEASE_MS,
            "max_attempt_millis": 600_000,
            **members,
        }
        receipt = self.client.command({"type": "create", "spec": spec}, idempotency_key=builders.new_key("job"))
        job_id: str = receipt["job_id"]
        return job_id

    def claim_and_lose_the_context(self) -> None:
        """Let the runner claim a job and come no further."""
        self.client.before_context = lose_the_answer
        with pytest.raises(ConsumerTransportError):
            self.runner.run_ready(go_on)

    def job(self, job_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.client.inspect(job_id)["job"]
        return found

    def await_end_of_lease(self, job_id: str) -> None:
        wait_until(lambda: self.client.inspect(job_id)["recoverable"], "the lease is over")

    def told(self, job_id: str) -> list[str]:
        """Events of a job, those aside that only a terminal shows."""
        return [report.event for report in self.reports if report.job_id == job_id and report.event != "working"]

    def open_journals(self) -> list[Path]:
        return sorted((self._directory / "w" / "open").iterdir())


def link(given: ConsolidationInput) -> ConsolidationResult:
    source, target = given.spec["sources"]
    found = {"source": source, "target": target, "kind": "same_entity", "evidence_ref": "seen"}
    return ConsolidationResult([found], {"status": "unknown"}, "run")


def link_at_length(given: ConsolidationInput) -> ConsolidationResult:
    (found,) = link(given).assertions
    return ConsolidationResult([{**found, "evidence_ref": "é" * 1_000}] * 16, {"status": "unknown"}, "run")


@pytest.fixture
def bench(suite: Suite, api: Api, tmp_path: Path) -> Bench:
    return Bench(suite, api, tmp_path, link)


def go_on() -> bool:
    return False


def lose_the_answer() -> None:
    raise ConsumerTransportError("transport_failure")


def test_a_source_that_changes_after_the_claim(bench: Bench, api: Api) -> None:
    """Nothing has run: the attempt ends as failed at no cost, its journal is closed, and other jobs are done."""
    first = api.create("one")
    job_id = bench.create_job(first, api.create("two"), lease_millis=600_000)
    bench.client.before_context = lambda: api.update(first, "another one") and None
    bench.runner.run_ready(go_on)
    (attempt,) = bench.job(job_id)["attempts"]
    assert ("failed", "reported", 0) == (
        attempt["outcome"],
        attempt["usage"]["status"],
        attempt["usage"]["model_calls"],
    )
    assert "w: context refused with revision_conflict" == attempt["evidence_ref"]
    other = bench.create_job()
    bench.runner.run_ready(go_on)
    assert (["lost", "passed"], ["published"]) == (bench.told(job_id), bench.told(other))
    assert [] == bench.open_journals()


def test_a_lease_that_ends_before_anything_has_run(bench: Bench) -> None:
    """The answer with the context was lost, and the worker came back too late: by policy there is another attempt."""
    job_id = bench.create_job()
    bench.claim_and_lose_the_context()
    bench.await_end_of_lease(job_id)
    bench.runner.resume(go_on)
    assert (["lost"], []) == (bench.told(job_id), bench.open_journals())
    assert (1, 1) == (bench.runner.recover_expired(), bench.runner.run_ready(go_on))
    assert ["lost", "recovered", "published"] == bench.told(job_id)
    assert ["unknown", "published"] == [attempt["outcome"] for attempt in bench.job(job_id)["attempts"]]


def test_an_attempt_that_two_workers_recover(bench: Bench) -> None:
    """One of them does; the other has nothing to say about it."""
    job_id = bench.create_job()
    bench.claim_and_lose_the_context()
    bench.await_end_of_lease(job_id)
    faster = bench.make_runner("faster", bench.connect(), RecoverPolicy.ANY)
    slower_client = bench.connect()
    slower = bench.make_runner("slower", slower_client, RecoverPolicy.ANY)
    slower_client.before_command = lambda: faster.recover_expired() and None
    assert (0, ["recovered"]) == (slower.recover_expired(), bench.told(job_id))


def test_a_journal_that_cannot_be_read(bench: Bench) -> None:
    """It is put away for a person, and other jobs are done."""
    job_id = bench.create_job()
    bench.claim_and_lose_the_context()
    (journal,) = bench.open_journals()
    (journal / "consolidation.sqlite3").write_bytes(b"no database at all " * 1_000)
    other = bench.create_job()
    bench.runner.resume(go_on)
    bench.runner.run_ready(go_on)
    assert (["uncertain"], ["published"]) == (bench.told(job_id), bench.told(other))
    assert [] == bench.open_journals()


def test_an_output_that_is_too_long_to_send(suite: Suite, api: Api, tmp_path: Path) -> None:
    """As any output that cannot be published: for a person to see, while other jobs are done."""
    bench = Bench(suite, api, tmp_path, link_at_length)
    jobs = [bench.create_job(), bench.create_job()]
    bench.runner.run_ready(go_on)
    assert [["uncertain"]] * 2 == [bench.told(job_id) for job_id in jobs]
    assert "consolidation_value_too_large" in bench.reports[-1].detail
    assert [] == bench.open_journals()

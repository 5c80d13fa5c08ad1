"""`waggle worker` as a process: finds its jobs, keeps their leases, drains, and goes on after deaths of either side."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness import builders
from tests.harness.api import Api
from tests.harness.suite import Suite, wait_until

pytestmark = pytest.mark.fault

ROOT = Path(__file__).resolve().parents[2]
# Short enough to wait for its end, long enough that a busy machine renews it in time.
LEASE_MS = 3000
# The workers share the slots of the server with the questions of the test, and wait when there is none.
END_S = 180.0


class Bench:
    """Jobs, a journal and a gate for workers of one test.

    Attributes:
        api: The jobs' owner.
        gate: Directory of the gated extractor.
        journal: Directory of the journals.
    """

    def __init__(self, suite: Suite, api: Api, directory: Path) -> None:
        self.api = api
        self.gate = directory / "gate"
        self.gate.mkdir()
        self.journal = directory / "journal"
        self._suite = suite
        self._directory = directory
        self._running: list[subprocess.Popen[bytes]] = []

    def create_job(self, *texts: str, method: str = "test", **members: Any) -> str:
        """Create records with these texts and a job over them; return its id."""
        sources = [self.api.create(text) for text in texts or ("one", "two")]
        spec = {
            "sources": sources,
            "objective": "o",
            "policy_ref": "p",
            "extractor": builders.provenance_json(method=method),
            "max_relations": 2,
            "max_attempts": 3,
            "lease_millis": LEASE_MS,
            "max_attempt_millis": 600_000,
            **members,
        }
        body = {"idempotency_key": builders.new_key("job"), "operation": {"type": "create", "spec": spec}}
        job_id: str = self.api.expect("memory/consolidation/commands", body)["receipt"]["job_id"]
        return job_id

    def job(self, job_id: str) -> dict[str, Any]:
        """Return a job as it is now; a server that is busy or starting is asked again."""
        found: list[dict[str, Any]] = []

        def is_answered() -> bool:
            response = self.api.post("memory/consolidation/inspect", {"job_id": job_id})
            if response.status_code == 200:
                found.append(response.json()["inspection"]["job"])
            return bool(found)

        wait_until(is_answered, "the job can be read", timeout_s=END_S)
        return found[0]

    def await_status(self, job_id: str, status: str) -> dict[str, Any]:
        """Wait for a status and return the job."""
        wait_until(lambda: self.job(job_id)["status"] == status, f"job {job_id} is {status}", timeout_s=END_S)
        return self.job(job_id)

    def await_call(self, number: int = 0) -> None:
        """Wait until the gated extractor has been called so often."""
        wait_until((self.gate / f"called-{number}").exists, "the extractor is called", timeout_s=END_S)

    def hold(self) -> None:
        (self.gate / "hold").touch()

    def release(self) -> None:
        (self.gate / "hold").unlink()

    def start(self, *arguments: str, extractor: str = "tests.harness.gated_extractor") -> subprocess.Popen[bytes]:
        """Start a worker."""
        scope = self.api.scope
        with self._output_file(len(self._running)).open("wb") as output:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "cli.main", "worker", *arguments, "--extractor", extractor),
                    *("--journal", str(self.journal), "--poll-s", "0.05", "--worker-id", "w", "--url", self._suite.url),
                    *("--project", scope["project_id"], "--agent", scope["agent_id"]),
                ],
                cwd=ROOT,
                env={**os.environ, "WAGGLE_KEY": self._suite.writer_key, "GATE_DIRECTORY": str(self.gate)},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self._running.append(process)
        return process

    def said(self, process: subprocess.Popen[bytes]) -> str:
        """Return the output until now."""
        return self._output_file(self._running.index(process)).read_text(encoding="utf-8")

    def end(self, process: subprocess.Popen[bytes], number: int = signal.SIGTERM) -> tuple[int, str]:
        """Send a signal; return exit code and output."""
        process.send_signal(number)
        return self.output(process)

    def output(self, process: subprocess.Popen[bytes]) -> tuple[int, str]:
        """Wait for the end; return exit code and output."""
        return process.wait(timeout=END_S), self.said(process)

    def stop(self) -> None:
        for process in self._running:
            process.kill()
            process.wait()

    def _output_file(self, number: int) -> Path:
        return self._directory / f"worker-{number}.txt"


@pytest.fixture
def bench(suite: Suite, api: Api, tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(suite, api, tmp_path)
    yield bench
    bench.stop()


@pytest.fixture
def fresh_bench(fresh_suite: Suite, fresh_api: Api, tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(fresh_suite, fresh_api, tmp_path)
    yield bench
    bench.stop()


def test_follows_its_own_jobs(bench: Bench) -> None:
    """Every ready job of its extractor is published, those that come later too; others are left alone."""
    jobs = [bench.create_job() for _ in range(3)]
    foreign = bench.create_job(method="another")
    worker = bench.start("--follow")
    for job_id in [*jobs, bench.create_job()]:
        assert 1 == len(bench.await_status(job_id, "published")["output_receipts"])
    # Jobs are listed by id: the foreign one may be the last that the worker looks at.
    wait_until(lambda: "passed " in bench.said(worker), "the foreign job is passed over", timeout_s=END_S)
    code, output = bench.end(worker)
    assert (0, 4, 1) == (code, output.count("published "), output.count("passed "))
    assert "done: 1 passed, 4 published" in output
    assert ("ready", 1) == (bench.job(foreign)["status"], bench.job(foreign)["revision"])
    assert [] == list((bench.journal / "open").iterdir())


def test_the_example_needs_no_model(bench: Bench) -> None:
    """The default extractor links what records the same ticket, and names it."""
    job_id = bench.create_job("BEE-7 is open", "nothing", "BEE-7 is done", method="shared_reference")
    code, output = bench.output(bench.start("--job", job_id, extractor="examples.entity_extractor"))
    assert (0, True) == (code, f"published {job_id}  1 assertions, revision 3" in output)
    job = bench.job(job_id)
    assert "ticket:BEE-7" == job["output_receipts"][0]["evidence_ref"]
    assert 0 == job["attempts"][0]["usage"]["cost_microusd"]
    again = bench.output(bench.start("--job", job_id, extractor="examples.entity_extractor"))
    assert (0, True) == (again[0], "done: nothing; the job is published" in again[1])


def test_one_job_that_is_not_its_own(bench: Bench) -> None:
    """It ends with 1 and says why; a wrong id or a missing choice is told too."""
    job_id = bench.create_job(method="another")
    code, output = bench.output(bench.start("--job", job_id))
    assert (1, True) == (code, "is for the extractor another" in output)
    assert (1, True) == _told(bench.output(bench.start("--job", "no-uuid")), "invalid_response")
    assert (2, True) == _told(bench.output(bench.start()), "--follow")
    assert (2, True) == _told(bench.output(bench.start("--follow", extractor="json")), "--extractor json")


def _told(ended: tuple[int, str], text: str) -> tuple[int, bool]:
    return ended[0], text in ended[1]


def test_keeps_the_lease_and_drains(bench: Bench) -> None:
    """While the extractor works the lease is renewed beyond its first length; SIGTERM lets it finish and publish."""
    job_id, waiting = sorted([bench.create_job(), bench.create_job()])
    bench.hold()
    worker = bench.start("--follow")
    bench.await_call()

    def is_renewed() -> bool:
        (attempt,) = bench.job(job_id)["attempts"]
        length: int = attempt["expires_at_millis"] - attempt["claimed_at_millis"]
        return length > LEASE_MS + LEASE_MS // 2

    wait_until(is_renewed, "the lease is renewed", timeout_s=END_S)
    worker.send_signal(signal.SIGTERM)
    bench.release()
    code, output = bench.output(worker)
    job = bench.job(job_id)
    assert (0, "published", 1) == (code, job["status"], len(job["attempts"]))
    assert "done: 1 published" in output
    assert "ready" == bench.job(waiting)["status"]


def test_killed_in_the_extractor(bench: Bench) -> None:
    """The next worker does not repeat the uncertain attempt; by policy it closes it as unknown and makes another."""
    job_id = bench.create_job()
    bench.hold()
    worker = bench.start("--follow")
    bench.await_call()
    bench.end(worker, signal.SIGKILL)
    never = bench.start("--job", job_id, "--recover", "never")
    code, output = bench.output(never)
    assert (1, True) == (code, "provider_outcome_unknown" in output)
    bench.release()
    worker = bench.start("--follow")
    job = bench.await_status(job_id, "published")
    code, output = bench.end(worker)
    assert (0, True) == (code, "recovered " in output)
    assert ["unknown", "published"] == [attempt["outcome"] for attempt in job["attempts"]]
    assert 2 == len(list(bench.gate.glob("called-*")))
    assert 2 == len(list((bench.journal / "closed").iterdir()))


def test_an_output_that_is_refused(bench: Bench) -> None:
    """Its attempt ends at once as failed, and the job goes to its end instead of being tried for ever."""
    (bench.gate / "wrong").touch()
    job_id = bench.create_job(lease_millis=600_000)
    code, output = bench.output(bench.start("--job", job_id))
    job = bench.job(job_id)
    assert (1, "exhausted", ["failed"] * 3) == (
        code, job["status"], [attempt["outcome"] for attempt in job["attempts"]],
    )  # fmt: skip
    assert 3 == output.count("refused ")


@pytest.mark.parametrize("victim", ["gateway", "consolidation", "storage"])
def test_a_service_dies_meanwhile(fresh_bench: Bench, fresh_suite: Suite, victim: str) -> None:
    """The worker outlives it, and every job is published once; a restart of storage costs the attempt, not the job."""
    jobs = [fresh_bench.create_job() for _ in range(2)]
    fresh_bench.hold()
    worker = fresh_bench.start("--follow")
    fresh_bench.await_call()
    fresh_suite.kill(victim)
    fresh_bench.release()
    fresh_suite.wait_healthy()
    for job_id in jobs:
        job = fresh_bench.await_status(job_id, "published")
        assert 1 == [attempt["outcome"] for attempt in job["attempts"]].count("published")
        assert 1 == len(job["output_receipts"])
    assert 0 == fresh_bench.end(worker)[0]

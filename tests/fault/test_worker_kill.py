"""The worker killed at each step: the next run has exactly the documented outcome, and nothing is published twice."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness import builders
from tests.harness.api import Api
from tests.harness.suite import COMPANY, Suite

pytestmark = pytest.mark.fault

ROOT = Path(__file__).resolve().parents[2]

RESUMES = "published"
STOPS = "provider_outcome_unknown"


class Victim:
    """One job, one journal, and runs of a worker that may die.

    Attributes:
        job_id: The job.
    """

    def __init__(self, suite: Suite, api: Api, directory: Path) -> None:
        self._api = api
        self._calls = directory / "calls"
        self._calls.touch()
        self.sources = [api.create("one"), api.create("two")]
        spec = {
            "sources": self.sources, "objective": "o", "policy_ref": "p", "extractor": builders.provenance_json(),
            "max_relations": 2, "max_attempts": 2, "lease_millis": 600_000, "max_attempt_millis": 600_000,
        }  # fmt: skip
        self.job_id = self._command({"type": "create", "spec": spec})["job_id"]
        self._settings = {
            "url": suite.url, "key": suite.writer_key, "company": COMPANY, "scope": api.scope, "job": self.job_id,
            "journal": str(directory / "journal"), "calls": str(self._calls),
        }  # fmt: skip

    def run(self, step: str = "", *, renew: bool = False) -> tuple[int, str]:
        """Run a worker that dies at a step; return its exit code and what it printed, else the name of its error."""
        settings = json.dumps({**self._settings, "step": step, "renew": renew})
        ended = subprocess.run(
            [sys.executable, "-m", "tests.harness.dying_worker", settings],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        lines = (ended.stdout or ended.stderr).splitlines()
        return ended.returncode, lines[-1] if lines else ""

    def call_count(self) -> int:
        """How often the extractor was called."""
        return len(self._calls.read_text(encoding="utf-8").splitlines())

    def job(self) -> dict[str, Any]:
        found: dict[str, Any] = self._api.expect("memory/consolidation/inspect", {"job_id": self.job_id})["inspection"]
        return found["job"]  # type: ignore[no-any-return]

    def edge_count(self) -> int:
        """How many relations the graph holds between the sources."""
        query = {"root_record_ids": [self.sources[0]["record_id"]]}
        return len(self._api.expect("memory/graph/typed", {"query": query})["graph"]["edges"])

    def cancel(self) -> None:
        """End the attempt as an operator would."""
        operation = {
            "type": "cancel", "job_id": self.job_id, "expected_revision": self.job()["revision"], "evidence_ref": "e",
        }  # fmt: skip
        self._command(operation)

    def _command(self, operation: dict[str, Any]) -> dict[str, Any]:
        body = {"idempotency_key": builders.new_key("job"), "operation": operation}
        receipt: dict[str, Any] = self._api.expect("memory/consolidation/commands", body)["receipt"]
        return receipt


@pytest.fixture
def victim(suite: Suite, api: Api, tmp_path: Path) -> Victim:
    return Victim(suite, api, tmp_path)


@pytest.mark.parametrize(
    ("step", "calls_before", "outcome", "calls"),
    [
        ("before claiming", 0, RESUMES, 1),
        ("after claiming", 0, RESUMES, 1),
        ("sent claim", 0, RESUMES, 1),
        ("answered claim", 0, RESUMES, 1),
        ("before claimed", 0, RESUMES, 1),
        ("after claimed", 0, RESUMES, 1),
        ("before calling", 0, RESUMES, 1),
        ("after calling", 0, STOPS, 0),
        ("in callback", 1, STOPS, 1),
        ("before prepared", 1, STOPS, 1),
        ("after prepared", 1, RESUMES, 1),
        ("sent publish", 1, RESUMES, 1),
        ("answered publish", 1, RESUMES, 1),
        ("before complete", 1, RESUMES, 1),
        ("after complete", 1, RESUMES, 1),
    ],
)
def test_killed_at(victim: Victim, step: str, calls_before: int, outcome: str, calls: int) -> None:
    """Before the intent a run resumes, after it stops for good, and prepared output is published without a new call."""
    assert (-signal.SIGKILL, "") == victim.run(step)
    assert calls_before == victim.call_count()
    for _ in range(2):
        assert (0, outcome) == victim.run()
        assert calls == victim.call_count()
    job = victim.job()
    published = 1 if outcome == RESUMES else 0
    assert (published, published, 1) == (victim.edge_count(), len(job["output_receipts"]), len(job["attempts"]))
    assert ("published" if published else "running", 3 if published else 2) == (job["status"], job["revision"])


@pytest.mark.parametrize("step", ["sent renew", "answered renew"])
def test_killed_while_renewing(victim: Victim, step: str) -> None:
    """The extractor had begun, so its outcome is unknown, whatever became of the renewal."""
    assert (-signal.SIGKILL, "") == victim.run(step, renew=True)
    assert (0, STOPS) == victim.run()
    assert (1, "running") == (victim.call_count(), victim.job()["status"])


def test_killed_again_and_again(victim: Victim) -> None:
    """Death at every step that can be resumed, one after another, still ends in one publication of one call."""
    steps = ["after claiming", "answered claim", "after claimed", "before calling", "after prepared", "sent publish",
             "answered publish", "before complete"]  # fmt: skip
    for step in steps:
        assert (-signal.SIGKILL, "") == victim.run(step)
    assert (0, "published") == victim.run()
    assert (1, 1, 3) == (victim.call_count(), victim.edge_count(), victim.job()["revision"])


def test_output_of_a_cancelled_job(victim: Victim) -> None:
    """Prepared output that comes too late is refused; it is neither published nor made anew."""
    victim.run("after prepared")
    victim.cancel()
    code, error = victim.run()
    assert 1 == code
    assert error.startswith("qilbeedb._errors.ConsumerAPIError: revision_conflict")
    assert (1, 0) == (victim.call_count(), victim.edge_count())

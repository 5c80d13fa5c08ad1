"""Worker processes that race for the same jobs, judged by what can be read afterwards and not by what they say."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from services.domain import keys
from services.domain.job_summaries import decode_summary
from services.domain.scope import partition_id, scope_from_json
from services.storage.client import GrpcStore
from tests.harness import builders, verdict
from tests.harness.api import Api
from tests.harness.linking_extractor import EXTRACTOR
from tests.harness.suite import COMPANY, Suite, running_suite, wait_until
from tests.harness.workload import NO_BUSY_SLOTS

pytestmark = pytest.mark.fault

ROOT = Path(__file__).resolve().parents[2]
RACE_S = 900.0
END_S = 180.0
U64_MAX = 2**64 - 1


def create_jobs(api: Api, count: int) -> dict[str, list[dict[str, Any]]]:
    """Jobs over pairs of a few records, so that they share sources; their sources by id."""
    records = [api.create(f"record {number}") for number in range(5)]
    jobs = {}
    for number in range(count):
        pair = [records[number % 5], records[(number + 1 + number // 5 % 4) % 5]]
        spec = {
            "sources": pair, "objective": "o", "policy_ref": "p", "extractor": {**EXTRACTOR, "evidence_ref": "e"},
            "max_relations": 1, "max_attempts": 1, "lease_millis": 900_000, "max_attempt_millis": 900_000,
        }  # fmt: skip
        body = {"idempotency_key": builders.new_key("race"), "operation": {"type": "create", "spec": spec}}
        # The workers that look for jobs may hold every slot.
        while (response := api.post("memory/consolidation/commands", body)).status_code == 503:
            pass
        jobs[response.json()["receipt"]["job_id"]] = pair
    return jobs


def start_worker(suite: Suite, api: Api, directory: Path, number: int) -> subprocess.Popen[str]:
    """A worker process with a journal and a label of its own, and the extractor that all have."""
    journal = directory / f"journal-{number}"
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "cli.main", "worker", "--follow", "--extractor", "tests.harness.linking_extractor"),
            *("--journal", str(journal), "--worker-id", f"worker {number}", "--poll-s", "0.5", "--url", suite.url),
            *("--project", api.scope["project_id"], "--agent", api.scope["agent_id"]),
        ],
        cwd=ROOT,
        env={**os.environ, "WAGGLE_KEY": suite.writer_key},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def is_draining_on_sigterm(worker: subprocess.Popen[str]) -> bool:
    """Whether a worker has come so far that it catches the signal; it would be ended by it before."""
    assert worker.poll() is None, worker.communicate()
    status = Path(f"/proc/{worker.pid}/status").read_text(encoding="utf-8")
    caught = int(status.partition("SigCgt:")[2].split()[0], 16)
    return bool(caught >> (signal.SIGTERM - 1) & 1)


def are_published(store: GrpcStore, partition: bytes, count: int) -> bool:
    """Whether so many jobs are published, as storage has them: a question to the service would take a slot."""
    pages = store.changed_since(partition, 0, key_prefixes=[keys.JOB_SUMMARY])
    return count == sum(decode_summary(row.value).status == "published" for page in pages for row in page.rows)


def end_workers(workers: list[subprocess.Popen[str]]) -> list[tuple[int, str]]:
    """Let every worker drain; exit code and standard error of each."""
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
    ended = []
    for worker in workers:
        _, err = worker.communicate(timeout=END_S)
        ended.append((worker.returncode, err))
    return ended


def check_job(api: Api, job_id: str, pair: list[dict[str, Any]]) -> tuple[str, str]:
    """One attempt, three revisions, each with the receipt of its command; its relation's id and its worker."""
    job = api.expect("memory/consolidation/inspect", {"job_id": job_id})["inspection"]["job"]
    assert ("published", 3, 1, 1) == (
        job["status"], job["revision"], len(job["attempts"]), len(job["output_receipts"]),
    )  # fmt: skip
    (attempt,), (output,) = job["attempts"], job["output_receipts"]
    assert ("published", f"run {attempt['fence']}", U64_MAX) == (
        attempt["outcome"], attempt["evidence_ref"], attempt["usage"]["input_tokens"],
    )  # fmt: skip
    steps = [
        api.expect("memory/consolidation/revision", {"job_id": job_id, "revision": revision})["history"]
        for revision in (1, 2, 3)
    ]
    assert ["created", "claimed", "published"] == [step["receipt"]["action"] for step in steps]
    assert [1, 2, 3] == [step["receipt"]["revision"] for step in steps]
    assert job == steps[-1]["job"]
    # The attempt that published is the one that had claimed.
    assert attempt["fence"] == steps[1]["job"]["attempts"][0]["fence"]
    asked = {"relation_id": output["relation_id"], "revision": 1}
    history = api.expect("memory/relations/revision", asked)["history"]
    assert (output, 1) == (history["receipt"], history["relation"]["revision"])
    stated = history["relation"]["input"]
    assert pair == [stated["source"], stated["target"]]
    assert f"{job_id} {attempt['fence']}" == stated["provenance"]["evidence_ref"]
    return output["relation_id"], attempt["worker_id"]


# How many requests are admitted at once decides whether workers meet at the server's door or at its commits.
RACES = [
    pytest.param(6, 20, NO_BUSY_SLOTS, id="quick"),
    pytest.param(32, 100, NO_BUSY_SLOTS, id="whole", marks=pytest.mark.deep),
    pytest.param(32, 100, {}, id="whole, with two slots", marks=pytest.mark.deep),
]


@pytest.mark.parametrize(("worker_count", "job_count", "environment"), RACES)
def test_every_job_is_published_once(
    scope: dict[str, Any], tmp_path: Path, worker_count: int, job_count: int, environment: dict[str, str]
) -> None:
    """Each job has one winner, one publication and one relation; nothing is lost, and every worker ends cleanly."""
    with running_suite(tmp_path, environment) as suite, suite.client() as client:
        race(suite, Api(client, scope), tmp_path, worker_count, job_count)


def race(suite: Suite, api: Api, directory: Path, worker_count: int, job_count: int) -> None:
    """Let workers race for jobs, and judge what they leave."""
    workers = [start_worker(suite, api, directory, number) for number in range(worker_count)]
    try:
        # All of them look for work before there is any.
        wait_until(lambda: all(map(is_draining_on_sigterm, workers)), "every worker has started", timeout_s=RACE_S)
        jobs = create_jobs(api, job_count)
        partition = partition_id(COMPANY, scope_from_json(api.scope), None)
        with GrpcStore(suite.address("storage")) as store:
            wait_until(lambda: are_published(store, partition, job_count), "every job is published", timeout_s=RACE_S)
        ended = end_workers(workers)
    finally:
        for worker in workers:
            if worker.poll() is None:
                worker.kill()
                worker.communicate()
    assert [(0, "")] * worker_count == ended
    found = [check_job(api, job_id, pair) for job_id, pair in jobs.items()]
    relation_ids = {relation_id for relation_id, _ in found}
    assert job_count == len(relation_ids)
    assert {f"worker {number}" for number in range(worker_count)} >= {worker for _, worker in found}
    rows = verdict.check_partition(suite, api.scope)
    # Nothing but the publications: no relation, receipt or job that is not accounted for above.
    assert (relation_ids, set(jobs)) == (set(rows.relations), set(rows.jobs))
    actions = Counter(receipt["action"] for receipt in rows.receipts.values() if "job_id" in receipt)
    assert {"created": job_count, "claimed": job_count, "published": job_count} == actions
    # Whoever was told to end while it waited for a slot keeps a claim to send again, or a receipt whose job it did not
    # see any more, and nothing else.
    assert {"claiming", "complete"} >= {
        stage for number in range(worker_count) for stage in open_stages(directory, number)
    }


def open_stages(directory: Path, number: int) -> list[str]:
    """Stages of the attempts that a worker has not settled."""
    stages = []
    for database in (directory / f"journal-{number}").glob("open/*/consolidation.sqlite3"):
        with closing(sqlite3.connect(database)) as connection:
            stages += [json.loads(state)["stage"] for (state,) in connection.execute("SELECT state FROM attempts")]
    return stages

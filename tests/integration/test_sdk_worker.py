"""`run_once` step by step against one scripted job: what is sent, with which key, and what the journal holds when."""

from __future__ import annotations

import copy
import json
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from qilbeedb import (
    ConsolidationClient,
    ConsolidationInput,
    ConsolidationResult,
    ConsolidationStopped,
    ConsumerAPIError,
    ConsumerError,
    ConsumerProtocolError,
    ConsumerTransportError,
    ExternalConsolidationWorker,
    ReconciliationRequired,
    SQLiteConsolidationJournal,
)
from tests.harness import scripted_jobs as jobs
from tests.harness.plain_http import PlainServer, json_reply
from tests.harness.scripted_jobs import FENCE, JOB_ID, SOURCES, ScriptedJobs, scripted_jobs

USAGE = {"status": "reported", "model_calls": 2**64 - 1, "input_tokens": 1, "output_tokens": 2, "cost_microusd": None}
FOUND = {"source": SOURCES[0], "target": SOURCES[1], "kind": "same_entity", "evidence_ref": "seen"}
BUSY = json_reply({"contract_version": 1, "error": {"code": "retrieval_busy", "message": ""}}, status=503)
CONFLICT = json_reply({"contract_version": 1, "error": {"code": "revision_conflict", "message": ""}}, status=409)


OTHER_JOB_ID = "00000000-0000-4000-8000-0000000000ee"
CLAIM = {"type": "claim", "job_id": JOB_ID, "expected_revision": 1, "worker_id": "w"}
CANCEL = {"type": "cancel", "job_id": JOB_ID, "expected_revision": 1, "evidence_ref": "e"}
FAIL = {
    "type": "fail",
    "job_id": JOB_ID,
    "expected_revision": 2,
    "fence": FENCE,
    "usage": USAGE,
    "evidence_ref": "e",
}


class World:
    """A scripted job, its server, and workers that share one journal directory."""

    def __init__(self, scripted: ScriptedJobs, server: PlainServer, directory: Path) -> None:
        self.scripted = scripted
        self.server = server
        self.directory = directory

    def worker(self, worker_id: str = "w") -> ExternalConsolidationWorker:
        """A worker as a new process would make it."""
        client = ConsolidationClient(
            self.server.url, "secret", tenant_id=jobs.COMPANY, subject_id=jobs.SUBJECT, scope=jobs.SCOPE, timeout=20
        )
        return ExternalConsolidationWorker(client, SQLiteConsolidationJournal(self.directory), worker_id=worker_id)

    def run(self, extractor: Callable[[ConsolidationInput], Any] | None = None) -> dict[str, Any]:
        return self.worker().run_once(JOB_ID, extractor or find)

    def state(self) -> dict[str, Any]:
        """What the journal holds."""
        worker = self.worker()
        with worker.journal.transaction() as transaction:
            return transaction.load(worker.binding_id, JOB_ID) or {}

    def stop_code(self, extractor: Callable[[ConsolidationInput], Any] | None = None) -> str:
        with pytest.raises(ConsolidationStopped) as caught:
            self.run(extractor)
        return caught.value.code


def find(_: ConsolidationInput) -> ConsolidationResult:
    return ConsolidationResult([FOUND], USAGE, "run:1")


def forbidden(_: ConsolidationInput) -> ConsolidationResult:
    raise AssertionError("the extractor was called")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with scripted_jobs() as (scripted, server):
        yield World(scripted, server, tmp_path / "journal")


def test_whole_run(world: World) -> None:
    """Claim, context, callback, publication: commands and keys as documented, then the receipt and a current view."""
    given: list[ConsolidationInput] = []

    def extract(one: ConsolidationInput) -> ConsolidationResult:
        given.append(one)
        return find(one)

    result = world.run(extract)
    claim, publish = world.scripted.commands
    assert {"type": "claim", "job_id": JOB_ID, "expected_revision": 1, "worker_id": "w"} == claim["operation"]
    assert re.fullmatch(r"worker-claim-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", claim["idempotency_key"])
    assert f"worker-result-{FENCE}" == publish["idempotency_key"]
    assert {
        "type": "publish",
        "job_id": JOB_ID,
        "expected_revision": 2,
        "fence": FENCE,
        "assertions": [FOUND],
        "usage": USAGE,
        "evidence_ref": "run:1",
    } == publish["operation"]
    (one,) = given
    assert (JOB_ID, FENCE, jobs.spec()) == (one.job_id, one.attempt_id, one.spec)
    assert [jobs.record(source) for source in SOURCES] == one.records
    assert {"receipt", "inspection"} == set(result)
    assert ("published", 3) == (result["receipt"]["action"], result["receipt"]["revision"])
    assert world.scripted.job == result["inspection"]["job"]
    assert {"stage": "complete", "receipt": result["receipt"]} == world.state()


def test_stages_are_saved_before_what_they_allow(world: World) -> None:
    """Each request, and the callback, finds the stage that lets a later run repeat it, already in the journal."""
    stages: list[tuple[str, str]] = []
    inner = world.scripted.answer

    # The lock is the worker's, so that only a second reader of the file can look without it.
    def answer(request: Any) -> Any:
        if request.method == "POST":
            name = request.path.rpartition("/")[2]
            stages.append((request.json["operation"]["type"] if name == "commands" else name, saved_stage(world)))
        return inner(request)

    def extract(one: ConsolidationInput) -> ConsolidationResult:
        stages.append(("callback", saved_stage(world)))
        return find(one)

    world.server.answer = answer
    world.run(extract)
    assert [
        ("inspect", ""),
        ("claim", "claiming"),
        ("inspect", "claiming"),
        ("context", "claimed"),
        ("callback", "calling"),
        ("publish", "prepared"),
        ("inspect", "complete"),
    ] == stages


def saved_stage(world: World) -> str:
    database = sqlite3.connect(world.directory / "consolidation.sqlite3")
    try:
        row = database.execute("SELECT state FROM attempts").fetchone()
    finally:
        database.close()
    return "" if row is None else str(json.loads(row[0])["stage"])


def test_nothing_secret_is_kept(world: World) -> None:
    """Neither the credential nor a word of the records is in the journal, at its fullest."""
    world.scripted.spoils["publish"] = lambda _: BUSY
    with pytest.raises(ConsumerAPIError):
        world.run()
    kept = b"".join(path.read_bytes() for path in world.directory.iterdir())
    assert b"run:1" in kept
    assert b"secret" not in kept
    assert b'"primary"' not in kept


def test_a_complete_job_is_answered_from_the_journal(world: World) -> None:
    """The stored receipt and a fresh view; nothing is sent but questions, and the extractor is not called."""
    first = world.run()
    count = len(world.scripted.commands)
    assert first == world.run(forbidden)
    assert count == len(world.scripted.commands)


def test_a_lost_view_undoes_nothing(world: World) -> None:
    """When the last question fails, the publication stands, and the next run has its receipt."""
    world.scripted.spoils["inspect"] = lambda answer: (
        answer if answer["inspection"]["job"]["status"] != "published" else b""
    )
    with pytest.raises(ConsumerTransportError):
        world.run()
    world.scripted.spoils.clear()
    assert "published" == world.run(forbidden)["receipt"]["action"]
    assert ["claim", "publish"] == [command["operation"]["type"] for command in world.scripted.commands]


@pytest.mark.parametrize("step", ["claim", "publish"])
@pytest.mark.parametrize("spoil", [lambda _: b"", lambda _: BUSY], ids=["lost", "busy"])
def test_commands_are_repeated_as_they_were(world: World, step: str, spoil: Any) -> None:
    """After a lost answer the same command goes out with the same key, and what it did is done once."""
    calls: list[str] = []

    def extract(one: ConsolidationInput) -> ConsolidationResult:
        calls.append(one.attempt_id)
        return find(one)

    world.scripted.spoils[step] = spoil
    with pytest.raises(ConsumerError) as caught:
        world.run(extract)
    assert "unknown" == caught.value.checkpoint_outcome
    world.scripted.spoils.clear()
    assert "published" == world.run(extract)["receipt"]["action"]
    sent = [command for command in world.scripted.commands if command["operation"]["type"] == step]
    assert sent[0] == sent[1]
    assert ([FENCE], 3) == (calls, world.scripted.job["revision"])


@pytest.mark.parametrize(
    "change",
    [
        lambda answer: answer["inspection"]["job"].update(status="cancelled"),
        lambda answer: answer["inspection"].update(
            source_failure={
                "record_id": JOB_ID, "expected_revision": 1, "actual_revision": 2, "reason": "source_revision_changed",
            }
        ),
    ],
)  # fmt: skip
def test_a_job_that_is_not_ready(world: World, change: Callable[[Any], None]) -> None:
    """Nothing is claimed and nothing is saved, so that another time may be the right one."""

    def spoil(answer: Any) -> Any:
        change(answer)
        return answer

    world.scripted.spoils["inspect"] = spoil
    assert "job_not_ready" == world.stop_code(forbidden)
    assert ({}, []) == (world.state(), world.scripted.commands)
    world.scripted.spoils.clear()
    assert "published" == world.run()["receipt"]["action"]


def test_a_claim_that_is_history(world: World) -> None:
    """A repeated claim whose attempt has lost its lease stops, and keeps stopping."""

    def expire(answer: Any) -> Any:
        if answer["inspection"]["job"]["status"] == "running":
            answer["inspection"].update(lease_active=False, recoverable=True)
        return answer

    world.scripted.spoils["inspect"] = expire
    assert "claim_no_longer_current" == world.stop_code(forbidden)
    assert "claim_no_longer_current" == world.stop_code(forbidden)
    assert "claiming" == world.state()["stage"]
    keys = [command["idempotency_key"] for command in world.scripted.commands]
    assert keys[0] == keys[1]


def test_a_claim_of_somebody_else(world: World) -> None:
    """The attempt has to carry this worker's label and the credential of the claim."""

    def relabel(answer: Any) -> Any:
        for one in answer["inspection"]["job"]["attempts"]:
            one["worker_id"] = "another"
        return answer

    world.scripted.spoils["inspect"] = relabel
    with pytest.raises(ConsumerProtocolError):
        world.run(forbidden)
    assert "claiming" == world.state()["stage"]


def test_a_refused_claim(world: World) -> None:
    """Another worker was faster: the refusal is the server's, and the extractor is not called."""
    world.scripted.spoils["claim"] = lambda _: CONFLICT
    with pytest.raises(ConsumerAPIError) as caught:
        world.run(forbidden)
    assert ("revision_conflict", "rejected") == (caught.value.code, caught.value.checkpoint_outcome)


@pytest.mark.parametrize("change", [lambda found: found.reverse(), lambda found: found[1].update(revision=7)])
def test_a_context_of_other_records(world: World, change: Callable[[list[Any]], None]) -> None:
    """Records come in the order and at the revisions of the claimed specification."""

    def spoil(answer: Any) -> Any:
        change(answer["context"]["records"])
        return answer

    world.scripted.spoils["context"] = spoil
    with pytest.raises(ConsumerProtocolError) as caught:
        world.run(forbidden)
    assert ("context_manifest_mismatch", "claimed") == (caught.value.code, world.state()["stage"])


def test_an_extractor_that_raises(world: World) -> None:
    """Nobody knows what it did: this and every later run stop, and nothing is sent."""

    def fail(_: ConsolidationInput) -> ConsolidationResult:
        raise OSError("the provider hung up")

    assert "provider_outcome_unknown" == world.stop_code(fail)
    assert "calling" == world.state()["stage"]
    count = len(world.server.requests)
    assert "provider_outcome_unknown" == world.stop_code(forbidden)
    assert count == len(world.server.requests)


def test_an_interrupted_extractor(world: World) -> None:
    """Ctrl-C passes through as itself; the outcome is as unknown."""

    def interrupt(_: ConsolidationInput) -> ConsolidationResult:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.run(interrupt)
    assert "provider_outcome_unknown" == world.stop_code(forbidden)


def result(**members: Any) -> ConsolidationResult:
    return ConsolidationResult(**{"assertions": [], "usage": USAGE, "evidence_ref": "e", **members})


INVALID: list[Any] = [
    None,
    {"assertions": [], "usage": USAGE, "evidence_ref": "e"},
    result(evidence_ref=" "),
    result(evidence_ref="x" * 2049),
    result(evidence_ref=None),
    result(usage={"status": "unknown", "model_calls": 0}),
    result(usage={"status": "reported", "model_calls": 1}),
    result(usage={**USAGE, "input_tokens": 2**64}),
    result(usage={**USAGE, "input_tokens": 1.0}),
    result(usage={**USAGE, "cost_microusd": -1}),
    result(failed=1),
    result(failed=True, assertions=[FOUND]),
    result(assertions=(FOUND,)),
    result(assertions=[FOUND] * 3),
    result(assertions=["x"]),
    result(assertions=[{**FOUND, "source": SOURCES[1]}]),
    result(assertions=[{**FOUND, "source": {**SOURCES[0], "revision": 2}}]),
    result(assertions=[{**FOUND, "source": {**SOURCES[0], "revision": True}}]),
    result(assertions=[{**FOUND, "source": {**SOURCES[0], "revision": 1.0}}]),
    result(assertions=[{**FOUND, "source": {**SOURCES[0], "more": 1}}]),
    result(assertions=[{**FOUND, "target": None}]),
    result(assertions=[{**FOUND, "valid_from_millis": float("nan")}]),
    result(assertions=[{**FOUND, "valid_from_millis": 2**64}]),
    result(assertions=[{**FOUND, "kind": {1, 2}}]),
    result(assertions=[{**FOUND, 1: "a", "1": "b"}]),
    result(assertions=[{**FOUND, "evidence_ref": "\ud800"}]),
]


@pytest.mark.parametrize("value", INVALID)
def test_results_that_cannot_be_published(world: World, value: Any) -> None:
    """They stop the worker after the call, and so the call is not made again."""
    assert "invalid_provider_result" == world.stop_code(lambda _: value)
    assert "calling" == world.state()["stage"]
    assert ["claim"] == [command["operation"]["type"] for command in world.scripted.commands]


def test_results_are_bounded(world: World) -> None:
    """An output of more than 61,440 bytes is refused before it is saved."""
    huge = result(assertions=[{**FOUND, "note": "x" * 61_440}])
    with pytest.raises(ConsumerProtocolError) as caught:
        world.run(lambda _: huge)
    assert ("consolidation_value_too_large", "calling") == (caught.value.code, world.state()["stage"])


def test_an_empty_result_completes_the_job(world: World) -> None:
    """Nothing found is an outcome."""
    assert "published" == world.run(lambda _: result(usage={"status": "unknown"}))["receipt"]["action"]
    assert [] == world.scripted.commands[-1]["operation"]["assertions"]


def test_a_failure_is_reported_as_one(world: World) -> None:
    """A failed result ends the attempt with its consumption and without assertions."""
    assert "failed" == world.run(lambda _: result(failed=True))["receipt"]["action"]
    assert {
        "type": "fail", "job_id": JOB_ID, "expected_revision": 2, "fence": FENCE, "usage": USAGE, "evidence_ref": "e",
    } == world.scripted.commands[-1]["operation"]  # fmt: skip


def test_renewal(world: World) -> None:
    """Each renewal carries the tracked revision and a key of its own, and the output the revision after the last."""

    def extract(one: ConsolidationInput) -> ConsolidationResult:
        one.renew()
        one.renew()
        return find(one)

    world.run(extract)
    _, first, second, publish = world.scripted.commands
    assert {"type": "renew", "job_id": JOB_ID, "expected_revision": 2, "fence": FENCE} == first["operation"]
    assert (f"worker-renew-{FENCE}-2", f"worker-renew-{FENCE}-3") == (
        first["idempotency_key"], second["idempotency_key"],
    )  # fmt: skip
    assert (3, 4) == (second["operation"]["expected_revision"], publish["operation"]["expected_revision"])


def test_a_renewal_without_an_answer(world: World) -> None:
    """It may have happened, so the next one repeats it with its key and learns the revision from its receipt."""

    def extract(one: ConsolidationInput) -> ConsolidationResult:
        world.scripted.spoils["renew"] = lambda _: b""
        with pytest.raises(ConsumerTransportError):
            one.renew()
        world.scripted.spoils.clear()
        one.renew()
        return find(one)

    world.run(extract)
    _, first, second, publish = world.scripted.commands
    assert first == second
    assert 3 == publish["operation"]["expected_revision"]


def test_renewal_belongs_to_the_callback(world: World) -> None:
    """Neither another thread nor a time after the callback may renew."""
    kept: list[ConsolidationInput] = []
    refusals: list[str] = []

    def extract(one: ConsolidationInput) -> ConsolidationResult:
        kept.append(one)

        def renew() -> None:
            with pytest.raises(RuntimeError) as caught:
                one.renew()
            refusals.append(str(caught.value))

        thread = threading.Thread(target=renew)
        thread.start()
        thread.join()
        return find(one)

    world.run(extract)
    with pytest.raises(RuntimeError, match="while the extractor runs"):
        kept[0].renew()
    assert ["renew() works only in the thread that called the extractor"] == refusals


def test_the_extractor_works_on_copies(world: World) -> None:
    """Whatever it does to its input, membership is judged by the claimed specification."""

    def extract(one: ConsolidationInput) -> ConsolidationResult:
        one.spec["sources"].append({"record_id": FENCE, "revision": 1})
        one.spec["max_relations"] = 16
        one.records.clear()
        return result(assertions=[{**FOUND, "target": {"record_id": FENCE, "revision": 1}}])

    assert "invalid_provider_result" == world.stop_code(extract)


def test_the_result_is_saved_as_it_was(world: World) -> None:
    """Changing the result afterwards changes nothing that is sent again."""
    found = copy.deepcopy(FOUND)
    world.scripted.spoils["publish"] = lambda _: BUSY
    with pytest.raises(ConsumerAPIError):
        world.run(lambda _: result(assertions=[found]))
    found["kind"] = "contradicts"
    world.scripted.spoils.clear()
    world.run(forbidden)
    assert [[FOUND], [FOUND]] == [command["operation"]["assertions"] for command in world.scripted.commands[1:]]


def test_labels_are_kept_apart(world: World) -> None:
    """Another label is another worker: it finds nothing of the first in the same journal."""
    world.run()
    with pytest.raises(ConsolidationStopped) as caught:
        world.worker("v").run_once(JOB_ID, forbidden)
    assert "job_not_ready" == caught.value.code


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"stage": "begun"},
        {"stage": ["calling"]},
        {"stage": "claiming", "command": {}},
        {"stage": "claimed", "revision": 0, "fence": FENCE, "spec": jobs.spec()},
        {"stage": "claimed", "revision": 1, "fence": FENCE, "spec": {**jobs.spec(), "sources": []}},
        {"stage": "complete", "receipt": {}},
        {"stage": "calling", "revision": 1, "fence": FENCE, "spec": jobs.spec(), "more": 1},
        {"stage": "claiming", "command": {**CLAIM, "job_id": OTHER_JOB_ID}, "key": "worker-claim-1"},
        {"stage": "claiming", "command": {**CLAIM, "worker_id": "v"}, "key": "worker-claim-1"},
        {"stage": "claiming", "command": CLAIM, "key": "mine"},
        {"stage": "claiming", "command": CANCEL, "key": "worker-claim-1"},
        {"stage": "prepared", "command": CANCEL, "key": f"worker-result-{FENCE}"},
        {"stage": "prepared", "command": CLAIM, "key": f"worker-result-{FENCE}"},
        {"stage": "prepared", "command": [1], "key": f"worker-result-{FENCE}"},
        {"stage": "prepared", "command": FAIL, "key": f"worker-result-{OTHER_JOB_ID}"},
        {"stage": "prepared", "command": {**FAIL, "job_id": OTHER_JOB_ID}, "key": f"worker-result-{FENCE}"},
        {"stage": "prepared", "command": {**FAIL, "assertions": []}, "key": f"worker-result-{FENCE}"},
    ],
)
def test_states_that_no_worker_wrote(world: World, state: dict[str, Any]) -> None:
    """They need a person; nothing is sent on their word."""
    worker = world.worker()
    with worker.journal.transaction() as transaction:
        transaction.save(worker.binding_id, JOB_ID, state)
    with pytest.raises(ReconciliationRequired) as caught:
        world.run(forbidden)
    assert ("invalid_journal_state", []) == (caught.value.code, world.server.requests)


@pytest.mark.parametrize("members", [{"job_id": OTHER_JOB_ID}, {"action": "cancelled"}, {"action": "claimed"}])
def test_a_receipt_of_something_else_is_no_result(world: World, members: dict[str, Any]) -> None:
    """A complete job is answered by what has ended its attempt."""
    state = world.run() and world.state()
    state["receipt"].update(members)
    worker = world.worker()
    with worker.journal.transaction() as transaction:
        transaction.save(worker.binding_id, JOB_ID, state)
    with pytest.raises(ReconciliationRequired, match="invalid_journal_state"):
        world.run(forbidden)


def test_a_second_worker_waits_outside(world: World) -> None:
    """While the extractor works, nobody else uses the journal."""

    def extract(one: ConsolidationInput) -> ConsolidationResult:
        assert "journal_in_use" == world.stop_code(forbidden)
        return find(one)

    assert "published" == world.run(extract)["receipt"]["action"]

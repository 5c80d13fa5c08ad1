"""The whole suite under load with processes killed: acknowledged is present, the rest is whole or absent."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from cli.connection import Visibility
from cli.import_stream import ImportRefused, run_import
from cli.imports import scope_message
from tests.harness import builders
from tests.harness.api import Api
from tests.harness.suite import Suite, wait_until
from waggle.common.v1 import records_pb2
from waggle.memory.v1 import commands_pb2, import_service_pb2

pytestmark = pytest.mark.fault

WRITER_COUNT = 4
ACKNOWLEDGED_BETWEEN_KILLS = 40
VICTIMS = ("storage", "memory", "gateway", "identity", "storage")


class Writers:
    """Threads that create records one after another, and remember what was acknowledged and what was not.

    Attributes:
        acknowledged: Record id by idempotency key.
        unanswered: Keys whose command failed or got no answer; it may have been carried out.
    """

    def __init__(self, suite: Suite, scope: dict[str, Any]) -> None:
        self.acknowledged: dict[str, str] = {}
        self.unanswered: set[str] = set()
        self._suite, self._scope = suite, scope
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(WRITER_COUNT)
        self._runs = [self._pool.submit(self._run) for _ in range(WRITER_COUNT)]

    def await_progress(self) -> None:
        """Wait until some more commands have been acknowledged."""
        goal = len(self.acknowledged) + ACKNOWLEDGED_BETWEEN_KILLS
        wait_until(lambda: len(self.acknowledged) >= goal, "writers make progress")

    def stop(self) -> None:
        """End all threads; an error that was not a lost answer or a refusal surfaces here."""
        self._stop.set()
        for run in self._runs:
            run.result()
        self._pool.shutdown()

    def _run(self) -> None:
        with self._suite.client() as client:
            while not self._stop.is_set():
                key = builders.new_key("load")
                body = builders.create_body(self._scope, f"Written under load as {key}", key=key)
                try:
                    response = client.post("/api/v1/memory/commands", json=body)
                except httpx.TransportError:
                    self.unanswered.add(key)
                    continue
                if response.status_code == 200:
                    self.acknowledged[key] = response.json()["receipt"]["record_id"]
                else:
                    assert 500 == response.status_code, response.text
                    self.unanswered.add(key)


def records_by_key(api: Api) -> dict[str, list[str]]:
    """Read the whole partition: record ids by the key that their text names."""
    found: dict[str, list[str]] = {}
    after = None
    while True:
        page = api.expect("memory/query", {"filter": {"limit": 500, "after": after}})["page"]
        for record in page["records"]:
            key = record["payload"]["content"]["primary"].rpartition(" ")[2]
            found.setdefault(key, []).append(record["record_id"])
        after = page["next_after"]
        if after is None:
            return found


def test_no_acknowledged_write_is_lost_whatever_dies(fresh_suite: Suite, scope: dict[str, Any]) -> None:
    """Each kill interrupts running commands. A key never has two records, and repeating it settles what it left."""
    writers = Writers(fresh_suite, scope)
    for victim in VICTIMS:
        writers.await_progress()
        fresh_suite.kill(victim)
        fresh_suite.wait_healthy()
    writers.await_progress()
    writers.stop()
    with fresh_suite.client() as client:
        api = Api(client, scope)
        found = records_by_key(api)
        assert writers.acknowledged == {key: ids[0] for key, ids in found.items() if key in writers.acknowledged}
        assert set() == {key for key, ids in found.items() if len(ids) > 1}
        assert set(found) <= set(writers.acknowledged) | writers.unanswered
        settled = {}
        for key in sorted(writers.unanswered):
            body = builders.create_body(scope, f"Written under load as {key}", key=key)
            settled[key] = api.expect("memory/commands", body)["receipt"]["record_id"]
        assert {key: ids for key, ids in found.items() if key in settled} == {
            key: [record_id] for key, record_id in settled.items() if key in found
        }
        searched = api.expect("memory/search/lexical", {"mode": "lexical", "query": {"text": "load", "limit": 1}})
        assert len(writers.acknowledged) + len(settled) == searched["page"]["corpus_records"]


@pytest.mark.parametrize("victim", ["storage", "memory"])
def test_an_interrupted_import_goes_on_where_it_was(fresh_suite: Suite, scope: dict[str, Any], victim: str) -> None:
    """What was reported durable stays, the rest follows when the import is run again, and nothing is there twice."""
    texts = {f"import-{number:05}": f"Imported as import-{number:05}" for number in range(6000)}
    commands = [
        import_service_pb2.ImportCommand(
            idempotency_key=key,
            create_record=commands_pb2.CreateRecord(
                record=records_pb2.RecordInput(
                    episode_type=records_pb2.EpisodeType(custom="test"),
                    content=records_pb2.EpisodeContent(primary=text),
                    event_time_millis=1,
                )
            ),
        )
        for key, text in texts.items()
    ]
    message = scope_message(scope["project_id"], scope["agent_id"], "", Visibility.SHARED)
    killed = threading.Event()

    def kill_once(done: int) -> None:
        if done and not killed.is_set():
            killed.set()
            fresh_suite.kill(victim)

    def run() -> tuple[int, int]:
        result = run_import(
            fresh_suite.address("memory"), fresh_suite.writer_key, message, commands, on_progress=kill_once
        )
        return result.committed, result.replayed

    durable = 0
    try:
        # The memory service may outlive a short absence of storage; then nothing is interrupted, which is as good.
        durable = sum(run())
    except ImportRefused as error:
        durable = error.committed + error.replayed
    assert killed.is_set()
    assert durable > 0
    fresh_suite.wait_healthy()
    outcomes: list[tuple[int, int]] = []

    def is_done() -> bool:
        try:
            outcomes.append(run())
        except ImportRefused as error:
            # The services find each other again within a moment; anything else is a finding.
            if error.reason not in ("unavailable", "internal_error"):
                raise
        return bool(outcomes)

    wait_until(is_done, "the import can be run again")
    committed, replayed = outcomes[0]
    assert (len(texts), True) == (committed + replayed, replayed >= durable)
    with fresh_suite.client() as client:
        found = records_by_key(Api(client, scope))
    assert (set(texts), {1}) == (set(found), {len(ids) for ids in found.values()})

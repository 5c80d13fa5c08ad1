"""C28: clients meet the very end of the disk, in the middle of their writes; and a log that nobody can write."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from services.storage.client import GrpcStore
from tests.harness import builders, verdict
from tests.harness.api import Api
from tests.harness.small_volume import fill, small_volume
from tests.harness.suite import Suite, make_suite, wait_until

pytestmark = pytest.mark.fault

MIB = 1024 * 1024
TEXT = "x" * 40_000
WRITERS, TURNS = 16, 12


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    """A small volume for whatever a test puts there."""
    with small_volume(tmp_path / "volume", 48 * MIB) as path:
        yield path


def started(suite: Suite) -> Suite:
    suite.start()
    suite.writer_key = suite.issue("writer", ["memory_read", "memory_write"])
    return suite


def is_writable(suite: Suite) -> bool:
    with GrpcStore(suite.address("storage")) as store:
        return store.status().writable


def write(api: Api, key: str) -> httpx.Response:
    return api.client.post("/api/v1/memory/commands", json=builders.create_body(api.scope, f"{TEXT} {key}", key=key))


@pytest.mark.deep
def test_a_volume_that_fills_up_under_many_writers(tmp_path: Path, volume: Path, scope: dict[str, Any]) -> None:
    """What was acknowledged is there; every other key tells what became of it: absent, or done once."""
    suite = make_suite(volume)
    suite.log = tmp_path / "suite.log"
    try:
        started(suite)
        begin = threading.Barrier(WRITERS + 1)

        def write_all(number: int) -> list[tuple[str, httpx.Response]]:
            with suite.client() as client:
                begin.wait()
                keys = [f"{number}-{turn}" for turn in range(TURNS)]
                return [(key, write(Api(client, scope), key)) for key in keys]

        with ThreadPoolExecutor(WRITERS) as pool:
            writers = [pool.submit(write_all, number) for number in range(WRITERS)]
            begin.wait()
            filler = fill(volume)
            answers = [answer for writer in writers for answer in writer.result()]
        refused = [answer.json()["error"]["code"] for _, answer in answers if answer.status_code != 200]
        assert refused
        # Once the engine itself has failed nothing is known of a commit that was on its way.
        assert {"storage_full", "internal_error"} >= set(refused)
        filler.unlink()
        wait_until(lambda: is_writable(suite), "storage writes again")
        with suite.client() as client:
            api = Api(client, scope)
            for key, answer in answers:
                if answer.status_code == 200:
                    read = api.get(answer.json()["receipt"]["record_id"]).json()["record"]
                    assert f"{TEXT} {key}" == read["payload"]["content"]["primary"]
            for key, answer in answers[::4]:
                again = write(api, key)
                assert 200 == again.status_code
                assert answer.status_code != 200 or answer.json() == again.json()
        rows = verdict.check_partition(suite, scope)
        assert len(answers) - len(refused) <= len(rows.records) <= len(answers)
        verdict.check_ordinary(suite, {**scope, "agent_id": "beside"})
        suite.stop()
        verdict.check_stopped(suite, scope)
    finally:
        suite.stop()


@pytest.mark.deep
def test_a_full_log_volume_stops_nobody(tmp_path: Path, volume: Path, scope: dict[str, Any]) -> None:
    """When no line can be written any more requests are served all the same, and processes end orderly."""
    suite = make_suite(tmp_path)
    suite.log = volume / "suite.log"
    suite.environment = {"WAGGLE_LOG_LEVEL": "debug"}
    try:
        started(suite)
        filler = fill(volume)
        with suite.client() as client:
            api = Api(client, scope)
            for number in range(5):
                api.create(f"record {number}")
                assert 404 == client.get("/api/v1/nope").status_code
            suite.kill("memory")
            api.create("after a kill")
        verdict.check_ordinary(suite, scope)
        filler.unlink()
        assert 0 == suite.stop()
        assert suite.events("log_lines_lost")
    finally:
        suite.stop()

"""Backup, restore, verification and export of a suite, as an operator runs them, on real processes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

import cli.backups
import cli.company_export
import cli.main
import cli.verification
from cli.suite import VERIFIER_KEY_FILE
from services.domain.scope import partition_id, scope_from_json
from services.storage.directory import open_store
from tests.harness import builders
from tests.harness.api import Api
from tests.harness.documented_requests import DATA, Known, make_known
from tests.harness.partition_audit import read_partition
from tests.harness.suite import COMPANY, Suite, running_suite
from tests.harness.workload_questions import without_times

WRITERS = 2
BEFORE, AFTER = 4, 2
READS = tuple(route for route in DATA if not route.is_write)

Json = dict[str, Any]


def waggle(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command as an operator does and return what it printed."""
    command = [sys.executable, "-m", "cli.main", *arguments]
    environment = {**os.environ, **options.pop("environment", {})}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment, **options)


def waggle_here(*arguments: str) -> Result:
    """Run a command inside of this process, which costs a tenth: for what is refused, and for files."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (cli.backups, cli.company_export, cli.verification):
            patch.setattr(module, "configure_logging", lambda _name: None)
        mask = os.umask(0o077)
        try:
            return CliRunner().invoke(cli.main.app, arguments)
        finally:
            os.umask(mask)


class Writer:
    """One client that writes records with ascending numbers into a scope of its own, until it is told to stop.

    Attributes:
        acknowledged: Numbers of the records that were acknowledged, ascending.
    """

    def __init__(self, suite: Suite, number: int) -> None:
        self._suite = suite
        self._stop = threading.Event()
        self.scope = builders.scope_json(f"load-{number}")
        self.acknowledged = 0
        self._reached = threading.Condition()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def await_count(self, count: int) -> None:
        """Wait until so many records were acknowledged."""
        with self._reached:
            assert self._reached.wait_for(lambda: self.acknowledged >= count, timeout=60)

    def stop(self) -> None:
        """Finish the present record and end."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with self._suite.client() as client:
            api = Api(client, self.scope)
            while not self._stop.is_set():
                api.create(f"number {self.acknowledged}")
                with self._reached:
                    self.acknowledged += 1
                    self._reached.notify_all()


@dataclass
class BackedUp:
    """A suite that went on after a backup, the backup, and what was true of the suite before.

    Attributes:
        acknowledged: Of each writer's scope, as text, how many records were acknowledged before the backup began.
        answers: What every read route answered right before the load began.
        lease: The running job and its fence.
        ready_job: A job that nobody has claimed.
    """

    suite: Suite
    file: Path
    told: str
    known: Known
    bodies: dict[str, Json | None]
    answers: dict[str, Json]
    acknowledged: dict[str, int]
    lease: Json
    ready_job: Json


@pytest.fixture(scope="module")
def backed_up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BackedUp]:
    """Make a memory, hold a lease, and back up while others write."""
    directory = tmp_path_factory.mktemp("origin")
    with running_suite(directory) as suite, suite.client() as client:
        api = Api(client, builders.scope_json("known"))
        known = make_known(api)
        ready_job = make_job(api, known)
        lease = claim(api, make_job(api, known))
        bodies = {route.name: route.body_for(known) for route in READS}
        answers = ask_everything(api, known, bodies)
        writers = [Writer(suite, number) for number in range(WRITERS)]
        for writer in writers:
            writer.await_count(BEFORE)
        acknowledged = {json.dumps(writer.scope): writer.acknowledged for writer in writers}
        file = directory / "suite.backup"
        ended = waggle("backup", "--data-dir", str(suite.data_directory), "--output", str(file))
        assert 0 == ended.returncode, ended.stderr
        for writer in writers:
            writer.await_count(writer.acknowledged + AFTER)
            writer.stop()
        yield BackedUp(suite, file, ended.stdout, known, bodies, answers, acknowledged, lease, ready_job)


@pytest.fixture(scope="module")
def restored(backed_up: BackedUp, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory restored from the backup, with the verifier key put beside it."""
    directory = tmp_path_factory.mktemp("restored") / "data"
    ended = waggle("restore", "--data-dir", str(directory), str(backed_up.file))
    assert 0 == ended.returncode, ended.stderr
    assert str(directory / VERIFIER_KEY_FILE) in ended.stdout
    shutil.copy(backed_up.suite.data_directory / VERIFIER_KEY_FILE, directory)
    return directory


def make_job(api: Api, known: Known) -> Json:
    """Create a job over the known records."""
    spec = builders.job_spec_json(known.first, known.second)
    body = {"idempotency_key": builders.new_key(), "operation": {"type": "create", "spec": spec}}
    receipt: Json = api.expect("memory/consolidation/commands", body)["receipt"]
    return receipt


def claim(api: Api, job: Json) -> Json:
    """Claim a job and return what its holder presents."""
    operation = {"type": "claim", "job_id": job["job_id"], "expected_revision": 1, "worker_id": "w"}
    api.expect("memory/consolidation/commands", {"idempotency_key": builders.new_key(), "operation": operation})
    seen = api.expect("memory/consolidation/inspect", {"job_id": job["job_id"]})["inspection"]["job"]
    return {"job_id": job["job_id"], "expected_revision": 2, "fence": seen["attempts"][-1]["fence"]}


def ask_everything(api: Api, known: Known, bodies: dict[str, Json | None]) -> dict[str, Json]:
    """Every read route's answer, by name."""
    answers = {}
    for route in READS:
        path = f"/api/v1/{route.path_for(known)}"
        response = api.client.request(
            route.method, path, json=bodies[route.name], params=_query(route.query_for(known))
        )
        assert 200 == response.status_code, (route.name, response.text)
        answers[route.name] = without_times(response.json())
    return answers


def _query(members: Json | None) -> Json:
    return {name: value for name, value in (members or {}).items() if value is not None}


def test_a_backup_tells_what_it_holds_and_what_it_does_not(backed_up: BackedUp) -> None:
    """The message names the verifier key, which is no part of it; the file is its owner's alone and complete."""
    assert str(backed_up.suite.data_directory / VERIFIER_KEY_FILE) in backed_up.told
    assert 0o600 == backed_up.file.stat().st_mode & 0o777
    assert [] == list(backed_up.file.parent.glob("*.part"))
    assert 0 == waggle_here("verify", "--backup", str(backed_up.file)).exit_code


def test_judging_a_file_asks_no_service(backed_up: BackedUp, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address on the command line contradicts it; one in the variables of a pod is for its other commands."""
    command = ("verify", "--backup", str(backed_up.file))
    refused = waggle_here(*command, "--storage-address", "unix:/nowhere.sock")
    monkeypatch.setenv("WAGGLE_STORAGE_ADDRESS", "unix:/nowhere.sock")
    monkeypatch.setenv("WAGGLE_ADMIN_KEY", "of nobody")
    assert (2, 0) == (refused.exit_code, waggle_here(*command).exit_code)


def test_a_backup_under_load_is_a_consistent_prefix(backed_up: BackedUp, restored: Path) -> None:
    """Of each writer there is everything up to one moment, all that was acknowledged before, and no part of a write."""
    with open_store(restored) as store:
        for scope, acknowledged in backed_up.acknowledged.items():
            rows = read_partition(store, partition_id(COMPANY, scope_from_json(json.loads(scope)), None))
            assert [] == rows.audit()
            texts = [record["payload"]["content"]["primary"] for record in rows.records.values()]
            assert {f"number {number}" for number in range(len(texts))} == set(texts)
            assert len(texts) >= acknowledged


def test_a_restored_store_passes_verification(restored: Path) -> None:
    """Nothing is found, and a store that is not running needs no credential for that."""
    ended = waggle_here("verify", "--data-dir", str(restored), "--json")
    report = json.loads(ended.stdout)
    assert (0, True, [], None) == (ended.exit_code, report["consistent"], report["findings"], report["replica"])


def test_a_restored_suite_answers_as_before_and_fences_former_leases(backed_up: BackedUp, restored: Path) -> None:
    """Every read route answers the same; receipts are replayed; a lease of before is over, and its job recoverable."""
    suite = Suite(restored, restored.parent / "suite.log", backed_up.suite.admin_key)
    suite.writer_key = backed_up.suite.writer_key
    suite.start()
    try:
        with suite.client() as client:
            api = Api(client, backed_up.known.scope)
            known = replace(backed_up.known, api=api)
            assert backed_up.answers == ask_everything(api, known, backed_up.bodies)
            replayed = builders.attach_body(
                api.scope, known.first["record_id"], [1.0, 0.0, 0.0], revision=1, key="attach-first"
            )
            assert 200 == api.post("memory/embeddings", replayed).status_code
            _check_fenced(api, backed_up)
        ended = waggle("verify", "--data-dir", str(restored), "--key", suite.admin_key, "--json")
        report = json.loads(ended.stdout)
        assert (0, []) == (ended.returncode, report["findings"])
        assert (1 + WRITERS, {}) == (report["replica"]["compared"], report["replica"]["left_out"])
    finally:
        suite.stop()


def _check_fenced(api: Api, backed_up: BackedUp) -> None:
    renewal = {"idempotency_key": builders.new_key(), "operation": {"type": "renew", **backed_up.lease}}
    refused = api.post("memory/consolidation/commands", renewal)
    assert (409, "revision_conflict") == (refused.status_code, refused.json()["error"]["code"])
    operation = {
        "type": "recover_expired",
        "job_id": backed_up.lease["job_id"],
        "expected_revision": 2,
        "evidence_ref": "restored",
    }
    api.expect("memory/consolidation/commands", {"idempotency_key": builders.new_key(), "operation": operation})
    claim(api, backed_up.ready_job)


def test_a_running_suite_is_verified_with_its_replica(backed_up: BackedUp) -> None:
    """While it serves, storage is judged from one snapshot and the replica compared with it."""
    suite = backed_up.suite
    ended = waggle("verify", "--data-dir", str(suite.data_directory), environment={"WAGGLE_ADMIN_KEY": suite.admin_key})
    assert 0 == ended.returncode, ended.stdout + ended.stderr
    assert f"{1 + WRITERS} workspaces compared" in ended.stdout


@pytest.mark.parametrize(("key", "words"), [("other", "0 workspaces compared"), ("writer", "lacks the capability")])
def test_the_replica_is_shown_to_administrators_of_its_company_only(backed_up: BackedUp, key: str, words: str) -> None:
    """Another company's administrator compares nothing, and a writer is refused."""
    suite = backed_up.suite
    token = {"other": suite.other_admin_key, "writer": suite.writer_key}[key]
    ended = waggle_here("verify", "--data-dir", str(suite.data_directory), "--key", token)
    assert words in (ended.stdout + ended.stderr).replace("no workspaces", "0 workspaces")


def test_an_exported_company_is_re_created_for_another(backed_up: BackedUp, tmp_path: Path) -> None:
    """Exported while the suite serves, imported under another company: found, related and derived as before, once."""
    suite, known = backed_up.suite, backed_up.known
    directory, file = str(suite.data_directory), tmp_path / "acme.jsonl"
    told = waggle_here("export", "--company", COMPANY, "--data-dir", directory, "--output", str(file), "--json")
    assert (0, 1 + WRITERS) == (told.exit_code, json.loads(told.stdout)["lines"]["workspace"]), told.output
    key = suite.issue("newcomer", ["memory_read", "memory_write"], admin_key=suite.other_admin_key)
    arguments = ("import", "company", str(file), "--data-dir", directory, "--key", key, "--json")
    reports = [json.loads(waggle_here(*arguments).stdout) for _ in range(2)]
    assert [(0, 1 + WRITERS), (reports[0]["committed"], 1 + WRITERS)] == [
        (report["replayed"], report["workspaces"]) for report in reports
    ]
    with suite.client(key) as client:
        api = Api(client, known.scope)
        page = api.expect("memory/search/lexical", {"mode": "lexical", "query": {"text": "alpha", "limit": 10}})["page"]
        records = {hit["record"]["payload"]["content"]["primary"]: hit["record"] for hit in page["hits"]}
        assert {"alpha hive", "gamma made of alpha"} == set(records)
        origin = records["alpha hive"]["payload"]["metadata"]["waggle_imported_from"]
        assert (COMPANY, known.first["record_id"]) == (origin["company_id"], origin["record_id"])
        source = records["gamma made of alpha"]["derivation"]["sources"][0]
        assert source == builders.reference(records["alpha hive"]["record_id"])
        asked = {"query": {"root_record_ids": [records["alpha hive"]["record_id"]]}}
        assert ["supports"] == [
            edge["input"]["kind"] for edge in api.expect("memory/graph/typed", asked)["graph"]["edges"]
        ]


def test_a_company_that_is_not_there_is_not_exported(backed_up: BackedUp, tmp_path: Path) -> None:
    """The message names it, and no file is left."""
    directory, file = str(backed_up.suite.data_directory), tmp_path / "none.jsonl"
    ended = waggle_here("export", "--company", "nobody", "--data-dir", directory, "--output", str(file))
    assert (1, True) == (ended.exit_code, "there is no company nobody" in ended.stderr)
    assert [] == list(tmp_path.iterdir())


def test_a_backup_never_overwrites(backed_up: BackedUp) -> None:
    """The second backup to one name is refused, and the first is as it was."""
    before = backed_up.file.read_bytes()
    ended = waggle_here("backup", "--data-dir", str(backed_up.suite.data_directory), "--output", str(backed_up.file))
    assert (73, before) == (ended.exit_code, backed_up.file.read_bytes())


def test_a_backup_through_a_pipe_is_the_same_kind_of_file(backed_up: BackedUp, tmp_path: Path) -> None:
    """Standard output carries the backup and nothing else, and standard input is restored from."""
    file = tmp_path / "piped"
    with file.open("wb") as stream:
        command = [sys.executable, "-m", "cli.main", "backup", "--output", "-"]
        ended = subprocess.run(
            [*command, "--data-dir", str(backed_up.suite.data_directory)], stdout=stream, timeout=120, check=False
        )
    assert 0 == ended.returncode
    with file.open("rb") as stream:
        assert 0 == waggle("restore", "--data-dir", str(tmp_path / "data"), "-", stdin=stream).returncode


@pytest.mark.parametrize("change", ["truncated", "altered", "extended", "empty"])
def test_a_backup_that_is_not_whole_is_refused_by_name(backed_up: BackedUp, tmp_path: Path, change: str) -> None:
    """The message names the file; nothing is left that could be opened, and the same directory takes a good one."""
    content = backed_up.file.read_bytes()
    middle = len(content) // 2
    spoiled = {
        "truncated": content[:middle],
        "altered": content[:middle] + bytes([content[middle] ^ 4]) + content[middle + 1 :],
        "extended": content + b"\0",
        "empty": b"",
    }[change]
    file = tmp_path / "spoiled"
    file.write_bytes(spoiled)
    data = tmp_path / "data"
    ended = waggle_here("restore", "--data-dir", str(data), str(file))
    assert (65, True) == (ended.exit_code, str(file) in ended.stderr)
    assert not data.exists()
    assert 65 == waggle_here("verify", "--backup", str(file)).exit_code


def test_a_directory_that_holds_anything_is_not_restored_into(backed_up: BackedUp, tmp_path: Path) -> None:
    """Neither a store nor a file of somebody else is touched; an empty directory is taken."""
    (tmp_path / "mine").write_text("mine", encoding="utf-8")
    ended = waggle_here("restore", "--data-dir", str(tmp_path), str(backed_up.file))
    assert (73, True) == (ended.exit_code, "not empty, it holds mine" in ended.stderr)
    assert ["mine"] == [path.name for path in tmp_path.iterdir()]
    empty = tmp_path / "empty"
    empty.mkdir()
    assert 0 == waggle_here("restore", "--data-dir", str(empty), str(backed_up.file)).exit_code
    assert 73 == waggle_here("restore", "--data-dir", str(empty), str(backed_up.file)).exit_code


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    """No store, no backup, no company: each by name, with the exit code of its cause."""
    assert 66 == waggle_here("verify", "--data-dir", str(tmp_path / "none")).exit_code
    assert 66 == waggle_here("backup", "--data-dir", str(tmp_path / "none"), "--output", str(tmp_path / "b")).exit_code
    assert 74 == waggle_here("restore", "--data-dir", str(tmp_path / "d"), str(tmp_path / "none")).exit_code
    assert [] == list(tmp_path.iterdir())

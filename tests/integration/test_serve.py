"""`waggle serve` and the commands around it, as an operator meets them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.suite import PROCESSES
from tests.harness.api import Api
from tests.harness.ports import free_port
from tests.harness.suite import Suite, is_running, make_suite, wait_until

SERVICES = [process.name for process in PROCESSES]


def waggle(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command line and return what it printed."""
    return subprocess.run(
        [sys.executable, "-m", "cli.main", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def serve(directory: Path, port: int | None = None) -> subprocess.CompletedProcess[str]:
    """Run `waggle serve` where it cannot start."""
    listen = f"127.0.0.1:{port or free_port()}"
    return waggle("serve", "--data-dir", str(directory), "--listen", listen)


def test_a_missing_store_is_named_with_the_command_that_makes_one(tmp_path: Path) -> None:
    """Nothing is created on the way; the message says what to do."""
    ended = serve(tmp_path / "nowhere")
    assert 66 == ended.returncode
    assert f"waggle admin create-store {tmp_path / 'nowhere'}" in ended.stderr
    assert not (tmp_path / "nowhere").exists()


def test_a_directory_without_a_store_is_refused(tmp_path: Path) -> None:
    """Serving never makes a store by itself."""
    ended = serve(tmp_path)
    assert 66 == ended.returncode
    assert "holds no store" in ended.stderr
    assert not (tmp_path / "leveldb").exists()


def test_a_damaged_store_is_named_and_left_alone(tmp_path: Path) -> None:
    """A marker that does not belong to the engine stops the start."""
    suite = make_suite(tmp_path)
    marker = suite.data_directory / "store.json"
    marker.write_text("{}", encoding="utf-8")
    ended = serve(suite.data_directory)
    assert 65 == ended.returncode
    assert str(suite.data_directory) in ended.stderr
    assert "{}" == marker.read_text(encoding="utf-8")


def test_a_port_in_use_is_said_before_anything_starts(suite: Suite, tmp_path: Path) -> None:
    """The operator learns the address, not a trace."""
    other = make_suite(tmp_path)
    port = int(suite.url.rpartition(":")[2])
    ended = serve(other.data_directory, port)
    assert 69 == ended.returncode
    assert f"cannot listen on 127.0.0.1:{port}" in ended.stderr


def test_a_second_suite_on_the_same_store_is_refused_and_the_first_goes_on(api: Api, suite: Suite) -> None:
    """The store belongs to one process; the message names it, and nothing of the first suite is disturbed."""
    record = api.create("Written before the second suite tried")
    ended = serve(suite.data_directory)
    assert 75 == ended.returncode
    assert "held open by process" in ended.stderr
    assert 200 == api.get(record["record_id"]).status_code
    assert suite.address("memory").startswith("unix:")


def test_a_stopped_suite_has_drained_in_order_and_keeps_what_it_acknowledged(
    fresh_suite: Suite, fresh_api: Api
) -> None:
    """SIGTERM ends the gateway first and storage last, with exit code 0; the next start serves the same memory.

    Each process says so, the supervisor after all others; none speaks of a port where it listens on a socket.
    """
    record = fresh_api.create("Acknowledged before the stop")
    assert 0 == fresh_suite.stop()
    stopped = [entry["service"] for entry in fresh_suite.events("stopped")]
    assert ("gateway", "identity", "storage", "supervisor") == (stopped[0], *stopped[-3:])
    assert {*SERVICES, "supervisor"} == set(stopped)
    listening = {entry["service"]: entry for entry in fresh_suite.events("listening")}
    assert {"gateway": fresh_suite.port} == {name: at["port"] for name, at in listening.items() if "port" in at}
    assert set(SERVICES) == set(listening)
    fresh_suite.start()
    with fresh_suite.client() as client:
        assert 200 == Api(client, fresh_api.scope).get(record["record_id"]).status_code


@pytest.mark.fault
@pytest.mark.parametrize("name", SERVICES)
def test_a_killed_process_is_started_again_and_the_suite_recovers(
    fresh_suite: Suite, fresh_api: Api, name: str
) -> None:
    """Whichever process dies, acknowledged memory is there and new memory is taken and found afterwards."""
    before = fresh_api.create("Nectar before the kill")
    fresh_suite.kill(name)
    fresh_suite.wait_healthy()
    found: list[str] = []

    def is_recovered() -> bool:
        response = fresh_api.post(
            "memory/search/lexical", {"mode": "lexical", "query": {"text": "nectar", "limit": 10}}
        )
        found[:] = (
            [hit["record"]["record_id"] for hit in response.json()["page"]["hits"]] if response.is_success else []
        )
        return response.is_success

    with fresh_suite.client() as client:
        fresh_api.client = client
        wait_until(is_recovered, "searches are answered again")
        assert [before["record_id"]] == found
        after = fresh_api.create("Nectar after the kill")
        assert is_recovered()
        assert {before["record_id"], after["record_id"]} == set(found)


@pytest.mark.fault
def test_no_process_outlives_a_killed_supervisor(fresh_suite: Suite) -> None:
    """The kernel takes the children along, so that the store is free for the next start."""
    children = [fresh_suite.process_id(name) for name in SERVICES]
    assert fresh_suite.process is not None
    fresh_suite.process.send_signal(signal.SIGKILL)
    fresh_suite.process.wait()
    wait_until(lambda: not any(map(is_running, children)), "all processes have ended")
    fresh_suite.stop()
    fresh_suite.start()
    fresh_suite.wait_healthy()


def test_credentials_are_issued_listed_shown_rotated_and_revoked(suite: Suite) -> None:
    """The everyday life of a key, with --json for programs."""
    environment = {"WAGGLE_URL": suite.url, "WAGGLE_KEY": suite.admin_key}
    issued = json.loads(waggle("credentials", "issue", "ada", "--project", "p", "--json", **environment).stdout)
    key, credential_id = issued["secret"], issued["credential"]["id"]
    assert credential_id in waggle("credentials", "list", **environment).stdout
    assert "p/-/default/shared" in waggle("credentials", "show", credential_id, **environment).stdout
    rotated = json.loads(waggle("credentials", "rotate", credential_id, "--json", **environment).stdout)
    identities = []
    for secret in (key, rotated["secret"]):
        with suite.client(secret) as client:
            identities.append(client.get("/api/v1/identity").status_code)
    assert [401, 200] == identities
    assert "revoked" in waggle("credentials", "revoke", credential_id, **environment).stdout
    with suite.client(rotated["secret"]) as client:
        assert 401 == client.get("/api/v1/identity").status_code


def test_a_refusal_is_one_line_and_exit_code_1(suite: Suite) -> None:
    """No trace, the documented code, nothing on standard output."""
    ended = waggle("credentials", "list", WAGGLE_URL=suite.url, WAGGLE_KEY=suite.writer_key)
    assert (1, "") == (ended.returncode, ended.stdout)
    assert "forbidden" in ended.stderr
    assert 1 == len(ended.stderr.strip().splitlines())


def test_searches_print_memories_and_paths_in_words(suite: Suite, api: Api) -> None:
    """A graph search explains each step; --json prints the documented answer."""
    first = api.create("Scouts found nectar", event_time_millis=1_000)
    second = api.create("The hive moved south", event_time_millis=2_000)
    api.relate(first, second, "temporal_before")
    environment = {"WAGGLE_URL": suite.url, "WAGGLE_KEY": suite.writer_key}
    scope = ("--project", api.scope["project_id"], "--agent", api.scope["agent_id"])
    text = waggle("search", "graph", "nectar", *scope, **environment).stdout
    assert "“Scouts found nectar” came before “The hive moved south”" in text
    answer = json.loads(waggle("search", "lexical", "nectar", *scope, "--json", **environment).stdout)
    assert [first["record_id"]] == [hit["record"]["record_id"] for hit in answer["page"]["hits"]]
    assert "Scouts found nectar" in waggle("search", "lexical", "nectar", *scope, **environment).stdout


def test_vector_searches_take_the_vector_from_a_file(suite: Suite, api: Api, tmp_path: Path) -> None:
    """Semantic, hybrid and graph searches with a vector."""
    record = api.create("Pollen stores")
    api.attach(record, [1.0, 0.0, 0.0])
    vector = tmp_path / "vector.json"
    vector.write_text("[0.5, 0.5, 0]", encoding="utf-8")
    environment = {
        "WAGGLE_URL": suite.url,
        "WAGGLE_KEY": suite.writer_key,
        "WAGGLE_SPACE_PROVIDER": "test",
        "WAGGLE_SPACE_MODEL": "toy",
    }
    options = ("--vector", str(vector), "--project", api.scope["project_id"], "--agent", "agent", "--json")
    searches: list[tuple[str, ...]] = [
        ("semantic",),
        ("hybrid", "pollen"),
        ("graph", "pollen", "--mode", "hybrid"),
        ("graph", "--mode", "semantic"),
    ]
    for search in searches:
        ended = waggle("search", *search, *options, **environment)
        hits = json.loads(ended.stdout)["page"]["hits"]
        assert [record["record_id"]] == [hit["record"]["record_id"] for hit in hits], ended.stderr


def git(repository: Path, *arguments: str, date: str = "2024-01-01T00:00:00Z") -> str:
    """Run git with an identity and a date of its own."""
    identity = {
        "GIT_AUTHOR_NAME": "Ada",
        "GIT_AUTHOR_EMAIL": "ada@example.org",
        "GIT_COMMITTER_NAME": "Ada",
        "GIT_COMMITTER_EMAIL": "ada@example.org",
        "GIT_AUTHOR_DATE": date,
        "GIT_COMMITTER_DATE": date,
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_SYSTEM": "/dev/null",
    }
    ended = subprocess.run(
        ["git", "-C", str(repository), *arguments],
        env={**os.environ, **identity},
        capture_output=True,
        text=True,
        check=True,
    )
    return ended.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A history with a change, a rename, a revert and a mention."""
    path = tmp_path / "repository"
    path.mkdir()
    git(path, "init", "--quiet", "--initial-branch", "main")

    def commit(message: str, day: int) -> None:
        git(path, "add", "--all")
        git(path, "commit", "--quiet", "--message", message, date=f"2024-01-{day:02}T00:00:00Z")

    (path / "hive.txt").write_text("a hive with many combs, and bees in all of them\n" * 4, encoding="utf-8")
    commit("Add the hive", 1)
    (path / "hive.txt").write_text("a hive with many combs, and bees in most of them\n" * 4, encoding="utf-8")
    commit("Count the bees again", 2)
    git(path, "mv", "hive.txt", "colony.txt")
    commit("Call the hive a colony", 3)
    git(path, "revert", "--no-edit", "HEAD~1", date="2024-01-04T00:00:00Z")
    (path / "notes.txt").write_text("notes", encoding="utf-8")
    commit(f"Explain {git(path, 'rev-parse', 'HEAD~2')[:10]}", 5)
    return path


def test_a_git_history_becomes_memories_with_relations_and_stays_so(suite: Suite, api: Api, repository: Path) -> None:
    """One memory a commit, relations of all four rules; again changes nothing; a longer history adds the rest."""
    environment = {"WAGGLE_DATA_DIR": str(suite.data_directory), "WAGGLE_KEY": suite.writer_key}
    scope = ("--project", api.scope["project_id"], "--agent", "agent", "--json")

    def run() -> dict[str, Any]:
        ended = waggle("import", "git", str(repository), *scope, **environment)
        assert 0 == ended.returncode, ended.stderr
        counts: dict[str, Any] = json.loads(ended.stdout)
        return counts

    first = run()
    assert 5 == first["commits"]
    assert (first["commits"] + first["relations"], 0) == (first["committed"], first["replayed"])
    again = run()
    assert (0, first["committed"]) == (again["committed"], again["replayed"])
    (repository / "more.txt").write_text("more", encoding="utf-8")
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", "Add more", date="2024-01-06T00:00:00Z")
    assert 1 == run()["committed"]

    seed = {"mode": "lexical", "text": "colony"}
    answer = api.expect(
        "memory/search/graph",
        {"query": {"ranking_version": "typed_path_balanced_v1", "seed": seed, "limit": 20}},
    )
    used = {
        (relation["input"]["kind"], relation["input"]["provenance"]["method"])
        for relation in answer["page"]["relations"]
    }
    assert {("same_entity", "git_rename"), ("supports", "git_mention")} <= used
    titles = {hit["record"]["payload"]["content"]["primary"].splitlines()[0] for hit in answer["page"]["hits"]}
    assert {"Call the hive a colony", "Count the bees again"} <= titles


def test_a_file_of_commands_is_judged_whole_before_it_is_sent(suite: Suite, api: Api, tmp_path: Path) -> None:
    """A bad line is named by its number and nothing of the file is imported; a good file is, once."""
    environment = {"WAGGLE_DATA_DIR": str(suite.data_directory), "WAGGLE_KEY": suite.writer_key}
    scope = ("--project", api.scope["project_id"], "--agent", "agent", "--json")
    record = {
        "episode_type": "Observation",
        "content": {"primary": "Honey from a file"},
        "event_time_millis": 5,
    }
    good = json.dumps({"idempotency_key": "a", "operation": {"type": "create", "record": record}})
    vector = json.dumps(
        {
            "idempotency_key": "v",
            "created_by": "a",
            "space": {"provider": "test", "model": "toy", "revision": "1", "dimensions": 2},
            "vector": [1, 0],
        }
    )
    path = tmp_path / "commands.jsonl"
    path.write_text(f"{good}\n{{}}\n", encoding="utf-8")
    bad = waggle("import", "file", str(path), *scope, **environment)
    assert 1 == bad.returncode
    assert f"{path}:2" in bad.stderr
    path.write_text(f"{good}\n\n{vector}\n", encoding="utf-8")
    counts = [json.loads(waggle("import", "file", str(path), *scope, **environment).stdout) for _ in range(2)]
    assert [{"committed": 2, "replayed": 0}, {"committed": 0, "replayed": 2}] == counts


def test_a_refused_command_is_named_by_its_line(suite: Suite, api: Api, tmp_path: Path) -> None:
    """What the service refuses is reported with the line, its member and the code; running again is safe."""
    environment = {"WAGGLE_DATA_DIR": str(suite.data_directory), "WAGGLE_KEY": suite.writer_key}
    scope = ("--project", api.scope["project_id"], "--agent", "agent")
    missing = "0f8fad5b-d9cb-469f-a165-70867728950e"
    record = {"episode_type": "Observation", "content": {"primary": "Honey"}, "event_time_millis": 5}
    sources = [{"created_by": "a"}, {"record_id": missing, "revision": 1}]
    derivation = {"sources": sources, "method": "m", "method_revision": "1", "evidence_ref": "e"}
    lines = [
        {"idempotency_key": "a", "operation": {"type": "create", "record": record}},
        {"idempotency_key": "d", "operation": {"type": "derive", "record": record, "derivation": derivation}},
    ]
    path = tmp_path / "commands.jsonl"
    path.write_text("\n\n".join(map(json.dumps, lines)), encoding="utf-8")
    ended = waggle("import", "file", str(path), *scope, **environment)
    assert (1, "") == (ended.returncode, ended.stdout)
    assert f"{path}:3: operation.derivation.sources[1].record_id: " in ended.stderr
    assert "(record_not_found); 0 committed, 0 replayed" in ended.stderr
    path.write_text(json.dumps(lines[0]), encoding="utf-8")
    said = [waggle("import", "file", str(path), *scope, **environment).stdout for _ in range(2)]
    assert ["1 committed, 0 replayed\n", "0 committed, 1 replayed\n"] == said


def test_a_store_is_created_once(tmp_path: Path) -> None:
    """Creating is an explicit act and never overwrites."""
    directory = str(tmp_path / "data")
    assert 0 == waggle("admin", "create-store", directory).returncode
    again = waggle("admin", "create-store", directory)
    assert 73 == again.returncode
    assert directory in again.stderr


def test_bootstrap_prints_one_json_object_and_works_once(tmp_path: Path) -> None:
    """The first administrator comes with the only copy of its key; repeating is refused."""
    directory = str(tmp_path / "data")
    waggle("admin", "create-store", directory)
    answer = json.loads(waggle("admin", "bootstrap-tenant", directory, "acme", "ops").stdout)
    assert {"contract_version", "credential", "secret"} == set(answer)
    assert ["bootstrapped"] == [event["action"] for event in answer["credential"]["history"]]
    again = waggle("admin", "bootstrap-tenant", directory, "acme", "ops")
    assert (1, "") == (again.returncode, again.stdout)
    assert "exists already" in again.stderr


@pytest.mark.parametrize(
    "arguments", [("bootstrap-tenant", "acme", "ops"), ("bootstrap-master", "ops"), ("recover-master", "1")]
)
def test_offline_commands_ask_for_a_store_first(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """Where there is no store its key is not what is missing: the message names the command that makes one."""
    command, *others = arguments
    nowhere = tmp_path / "nowhere"
    ended = waggle("admin", command, str(nowhere), *others)
    assert (66, "") == (ended.returncode, ended.stdout)
    assert f"waggle admin create-store {nowhere}" in ended.stderr
    assert "key" not in ended.stderr
    assert not nowhere.exists()


def test_offline_commands_need_the_store_for_themselves(suite: Suite) -> None:
    """A running suite holds the store."""
    ended = waggle("admin", "bootstrap-tenant", str(suite.data_directory), "other", "ops")
    assert 75 == ended.returncode
    assert "held open by process" in ended.stderr

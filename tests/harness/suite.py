"""The whole suite as real processes on a directory of its own, for tests that need real sockets and real kills."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil

from cli.suite import EDGE, PROCESSES, RUN_DIRECTORY, SUITE_FILE, VERIFIER_KEY_FILE
from services.identity.bootstrap import bootstrap_tenant
from services.identity.verifier_key import create_verifier_key
from services.runtime.process import SUPERVISOR_VARIABLE
from services.storage.directory import create_store, open_store
from tests.harness.ports import free_port
from tests.harness.raw_http import Door

START_S = 40.0
STOP_S = 40.0
POLL_S = 0.02
COMPANY = "acme"
OTHER_COMPANY = "globex"
SERVICES = tuple(process.name for process in PROCESSES)
# python -m services.runtime.process services.NAME
_MODULE_WORD = 3

EVERY_SCOPE = {
    "version": "company_scopes_v1",
    "projects": {"mode": "all"},
    "agents": {"mode": "all"},
    "missions": {"mode": "all"},
    "allow_unassigned_mission": True,
    "visibilities": ["private", "shared"],
}


@dataclass(slots=True)
class Suite:
    """A data directory and, between `start` and `stop`, the suite on it.

    Attributes:
        data_directory: The store.
        log: Where the processes log, JSON lines.
        admin_key: Administrator of the company, without memory grants.
        other_admin_key: Administrator of another company, which tests must not see from the first.
        writer_key: May read, write, review and checkpoint in every scope; subject "writer".
        url: Base URL of the gateway while running, or of the edge before it.
        tls: What a client trusts, where that speaks TLS.
        company: Whose keys those are.
        serve_options: Of `waggle serve`, besides where its store is and where it listens.
    """

    data_directory: Path
    log: Path
    admin_key: str
    other_admin_key: str = ""
    writer_key: str = ""
    url: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[str] | None = None
    tls: ssl.SSLContext | None = None
    company: str = COMPANY
    serve_options: tuple[str, ...] = ()

    def start(self, port: int | None = None) -> None:
        """Start the suite, on a free port unless one is named, and wait until it says that it is ready."""
        port = port or free_port()
        command = [
            *(sys.executable, "-m", "cli.main", "serve"),
            *("--data-dir", str(self.data_directory), "--listen", f"127.0.0.1:{port}"),
            *self.serve_options,
        ]
        with self.log.open("a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                command, env={**os.environ, **self.environment}, stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if "ready at" not in line:
            self.stop()
            raise AssertionError(f"the suite did not start: {line!r}\n{self.tail_of_log()}")
        self.url = f"http://127.0.0.1:{port}"

    def stop(self) -> int:
        """Drain the suite and return its exit code."""
        process, self.process = self.process, None
        if process is None:
            return 0
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(STOP_S)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
        return code

    @property
    def port(self) -> int:
        """Where the gateway listens, or has listened last."""
        return int(self.url.rpartition(":")[2])

    @property
    def door(self) -> Door:
        """The same, for connections that send bytes as they are."""
        return Door(self.port, self.tls)

    @property
    def verify(self) -> ssl.SSLContext | bool:
        """What httpx is told about certificates."""
        return self.tls or True

    def client(self, key: str | None = None) -> httpx.Client:
        """Return an HTTP client with a key (the writer's by default, "" for none); the caller closes it."""
        token = self.writer_key if key is None else key
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=30.0, verify=self.verify, trust_env=False)

    def issue(self, subject: str, capabilities: list[str], *, admin_key: str | None = None, **members: Any) -> str:
        """Issue a credential through the gateway and return its secret. Every scope, unless members say otherwise."""
        spec = {"subject_id": subject, "capabilities": capabilities, "grants": [], **members}
        if not spec["grants"] and "scope_policy" not in members:
            spec["scope_policy"] = EVERY_SCOPE
        with self.client(admin_key or self.admin_key) as client:
            response = client.post("/api/v1/credentials", json={"contract_version": 1, "spec": spec})
        assert response.status_code == 201, response.text
        secret: str = response.json()["secret"]
        return secret

    def address(self, name: str) -> str:
        """Return the address of a service, for gRPC."""
        note = json.loads((self.data_directory / RUN_DIRECTORY / SUITE_FILE).read_text(encoding="utf-8"))
        address: str = note["addresses"][name]
        return address

    def events(self, event: str) -> list[dict[str, Any]]:
        """Return the log lines of one event, oldest first."""
        found = []
        for line in self.log.read_text(encoding="utf-8").splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                # Something that is not ours has printed, or the last line is half written.
                continue
            if entry.get("event") == event:
                found.append(entry)
        return found

    def process_id(self, name: str) -> int:
        """Return the id of the process that runs a service now."""
        (found,) = self.process_ids()[name]
        return found

    def process_ids(self) -> dict[str, list[int]]:
        """Return the ids of the supervisor's children, by service; exactly one each when all is well."""
        found: dict[str, list[int]] = {}
        for child in [] if self.process is None else psutil.Process(self.process.pid).children():
            # One may end meanwhile, or not have become its service yet.
            with suppress(psutil.NoSuchProcess):
                module = "".join(child.cmdline()[_MODULE_WORD:][:1])
                found.setdefault(module.removeprefix("services."), []).append(child.pid)
        return {name: found[name] for name in (*SERVICES, EDGE.name) if name in found}

    def kill(self, name: str) -> None:
        """End a service with SIGKILL, and wait until the supervisor has put another process in its place."""
        former = self.process_id(name)
        os.kill(former, signal.SIGKILL)
        wait_until(lambda: self.process_ids().get(name, [former]) != [former], f"{name} is started again")

    def kill_supervisor(self) -> int:
        """End the supervisor with SIGKILL and return its process id; `start` makes another one."""
        process, self.process = self.process, None
        assert process is not None
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
        return process.pid

    def wait_healthy(self) -> None:
        """Wait until the gateway answers and says that the suite is healthy."""
        wait_until(self.is_healthy, "the suite is healthy")

    def tail_of_log(self) -> str:
        """Return the last lines of the log, for failures."""
        return "\n".join(self.log.read_text(encoding="utf-8").splitlines()[-30:]) if self.log.exists() else ""

    def is_healthy(self) -> bool:
        """Return whether the gateway answers that the suite is healthy."""
        try:
            return httpx.get(f"{self.url}/health", timeout=5.0, verify=self.verify, trust_env=False).status_code == 200
        except httpx.HTTPError:
            return False


def make_suite(directory: Path) -> Suite:
    """Make a store with a company below `directory`, without starting anything."""
    data_directory = directory / "data"
    create_store(data_directory)
    verifier_key = create_verifier_key(data_directory / VERIFIER_KEY_FILE)
    store = open_store(data_directory)
    try:
        keys = [
            bootstrap_tenant(store, verifier_key, tenant_id=company, subject_id="administrator")["secret"]
            for company in (COMPANY, OTHER_COMPANY)
        ]
    finally:
        store.close()
    return Suite(data_directory, directory / "suite.log", *keys)


@contextmanager
def running_suite(directory: Path, environment: dict[str, str] | None = None) -> Iterator[Suite]:
    """Make a store with a company, start the suite on it, issue the writer's key, and stop everything at the end."""
    suite = make_suite(directory)
    suite.environment = environment or {}
    suite.start()
    try:
        suite.writer_key = suite.issue("writer", ["memory_read", "memory_write", "memory_review", "memory_checkpoint"])
        yield suite
    finally:
        suite.stop()


def is_running(process_id: int) -> bool:
    """Tell whether a process runs; one that ended and waits to be reaped does not."""
    try:
        status = Path(f"/proc/{process_id}/stat").read_text(encoding="utf-8")
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def processes_of(supervisor_id: int) -> list[int]:
    """Return the ids of all processes that a supervisor has started, whoever their parent is now."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(SUPERVISOR_VARIABLE) == str(supervisor_id) and is_running(process.pid):
                found.append(process.pid)
    return found


def wait_until(condition: Any, what: str, *, timeout_s: float = START_S) -> None:
    """Wait for a condition that must come true; fail with its description when it does not."""
    give_up_at_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > give_up_at_s:
            raise AssertionError(f"waited {timeout_s:.0f} s in vain until {what}")
        time.sleep(POLL_S)

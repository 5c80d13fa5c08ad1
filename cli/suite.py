"""What the suite consists of on one machine: its processes, where they listen, and how they find each other."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from services.identity import verifier_key
from services.runtime.main import DRAIN_NOTICE_VARIABLE
from services.runtime.metrics import METRICS_VARIABLE

VERIFIER_KEY_FILE = "verifier.key"
SUITE_FILE = "suite.json"
RUN_DIRECTORY = "run"
LOCK_FILE = "supervisor.lock"
_LOOK_S = 0.1
# The kernel's limit for a socket path is 107 bytes and a terminating zero.
_SOCKET_PATH_BYTES_MAX = 107
_LONGEST_SOCKET_NAME = "consolidation.sock"


class AlreadyRunning(Exception):
    """Another supervisor runs a suite on the data directory. The message names its process."""


class NotRunning(Exception):
    """No suite runs on the data directory, or not one that can be found. The message says what to do."""


@dataclass(frozen=True, slots=True)
class ServiceProcess:
    """One kind of process.

    Attributes:
        name: As it stands in logs.
        module: What `python -m` runs.
        drain_rank: Processes are drained in ascending order; those with equal ranks together.
    """

    name: str
    module: str
    drain_rank: int


STORAGE = ServiceProcess("storage", "services.storage", 4)
IDENTITY = ServiceProcess("identity", "services.identity", 3)
MEMORY = ServiceProcess("memory", "services.memory", 2)
RETRIEVAL = ServiceProcess("retrieval", "services.retrieval", 2)
CONSOLIDATION = ServiceProcess("consolidation", "services.consolidation", 2)
GATEWAY = ServiceProcess("gateway", "services.gateway", 1)
EDGE = ServiceProcess("edge", "services.edge", 0)

# In the order in which they are started: what the others need comes first. The edge joins them where it is wanted.
PROCESSES = (STORAGE, IDENTITY, MEMORY, RETRIEVAL, CONSOLIDATION, GATEWAY)


@dataclass(frozen=True, slots=True)
class EdgeLayout:
    """Where the edge of a suite is.

    Attributes:
        host, port: Where it serves HTTPS and gRPC.
        certificate, key: PEM files that exist.
        transcoder_listen: HOST:PORT of the gRPC-JSON transcoder; empty for none.
        envoy: The program; empty for the one that is found.
    """

    host: str
    port: int
    certificate: Path
    key: Path
    transcoder_listen: str = ""
    envoy: str = ""

    @property
    def url(self) -> str:
        """Return the base URL of the edge."""
        return f"https://{_bracketed(self.host)}:{self.port}"


@dataclass(frozen=True, slots=True)
class SuiteLayout:
    """Where one suite lives.

    Attributes:
        data_directory: Absolute path of the store.
        socket_directory: Where the Unix sockets are; inside the data directory when their paths fit.
        host, port: Where the gateway listens for HTTP.
        edge: Where Envoy serves before it; None for none.
        metrics: Host and port where storage's metrics are read; each further process takes the next port. None for
            nowhere.
    """

    data_directory: Path
    socket_directory: Path
    host: str
    port: int
    edge: EdgeLayout | None = None
    metrics: tuple[str, int] | None = None

    @property
    def processes(self) -> tuple[ServiceProcess, ...]:
        """Return the processes of this suite, in the order in which they are started."""
        return PROCESSES if self.edge is None else (*PROCESSES, EDGE)

    @property
    def url(self) -> str:
        """Return the base URL of the gateway."""
        return f"http://{_bracketed(self.host)}:{self.port}"

    def address(self, process: ServiceProcess) -> str:
        """Return what the process listens on: a Unix socket, or host and port for the gateway and the edge."""
        if process is GATEWAY:
            return f"{_bracketed(self.host)}:{self.port}"
        if process is EDGE and self.edge is not None:
            return f"{_bracketed(self.edge.host)}:{self.edge.port}"
        return f"unix:{self.socket_directory / process.name}.sock"

    def arguments(self, process: ServiceProcess) -> list[str]:
        """Return the command line arguments of the process."""
        arguments = ["--listen", self.address(process)]
        if process is STORAGE:
            arguments += ["--data-dir", str(self.data_directory)]
        if process is EDGE and self.edge is not None:
            arguments += ["--run-directory", str(self.socket_directory), "--envoy", self.edge.envoy]
            arguments += ["--certificate", str(self.edge.certificate), "--key", str(self.edge.key)]
            arguments += ["--transcoder-listen", self.edge.transcoder_listen]
        return arguments

    def environment(self, process: ServiceProcess) -> dict[str, str]:
        """Return a process's variables: where the others and the verifier key are, and where its metrics are read.

        It ends without notice.
        """
        addresses = {
            f"WAGGLE_{process.name.upper()}_ADDRESS": self.address(process)
            for process in PROCESSES
            if process is not GATEWAY or self.edge is not None
        }
        return {
            **addresses,
            verifier_key.ENVIRONMENT_VARIABLE: str(verifier_key_file(self.data_directory)),
            # They are stopped in such an order that nobody is left who could go elsewhere.
            DRAIN_NOTICE_VARIABLE: "0",
            **self._metrics_environment(process),
        }

    def _metrics_environment(self, process: ServiceProcess) -> dict[str, str]:
        if self.metrics is None:
            return {}
        host, port = self.metrics
        return {METRICS_VARIABLE: f"{_bracketed(host)}:{port + self.processes.index(process)}"}

    def write_suite_file(self) -> None:
        """Leave a note of the addresses in the data directory, for commands that talk gRPC to this suite."""
        note = {
            "pid": os.getpid(),
            "url": self.url,
            "edge_url": None if self.edge is None else self.edge.url,
            "addresses": {process.name: self.address(process) for process in self.processes},
        }
        draft = self.data_directory / RUN_DIRECTORY / f"{SUITE_FILE}.draft"
        draft.write_text(json.dumps(note, indent=2) + "\n", encoding="utf-8")
        draft.replace(self.data_directory / RUN_DIRECTORY / SUITE_FILE)

    def remove_suite_file(self) -> None:
        """Take the note away again."""
        (self.data_directory / RUN_DIRECTORY / SUITE_FILE).unlink(missing_ok=True)


class SupervisorLock:
    """Keeps a second suite off a data directory, ahead of storage's own lock.

    Without it a second set of services would take the sockets of the first before its storage is refused.

    Args:
        run_directory: Where the lock file is; it stays there, empty of meaning once its holder has ended.

    Raises:
        AlreadyRunning: Another process holds it.
    """

    def __init__(self, run_directory: Path) -> None:
        # Inherited by nobody: a child that outlived the supervisor would keep the lock.
        self._descriptor = os.open(run_directory / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._take()
        except BlockingIOError as error:
            holder = os.read(self._descriptor, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(self._descriptor)
            raise AlreadyRunning(
                f"{run_directory.parent}: a suite runs here already, the store is held open by process {holder}. "
                "Stop that process first, with SIGTERM or Ctrl-C"
            ) from error
        os.ftruncate(self._descriptor, 0)
        os.write(self._descriptor, f"{os.getpid()}\n".encode("ascii"))

    def close(self) -> None:
        """Let the directory go."""
        os.close(self._descriptor)

    def _take(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # Perhaps a command has just looked; see `is_supervised`.
            time.sleep(_LOOK_S)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_supervised(data_directory: Path) -> bool:
    """Tell whether a suite runs on this very directory.

    Its note does not: that is left behind by a suite that was killed, and stands in every copy of the directory.
    """
    try:
        descriptor = os.open(data_directory / RUN_DIRECTORY / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def verifier_key_file(data_directory: Path) -> Path:
    """Return where the verifier key of a store is: beside it, unless the environment names another file."""
    return Path(os.environ.get(verifier_key.ENVIRONMENT_VARIABLE) or data_directory / VERIFIER_KEY_FILE)


def plan_layout(
    data_directory: Path,
    host: str,
    port: int,
    edge: EdgeLayout | None = None,
    metrics: tuple[str, int] | None = None,
) -> SuiteLayout:
    """Decide where the sockets go, and make that directory, readable by its owner only.

    Args:
        data_directory: An existing store.
        host, port: Where the gateway is to listen.
        edge: The edge before it, None for none.
        metrics: Where metrics are read, None for nowhere.
    """
    data_directory = data_directory.resolve()
    run_directory = data_directory / RUN_DIRECTORY
    run_directory.mkdir(mode=0o700, exist_ok=True)
    socket_directory = run_directory
    if len(os.fsencode(run_directory / _LONGEST_SOCKET_NAME)) > _SOCKET_PATH_BYTES_MAX:
        # Named after the data directory, so that a restart finds and reuses it.
        digest = hashlib.sha256(os.fsencode(data_directory)).hexdigest()[:16]
        socket_directory = Path(tempfile.gettempdir()) / f"waggle-{os.getuid()}-{digest}"
        socket_directory.mkdir(mode=0o700, exist_ok=True)
    # Whoever can write here can put a socket of their own in the place of a service's.
    status = socket_directory.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PermissionError(f"{socket_directory} belongs to somebody else or is open to others")
    return SuiteLayout(data_directory, socket_directory, host, port, edge, metrics)


def find_address(data_directory: Path, name: str) -> str:
    """Return the address of a service of the suite that runs on a data directory.

    Raises:
        NotRunning: No suite runs there, or it has not left its note yet.
    """
    if is_supervised(data_directory):
        note = data_directory / RUN_DIRECTORY / SUITE_FILE
        with suppress(OSError, ValueError, KeyError):
            address: str = json.loads(note.read_text(encoding="utf-8"))["addresses"][name]
            return address
    raise NotRunning(
        f"no running suite found on {data_directory}; start it with: waggle serve --data-dir {data_directory}"
    )

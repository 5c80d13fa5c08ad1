"""The storage service as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from services.storage.client import GrpcStore


class StorageProcess:
    """`python -m services.storage` on a data directory, to be killed and started again at the same address.

    Args:
        directory: The data directory.
        fault_points: Value of WAGGLE_FAULT_POINTS for the first start.
        arguments: Further arguments of the command.
    """

    def __init__(self, directory: Path, *, fault_points: str = "", arguments: tuple[str, ...] = ()) -> None:
        self._directory = directory
        self._arguments = arguments
        # A path that is short enough for a socket, whatever the test's own directory is called.
        self._sockets = tempfile.TemporaryDirectory(prefix="waggle-")
        self.address = f"unix:{self._sockets.name}/storage.sock"
        self.process = self._start(fault_points)

    def __enter__(self) -> StorageProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()
        self._sockets.cleanup()

    def client(self) -> GrpcStore:
        """A client whose reads wait for the service to come up."""
        return GrpcStore(self.address)

    def start_again(self, fault_points: str = "") -> None:
        """Start a new process after the former one has ended."""
        self.process.communicate()
        self.process = self._start(fault_points)

    def _start(self, fault_points: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "services.storage", "--data-dir", str(self._directory)),
                *("--listen", self.address, *self._arguments),
            ],
            env={**os.environ, "WAGGLE_FAULT_POINTS": fault_points, "WAGGLE_LOG_LEVEL": "warning"},
            stderr=subprocess.PIPE,
            text=True,
        )

"""Start what an image holds, from its directory and with its environment, and nothing of the source tree."""

from __future__ import annotations

import signal
import socket
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

READY: Final = "Waggle is ready"
COMMAND_S: Final = 60.0
START_S: Final = 120.0


class StartFailure(Exception):
    """Something does not start. The message says what, and what it wrote."""


@dataclass(frozen=True, slots=True)
class Image:
    """An image, as a directory.

    Attributes:
        root: Its files.
        variables: What ENV says, with the paths of the image.
        entry: Its ENTRYPOINT.
        directory: Where its processes begin.
    """

    root: Path
    variables: dict[str, str]
    entry: list[str]
    directory: Path

    def environment(self) -> dict[str, str]:
        """Return all variables of a process: paths lead below the root, where there is something."""
        return {
            **{name: self._moved(value) for name, value in self.variables.items()},
            "HOME": "/",
            "TMPDIR": str(self.root / "tmp"),
            # Empty is as good as none: nothing but the image's own packages.
            "PYTHONPATH": "",
        }

    def _moved(self, value: str) -> str:
        parts = value.split(":")
        below = [str(self.root / part.lstrip("/")) if part.startswith("/") else part for part in parts]
        return ":".join(moved if Path(moved).exists() else part for part, moved in zip(parts, below, strict=True))

    def run(self, *words: str) -> str:
        """Run a command of the image and return what it wrote.

        Raises:
            StartFailure: It failed.
        """
        try:
            done = subprocess.run(
                words,
                cwd=self.directory,
                env=self.environment(),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=COMMAND_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise StartFailure(f"{' '.join(words)}: {error}") from error
        text = done.stdout.decode("utf-8", "replace")
        if done.returncode:
            raise StartFailure(f"{' '.join(words)}: exit code {done.returncode}\n{text}")
        return text

    def serve(self, *words: str) -> None:
        """Run `waggle serve` until it is ready, then end it as a platform does.

        Raises:
            StartFailure: It does not become ready, or ends with another exit code than 0.
        """
        log = self.directory / "serve.log"
        with log.open("wb") as errors:
            process = subprocess.Popen(
                words, cwd=self.directory, env=self.environment(), stdout=subprocess.PIPE, stderr=errors
            )
            patience = threading.Timer(START_S, process.kill)
            patience.start()
            try:
                line = process.stdout.readline().decode("utf-8") if process.stdout is not None else ""
                if line.startswith(READY):
                    process.send_signal(signal.SIGTERM)
                exit_code = process.wait()
            finally:
                patience.cancel()
                process.kill()
                process.wait()
                if process.stdout is not None:
                    process.stdout.close()
        if not line.startswith(READY) or exit_code:
            raise StartFailure(f"{' '.join(words)}: exit code {exit_code}\n{line}{log.read_text('utf-8', 'replace')}")


def check_suite(image: Image, source: Path) -> None:
    """Ask each process of the manifests for its help, then make a store and run the whole suite on it.

    Args:
        image: The image `suite`.
        source: The source tree, for its manifests; nothing may be imported from it.

    Raises:
        StartFailure: What does not start.
    """
    _check_origin(image, source)
    modules = sorted(container["args"][0] for container in _containers(source, "waggle"))
    if not modules:
        raise StartFailure("the manifests name no process of the image")
    for module in modules:
        image.run(*image.entry, module, "--help")
    image.run("waggle", "--version")
    data = _new_store(image)
    image.serve("waggle", "serve", "--data-dir", data, "--listen", f"127.0.0.1:{_free_port()}")


def check_edge(image: Image, source: Path) -> None:
    """Ask Envoy for its version, then run a suite behind it, on the configuration that the image holds.

    Args:
        image: The image `edge`.
        source: The source tree; nothing may be imported from it.

    Raises:
        StartFailure: What does not start.
    """
    _check_origin(image, source)
    image.run(*image.entry, "--help")
    image.run("envoy", "--version")
    data, doors = _new_store(image), [f"127.0.0.1:{_free_port()}" for _ in range(3)]
    edge = ("--envoy", "--edge-listen", doors[1], "--transcoder-listen", doors[2])
    image.serve("waggle", "serve", "--data-dir", data, "--listen", doors[0], *edge)


def _check_origin(image: Image, source: Path) -> None:
    """See that packages come from the image, and that it has no installer left."""
    question = "import cli, services, waggle, sys; print(*(m.__file__ for m in (cli, services, waggle)), *sys.path)"
    for path in image.run("python", "-c", question).split():
        if Path(path).is_relative_to(source):
            raise StartFailure(f"{path} is of the source tree, not of the image")
    for program in ("opt/waggle/bin/pip", "opt/envoy/bin/pip"):
        if (image.root / program).exists():
            raise StartFailure(f"/{program} is still there")


def _new_store(image: Image) -> str:
    data = str(image.root / "data")
    image.run("waggle", "admin", "create-store", data)
    image.run("waggle", "admin", "bootstrap-tenant", data, "company", "administrator")
    return data


def _containers(source: Path, image: str) -> Sequence[dict[str, Any]]:
    found = []
    for path in sorted((source / "deploy" / "kubernetes" / "base").glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if document["kind"] in ("Deployment", "StatefulSet"):
                containers = document["spec"]["template"]["spec"]["containers"]
                found += [container for container in containers if container["image"] == image]
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port

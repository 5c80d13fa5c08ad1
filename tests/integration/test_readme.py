"""The first session of the README, word for word."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.suite import free_port, is_running, wait_until

ROOT = Path(__file__).resolve().parents[2]
PORT = "7474"


def session_blocks() -> list[str]:
    """Return the shell blocks of the section, in order, without the sample output."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    section = readme.partition("## A first session by hand")[2].partition("### What the answer says")[0]
    return [block for block in re.findall(r"```\n(.*?)```", section, re.DOTALL) if not block.startswith("  1. ")]


@pytest.mark.skipif(shutil.which("curl") is None, reason="the session uses curl, which is not installed")
def test_the_first_session_works_as_it_is_written(tmp_path: Path) -> None:
    """A new user who types what the README says gets the answer that it shows."""
    port = str(free_port())
    first, *rest = session_blocks()
    # The environment is there, another port is free, and the test waits for readiness where a person would look.
    first = first.replace("make setup\n", "").replace(".venv/bin/waggle", f"{Path(sys.executable).parent}/waggle")
    first = first.replace("--data-dir data &", f"--data-dir data --listen 127.0.0.1:{port} > ready.txt 2> log.txt &")
    wait = "while ! grep -q ready ready.txt; do kill -0 $!; sleep 0.05; done; echo $! > serve.pid\n"
    script = "\n".join(["set -euo pipefail", "shopt -s expand_aliases", first, wait, *rest]).replace(PORT, port)
    (tmp_path / "session.sh").write_text(script, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WAGGLE_")}
    try:
        ended = subprocess.run(
            ["bash", "session.sh"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        _stop(tmp_path / "serve.pid")
    assert 0 == ended.returncode, ended.stderr
    shown = re.search(r"```\n(  1\. .*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert shown is not None
    assert ended.stdout.endswith(shown.group(1))


def _stop(pid_file: Path) -> None:
    if pid_file.exists():
        process_id = int(pid_file.read_text(encoding="ascii"))
        os.kill(process_id, 15)
        wait_until(lambda: not is_running(process_id), "the suite has ended")

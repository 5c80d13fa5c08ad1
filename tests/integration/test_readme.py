"""What the README tells to type, word for word."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cli.import_lines import command_from_line
from tests.harness.ports import free_port
from tests.harness.suite import is_running, wait_until

ROOT = Path(__file__).resolve().parents[2]
PORT = "7474"
# What a user would bring along.
HISTORY = """
git init --quiet repository
git -C repository -c user.name=Ada -c user.email=ada@example.org commit --quiet --allow-empty --message "Begin"
"""


def blocks(start: str, end: str, language: str = "") -> list[str]:
    """Return the blocks in a language between two headings of the README, in order, without sample output."""
    section = (ROOT / "README.md").read_text(encoding="utf-8").partition(start)[2].partition(end)[0]
    found = re.findall(r"^```(\w*)\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    return [block for name, block in found if name == language and not block.startswith("  1. ")]


def import_lines() -> str:
    """The example file of the README."""
    (lines,) = [block for block in blocks("## Your own data", "## Running it") if block.startswith("{")]
    return lines


@pytest.mark.skipif(shutil.which("curl") is None, reason="the session uses curl, which is not installed")
def test_the_first_session_works_as_it_is_written(tmp_path: Path) -> None:
    """A new user who types what the README says gets the answer that it shows."""
    port = str(free_port())
    first, *rest = blocks("## A first session by hand", "## Your own data")
    (python,) = blocks("## From Python", "## Working on it", "python")
    # The environment is there, another port is free, and the test waits for readiness where a person would look.
    first = first.replace("make setup\n", "").replace("$PWD/.venv/bin", str(Path(sys.executable).parent))
    first = first.replace("--data-dir data 2>", f"--data-dir data --listen 127.0.0.1:{port} > ready.txt 2>")
    wait = "while ! grep -q ready ready.txt; do kill -0 $!; sleep 0.05; done; echo $! > serve.pid\n"
    own, *_ = blocks("## Your own data", "## Running it")
    (tmp_path / "COMMANDS.jsonl").write_text(import_lines(), encoding="utf-8")
    own = own.replace("import git PATH", "import git repository").replace("what to look for", "one")
    last = f"echo\npython <<'END'\n{python}END\n"
    script = "\n".join(["set -euo pipefail", first, wait, *rest, HISTORY, own, last]).replace(PORT, port)
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
    assert shown.group(1) in ended.stdout
    assert '"error"' not in ended.stdout
    assert "1 commits, 0 relations: 1 committed, 0 replayed\n4 committed, 0 replayed\n  1. One\n" in ended.stdout
    assert '"disposition":"approved"' in ended.stdout
    assert ended.stdout.endswith(" Scouts found nectar in the southern field\n")


def test_the_lines_of_an_import_file_are_commands() -> None:
    """The example file of the README can be imported."""
    commands = [command_from_line(line.encode()) for line in import_lines().splitlines()]
    assert ["create_record", "create_record", "assert_relation", "attach_embedding"] == [
        command.WhichOneof("operation") for command in commands
    ]


def _stop(pid_file: Path) -> None:
    if pid_file.exists():
        process_id = int(pid_file.read_text(encoding="ascii"))
        os.kill(process_id, 15)
        wait_until(lambda: not is_running(process_id), "the suite has ended")

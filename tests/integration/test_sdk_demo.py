"""The demonstration, as `make demo` runs it, ends with what a job has found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_demonstration_ends_with_a_path_of_a_job() -> None:
    """A job is published by a worker, and the repeated question has a hit that is found along its assertions."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WAGGLE_")}
    ended = subprocess.run(
        [sys.executable, "-m", "cli.demo"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert 0 == ended.returncode, ended.stderr
    assert "done: 1 published" in ended.stdout
    assert "Its receipt: published as revision 3 by demo" in ended.stdout
    assert "Found through what the job asserted: hit" in ended.stdout
    assert "[shared_reference 1: " in ended.stdout.partition("The same question again:")[2]

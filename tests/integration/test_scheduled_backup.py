"""The nightly backup of the Kubernetes manifests: its very commands, run against a suite."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.harness.deployment import KUBERNETES, documents, workloads
from tests.harness.suite import Suite

KEPT = 2
OLDEST, OLDER = "waggle-2026-01-01T02-17-00Z", "waggle-2026-01-02T02-17-00Z"


def run_job(
    suite: Suite, directory: Path, storage_address: str | None = None, tools: Path = Path(sys.executable).parent
) -> subprocess.CompletedProcess[str]:
    """Run the container's command with the variables of its manifest, its own addresses and directory aside."""
    (job,) = workloads(documents(KUBERNETES / "backup" / "backup-cron-job.yaml")).values()
    environment = {
        **{item["name"]: item["value"] for item in job.container["env"]},
        "BACKUP_DIRECTORY": str(directory),
        "BACKUPS_KEPT": str(KEPT),
        "WAGGLE_STORAGE_ADDRESS": storage_address or suite.address("storage"),
        "PATH": os.pathsep.join([str(tools), os.environ["PATH"]]),
    }
    command = [*job.container["command"], *job.container["args"]]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_the_newest_backups_are_kept_and_the_new_one_is_sound(fresh_suite: Suite, tmp_path: Path) -> None:
    """What a killed run has left goes away, and what is older than the last few."""
    backups = tmp_path / "backups"
    backups.mkdir()
    for name in (f"{OLDEST}.backup", f"{OLDER}.backup", f"{OLDER}.backup.part"):
        (backups / name).write_bytes(b"")
    done = run_job(fresh_suite, backups)
    assert (0, "") == (done.returncode, done.stderr), done
    kept = sorted(path.name for path in backups.iterdir())
    assert (KEPT, f"{OLDER}.backup") == (len(kept), kept[0])
    assert "no inconsistencies" in done.stdout


def test_a_run_that_fails_takes_no_backup_away(plain_suite: Suite, tmp_path: Path) -> None:
    """However many there are; the exit code says why."""
    names = [f"{OLDEST}.backup", f"{OLDER}.backup", f"{OLDER}.again.backup"]
    for name in names:
        (tmp_path / name).write_bytes(b"")
    done = run_job(plain_suite, tmp_path, f"unix:{tmp_path / 'nobody.sock'}")
    assert (69, sorted(names)) == (done.returncode, sorted(path.name for path in tmp_path.iterdir())), done


def test_a_backup_that_cannot_be_trusted_loses_its_name(plain_suite: Suite, tmp_path: Path) -> None:
    """It is not taken for one of those that are kept."""
    (tmp_path / "bin").mkdir()
    stand_in = tmp_path / "bin" / "waggle"
    stand_in.write_text('#!/bin/sh\n[ "$1" = backup ] && echo damaged > "$3" || exit 65\n')
    stand_in.chmod(0o700)
    backups = tmp_path / "backups"
    backups.mkdir()
    done = run_job(plain_suite, backups, tools=stand_in.parent)
    assert (65, [".unsound"]) == (done.returncode, [path.suffix for path in backups.iterdir()]), done

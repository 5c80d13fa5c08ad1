"""A backup or a restore that is killed leaves nothing that could be taken for one that was finished."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from services.storage.backup import restore_store
from services.storage.backup_file import BackupReader
from services.storage.directory import open_store
from services.storage.directory_errors import DirectoryIncompatible, DirectoryOccupied
from tests.harness.full_store import build_full_store

pytestmark = pytest.mark.fault


def waggle(fault_points: str, *arguments: str) -> int:
    """Run a command with armed fault points and return how it ended."""
    environment = {**os.environ, "WAGGLE_FAULT_POINTS": fault_points}
    command = [sys.executable, "-m", "cli.main", *arguments]
    return subprocess.run(command, env=environment, timeout=120, check=False, capture_output=True).returncode


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with every kind of object."""
    directory: Path = tmp_path_factory.mktemp("full") / "data"
    build_full_store(directory)
    return directory


@pytest.fixture(scope="module")
def backup(data: Path) -> Path:
    """A backup of it, made by the second of two attempts: the first was killed half-way."""
    file = data.parent / "store.backup"
    arguments = ("backup", "--data-dir", str(data), "--output", str(file))
    assert -signal.SIGKILL == waggle("backup.page=kill@3", *arguments)
    assert (False, True) == (file.exists(), Path(f"{file}.part").exists())
    assert 0 == waggle("", *arguments)
    assert (True, False) == (file.exists(), Path(f"{file}.part").exists())
    return file


def restore(backup: Path, directory: Path) -> None:
    """Restore in this process."""
    with backup.open("rb") as file:
        restore_store(directory, BackupReader(file), on_progress=lambda _done: None)


@pytest.mark.parametrize("moment", ["restore.page", "restore.filled"])
def test_a_killed_restore_leaves_no_store(backup: Path, tmp_path: Path, moment: str) -> None:
    """It neither opens nor is built over; the refusal says what to remove, and then the restore succeeds."""
    directory = tmp_path / "data"
    ended = waggle(f"{moment}=kill", "restore", "--data-dir", str(directory), str(backup))
    assert -signal.SIGKILL == ended
    with pytest.raises(DirectoryIncompatible, match=r"leveldb\.creating, and create or restore it again"):
        open_store(directory)
    with pytest.raises(DirectoryOccupied):
        restore(backup, directory)
    shutil.rmtree(directory / "leveldb.creating")
    restore(backup, directory)
    with open_store(directory) as store:
        assert [] == store.verify().problems

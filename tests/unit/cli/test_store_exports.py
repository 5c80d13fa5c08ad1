"""Whom a command asks that reads a whole store."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from cli import store_exports
from cli.store_exports import EXIT_UNAVAILABLE, opened_exporter, running_address
from cli.suite import RUN_DIRECTORY, SupervisorLock, plan_layout


def test_a_directory_that_no_suite_runs_on_is_read_itself(tmp_path: Path) -> None:
    """Also when the note of a suite is there: it was killed, or the directory is a copy."""
    plan_layout(tmp_path, "127.0.0.1", 7474).write_suite_file()
    assert "" == running_address(tmp_path)


def test_a_store_is_not_opened_while_its_storage_is_just_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The supervisor starts it again, and it would find its store taken."""
    monkeypatch.setattr(store_exports, "STORAGE_WAIT_S", 0.0)
    plan_layout(tmp_path, "127.0.0.1", 7474).write_suite_file()
    lock = SupervisorLock(tmp_path / RUN_DIRECTORY)
    try:
        with pytest.raises(typer.Exit) as ended, opened_exporter(tmp_path, ""):
            raise AssertionError("the store was opened")
    finally:
        lock.close()
    assert EXIT_UNAVAILABLE == ended.value.exit_code

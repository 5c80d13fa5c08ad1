"""The journal: private, locked, durable, bounded, and empty of what must not be in it."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qilbeedb import (
    ConsolidationStopped,
    ConsumerProtocolError,
    ReconciliationRequired,
    SQLiteConsolidationJournal,
)

HOLD = """
import sys
from qilbeedb import SQLiteConsolidationJournal
with SQLiteConsolidationJournal(sys.argv[1]).transaction():
    print("held", flush=True)
    sys.stdin.read()
"""


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_is_private(tmp_path: Path) -> None:
    """Directory and files are for their owner alone, whatever the umask lets through."""
    previous = os.umask(0)
    try:
        journal = SQLiteConsolidationJournal(tmp_path / "a" / "b")
        with journal.transaction() as transaction:
            transaction.save("binding", "job", {"stage": "x"})
    finally:
        os.umask(previous)
    assert tmp_path / "a" / "b" == journal.directory
    assert 0o700 == mode_of(journal.directory)
    assert {"worker.lock": 0o600, "consolidation.sqlite3": 0o600} == {
        path.name: mode_of(path) for path in journal.directory.iterdir()
    }


@pytest.mark.parametrize("mode", [0o750, 0o701, 0o704, 0o770])
def test_open_directories_are_refused(tmp_path: Path, mode: int) -> None:
    """No permission for group or others."""
    directory = tmp_path / "journal"
    directory.mkdir()
    directory.chmod(mode)
    with pytest.raises(ValueError, match="private"):
        SQLiteConsolidationJournal(directory)


def test_links_and_files_are_refused(tmp_path: Path) -> None:
    """The directory is one itself."""
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    for name in ("link", "dangling", "file"):
        with pytest.raises(ValueError, match="directory"):
            SQLiteConsolidationJournal(tmp_path / name)


@pytest.mark.parametrize("name", ["consolidation.sqlite3", "worker.lock"])
def test_linked_files_are_not_followed(tmp_path: Path, name: str) -> None:
    """Neither file may lead elsewhere, and nothing is made there."""
    journal = SQLiteConsolidationJournal(tmp_path / "journal")
    (journal.directory / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConsolidationStopped) as caught, journal.transaction():
        raise AssertionError("the journal was opened")
    assert "journal_symlink_rejected" == caught.value.code
    assert not (tmp_path / "elsewhere").exists()


def test_one_user_at_a_time(tmp_path: Path) -> None:
    """Another process is kept out until the holder has died, however it died; so is a second use in one process."""
    directory = tmp_path / "journal"
    journal = SQLiteConsolidationJournal(directory)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout is not None
        assert "held\n" == holder.stdout.readline()
        with pytest.raises(ConsolidationStopped) as caught, journal.transaction():
            raise AssertionError("the journal was opened")
        assert "journal_in_use" == caught.value.code
        holder.kill()
        holder.wait()
    with journal.transaction():
        with pytest.raises(ConsolidationStopped) as caught, journal.transaction():
            raise AssertionError("the journal was opened")
        assert "journal_in_use" == caught.value.code
    with journal.transaction():
        pass


def test_states_by_binding_and_job(tmp_path: Path) -> None:
    """The last state of each pair is kept, with every digit."""
    journal = SQLiteConsolidationJournal(tmp_path / "journal")
    with journal.transaction() as transaction:
        assert transaction.load("b", "j") is None
        transaction.save("b", "j", {"stage": "one"})
        transaction.save("b", "j", {"stage": "two", "revision": 2**64 - 1, "text": "\u00e9"})
        transaction.save("c", "j", {"stage": "three"})
    with SQLiteConsolidationJournal(tmp_path / "journal").transaction() as transaction:
        assert {"stage": "two", "revision": 2**64 - 1, "text": "\u00e9"} == transaction.load("b", "j")
        assert {"stage": "three"} == transaction.load("c", "j")
        assert transaction.load("b", "k") is None


def test_layout(tmp_path: Path) -> None:
    """One table of text, in a database that needs no second file once it is closed."""
    journal = SQLiteConsolidationJournal(tmp_path / "journal")
    with journal.transaction() as transaction:
        transaction.save("b", "j", {"stage": "one"})
    database = sqlite3.connect(journal.directory / "consolidation.sqlite3")
    try:
        assert [("b", "j", '{"stage":"one"}')] == database.execute(
            "SELECT binding, job, state FROM attempts"
        ).fetchall()
        assert [("binding", "TEXT", 1), ("job", "TEXT", 2), ("state", "TEXT", 0)] == [
            (name, kind, key) for _, name, kind, _, _, key in database.execute("PRAGMA table_info(attempts)")
        ]
        assert ("delete",) == database.execute("PRAGMA journal_mode").fetchone()
    finally:
        database.close()


def test_states_are_bounded(tmp_path: Path) -> None:
    """A state of 262,144 bytes is kept, one more is refused and changes nothing."""
    journal = SQLiteConsolidationJournal(tmp_path / "journal")
    room = 262_144 - len('{"stage":""}')
    with journal.transaction() as transaction:
        transaction.save("b", "j", {"stage": "x" * room})
        with pytest.raises(ConsumerProtocolError) as caught:
            transaction.save("b", "j", {"stage": "y" * (room + 1)})
        assert "consolidation_value_too_large" == caught.value.code
        assert {"stage": "x" * room} == transaction.load("b", "j")


@pytest.mark.parametrize("text", ["", "[]", '{"stage": NaN}', '{"stage": 1, "stage": 2}'])
def test_foreign_states_are_not_read(tmp_path: Path, text: Any) -> None:
    """What no worker has written needs a person."""
    journal = SQLiteConsolidationJournal(tmp_path / "journal")
    with journal.transaction() as transaction:
        transaction.save("b", "j", {})
    execute(journal.directory / "consolidation.sqlite3", "UPDATE attempts SET state = ?", text)
    with journal.transaction() as transaction, pytest.raises(ReconciliationRequired) as caught:
        transaction.load("b", "j")
    assert "invalid_journal_state" == caught.value.code


def overwritten(path: Path) -> None:
    path.write_bytes(b"no database at all " * 1_000)


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5_000])


def without_a_page(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:4_096] + bytes(4_096) + content[8_192:])


def not_utf_8(path: Path) -> None:
    execute(path, "UPDATE attempts SET state = CAST(x'7bff7d' AS TEXT)")


def of_another_layout(path: Path) -> None:
    execute(path, "ALTER TABLE attempts RENAME COLUMN state TO other")


def execute(path: Path, statement: str, *values: str) -> None:
    database = sqlite3.connect(path)
    try:
        with database:
            database.execute(statement, values)
    finally:
        database.close()


@pytest.mark.parametrize("damage", [overwritten, cut_short, without_a_page, not_utf_8, of_another_layout])
def test_a_damaged_file_needs_a_person(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    """The documented error, whatever SQLite says of it; and what is there is left as it is."""
    journal = SQLiteConsolidationJournal(tmp_path / "journal")
    with journal.transaction() as transaction:
        transaction.save("b", "j", {"stage": "x"})
    path = journal.directory / "consolidation.sqlite3"
    damage(path)
    before = path.read_bytes()
    with pytest.raises(ReconciliationRequired) as caught, journal.transaction() as transaction:
        transaction.load("b", "j")
    assert ("invalid_journal_state", before) == (caught.value.code, path.read_bytes())

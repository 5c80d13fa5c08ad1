"""A directory for each attempt, private, and put away rather than deleted."""

from __future__ import annotations

import stat
from pathlib import Path

from cli.attempt_journals import AttemptJournals

JOBS = [f"00000000-0000-4000-8000-{number:012}" for number in (1, 2)]


def test_open_until_closed(tmp_path: Path) -> None:
    """What was begun is found again by job and revision until it is settled, and stays on disk afterwards."""
    journals = AttemptJournals(tmp_path / "root")
    begun = [journals.begin(job_id, revision) for job_id, revision in ((JOBS[1], 3), (JOBS[0], 10), (JOBS[0], 9))]
    assert [] == journals.unsettled()
    for journal in begun:
        journal.directory.mkdir()
    again = AttemptJournals(tmp_path / "root")
    assert [begun[2], begun[1], begun[0]] == again.unsettled()
    (begun[1].directory / "evidence").touch()
    assert not again.is_closed(begun[1])
    kept = again.close(begun[1])
    assert again.is_closed(begun[1])
    assert (kept / "evidence").exists()
    assert [begun[2], begun[0]] == again.unsettled()


def test_is_private(tmp_path: Path) -> None:
    """All directories belong to their owner alone."""
    AttemptJournals(tmp_path / "root")
    found = [tmp_path / "root", *(tmp_path / "root").iterdir()]
    assert [0o700] * 3 == [stat.S_IMODE(path.stat().st_mode) for path in found]


def test_other_names_are_left_alone(tmp_path: Path) -> None:
    """A directory that no worker has made is no attempt."""
    journals = AttemptJournals(tmp_path)
    for name in ("notes", f"{JOBS[0]}@x", "@"):
        (tmp_path / "open" / name).mkdir()
    assert [] == journals.unsettled()

"""Reading what `git log` writes."""

from __future__ import annotations

import pytest

from cli.git_commands import record_from_commit
from cli.git_history import SECONDS_MAX, Commit, FileChange, NoHistory, parse_log

A, B = "a" * 40, "b" * 40


def header(commit_hash: str, parents: str = "", message: str = "Say why\n", at_s: int = 100) -> bytes:
    """Return the fields of one commit as git writes them."""
    return f"\x01{commit_hash}\0{parents}\0Ada\0ada@example.org\0{at_s}\0{message}\0".encode()


def test_commits_and_their_files_are_read_in_order() -> None:
    """Renames carry both paths, other changes one; the separators between commits are skipped."""
    output = (
        header(A)
        + b"\n\0A\0README.md\0A\0src/caf\xc3\xa9 one.py\0"
        + b"\0"
        + header(B, parents=A, message="Move it\n\nBody\n", at_s=200)
        + b"\nR096\0README.md\0docs/README.md\0D\0old\0"
    )
    assert [
        Commit(
            A,
            (),
            "Ada",
            "ada@example.org",
            100,
            "Say why",
            (FileChange("A", "README.md"), FileChange("A", "src/café one.py")),
        ),
        Commit(
            B,
            (A,),
            "Ada",
            "ada@example.org",
            200,
            "Move it\n\nBody",
            (FileChange("R", "docs/README.md", "README.md"), FileChange("D", "old")),
        ),
    ] == parse_log(output)


def test_commits_without_files_follow_each_other() -> None:
    """A merge or an empty commit has no files."""
    commits = parse_log(header(A) + b"\0" + header(B, parents=f"{A} {A}"))
    assert [(A, ()), (B, ())] == [(commit.hash, commit.files) for commit in commits]


def test_bytes_that_are_not_utf8_do_not_lose_the_commit() -> None:
    """Old histories hold other encodings; they read with replacement characters."""
    output = header(A).replace(b"Ada", b"J\xf6rg")
    assert "J\ufffdrg" == parse_log(output)[0].author_name


@pytest.mark.parametrize(
    ("text", "at_s"), [(b"", 0), (b"-1", 0), (b"yesterday", 0), (b"9223372036854775807", SECONDS_MAX), (b"7", 7)]
)
def test_a_time_that_is_none_does_not_lose_the_commit(text: bytes, at_s: int) -> None:
    """It is the nearest one that has 64 bits of milliseconds, or the beginning of git's calendar."""
    (commit,) = parse_log(header(A).replace(b"\x00100\x00", b"\x00" + text + b"\x00"))
    assert at_s == commit.committed_at_s
    assert 0 <= record_from_commit(commit).event_time_millis < 2**63


def test_an_empty_history_is_empty() -> None:
    """No output, no commits."""
    assert [] == parse_log(b"")


def test_output_that_breaks_off_is_refused() -> None:
    """Half a commit is not imported as if it were whole."""
    with pytest.raises(NoHistory):
        parse_log(header(A)[:60])

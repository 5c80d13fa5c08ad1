"""A git history as values: what `git log` records of each commit, and nothing that it does not."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

# A commit starts with this byte; every field ends with NUL, which git forbids inside messages and paths.
_START = b"\x01"
_FORMAT = "%x01%H%x00%P%x00%an%x00%ae%x00%ct%x00%B%x00"
_FIELD_COUNT = 6
SECONDS_MAX = (2**63 - 1) // 1000
"""Greatest time of a commit; in milliseconds it still fits 64 bits."""
_HASH = re.compile(rb"\n?\x01[0-9a-f]{40,64}")


class NoHistory(Exception):
    """There is no readable git history at the path. The message says what git said."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file that a commit changed.

    Attributes:
        status: git's letter: A added, M modified, D deleted, R renamed, C copied, T changed type.
        path: Where the file is after the commit; for D, where it was.
        old_path: Where it was before; only for R and C.
    """

    status: str
    path: str
    old_path: str | None = None


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit.

    Attributes:
        hash: Full hash.
        parents: Full hashes; more than one for a merge, whose files git does not list.
        author_name, author_email: As recorded.
        committed_at_s: When it entered the history, seconds since the Unix epoch.
        message: Whole message without white space at its ends.
        files: Changed files in git's order.
    """

    hash: str
    parents: tuple[str, ...]
    author_name: str
    author_email: str
    committed_at_s: int
    message: str
    files: tuple[FileChange, ...]


def read_history(path: Path) -> list[Commit]:
    """Read all commits that lead to HEAD, ancestors first.

    Raises:
        NoHistory: git is missing, the path holds no repository, or the history is empty.
    """
    command = [
        *("git", "-C", str(path), "-c", "core.quotePath=false", "-c", "log.showSignature=false"),
        *("log", "--topo-order", "--reverse", "--no-color", "--no-ext-diff", "--diff-merges=off", "--root"),
        *("-M", "-z", "--name-status", "--encoding=UTF-8", f"--format={_FORMAT}", "HEAD"),
    ]
    try:
        found = subprocess.run(command, capture_output=True, check=False)
    except FileNotFoundError as error:
        raise NoHistory("git is not installed") from error
    if found.returncode != 0:
        said = found.stderr.decode("utf-8", "replace").strip().removeprefix("fatal: ")
        raise NoHistory(f"{path}: {said or 'git log failed'}")
    commits = parse_log(found.stdout)
    if not commits:
        raise NoHistory(f"{path} has no commits")
    return commits


def parse_log(output: bytes) -> list[Commit]:
    """Read what `git log` wrote in the format of `read_history`.

    Raises:
        NoHistory: The output breaks off inside a commit.
    """
    tokens = output.split(b"\x00")
    commits: list[Commit] = []
    position = 0
    while position < len(tokens):
        if not _HASH.fullmatch(tokens[position]):
            # The separator between commits, or the end.
            position += 1
            continue
        if position + _FIELD_COUNT > len(tokens):
            raise NoHistory("git's output ends inside a commit")
        fields = [_text(token) for token in tokens[position : position + _FIELD_COUNT]]
        files, position = _parse_files(tokens, position + _FIELD_COUNT)
        commits.append(
            Commit(
                hash=fields[0].strip("\n\x01"),
                parents=tuple(fields[1].split()),
                author_name=fields[2],
                author_email=fields[3],
                committed_at_s=_seconds(fields[4]),
                message=fields[5].strip(),
                files=tuple(files),
            )
        )
    return commits


def _parse_files(tokens: list[bytes], position: int) -> tuple[list[FileChange], int]:
    files: list[FileChange] = []
    while position < len(tokens) and not _HASH.fullmatch(tokens[position]):
        status = tokens[position].strip(b"\n").decode("ascii", "replace")
        if not status:
            position += 1
        elif status[0] in "RC":
            files.append(FileChange(status[0], _text(tokens[position + 2]), _text(tokens[position + 1])))
            position += 3
        else:
            files.append(FileChange(status[0], _text(tokens[position + 1])))
            position += 2
    return files, position


def _seconds(text: str) -> int:
    # Converted histories have commits without a usable date. Git shows the beginning of its calendar then; so do we.
    try:
        return min(max(int(text), 0), SECONDS_MAX)
    except ValueError:
        return 0


def _text(token: bytes) -> str:
    # Old histories hold other encodings; a replacement character is better than no history.
    return token.decode("utf-8", "replace")

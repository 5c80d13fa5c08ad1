"""Relations between commits, derived from what git recorded and from nothing else. Pure.

* `git_same_file`: `temporal_before` from a commit to the next one that touches the same file.
  Evidence: the later commit and the file.
* `git_rename`: `same_entity` from the last commit that touched the old path to the one that renamed it.
  Evidence: the renaming commit and both paths.
* `git_revert`: `contradicts` from the reverting commit to the reverted one. Evidence: the reverting commit, whose
  message says so.
* `git_mention`: `supports` from a commit to another one that its message names by hash. Evidence: the naming commit.

A pair of commits is related at most once by each rule. `temporal_before` needs a strictly earlier time; commits of one
second are left unrelated by that rule.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from cli.git_history import Commit

RULES_REVISION: Final = "1"
EVIDENCE_BYTES_MAX = 2048

SAME_FILE: Final = "git_same_file"
RENAME: Final = "git_rename"
REVERT: Final = "git_revert"
MENTION: Final = "git_mention"

_REVERTED = re.compile(r"\bThis reverts commit ([0-9a-f]{7,64})\b", re.IGNORECASE)
_HASH_WORD = re.compile(r"\b[0-9a-f]{7,64}\b")
# Shorter runs of digits alone are numbers far more often than hashes.
_DIGITS_ONLY_MIN = 12
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class DerivedRelation:
    """One relation between two commits.

    Attributes:
        rule: Name of the rule, one of the list above.
        kind: Documented relation kind.
        source, target: Full hashes.
        evidence_ref: Names the commit, and the file where there is one.
    """

    rule: str
    kind: str
    source: str
    target: str
    evidence_ref: str


def derive_relations(commits: Sequence[Commit]) -> list[DerivedRelation]:
    """Apply all rules to a history.

    Args:
        commits: Ancestors first.

    Returns:
        Relations in the order of the commit that gave rise to them.
    """
    index = _HashIndex(commits)
    times = {commit.hash: commit.committed_at_s for commit in commits}
    last_touched: dict[str, str] = {}
    relations: list[DerivedRelation] = []
    for commit in commits:
        relations.extend(_file_relations(commit, last_touched, times))
        reverted = set(_reverted(commit, index))
        relations.extend(
            DerivedRelation(REVERT, "contradicts", commit.hash, target, _evidence(commit))
            for target in sorted(reverted)
        )
        relations.extend(
            DerivedRelation(MENTION, "supports", commit.hash, target, _evidence(commit))
            for target in _mentioned(commit, index)
            if target not in reverted
        )
    return relations


def _file_relations(commit: Commit, last_touched: dict[str, str], times: dict[str, int]) -> Iterator[DerivedRelation]:
    followed: set[str] = set()
    renamed: set[str] = set()
    for change in sorted(commit.files, key=lambda change: change.path):
        earlier = last_touched.get(change.path)
        if change.status == "R" and change.old_path is not None:
            origin = last_touched.pop(change.old_path, None)
            if origin is not None and origin != commit.hash and origin not in renamed:
                renamed.add(origin)
                evidence = _evidence(commit, f"{change.old_path} -> {change.path}")
                yield DerivedRelation(RENAME, "same_entity", origin, commit.hash, evidence)
        elif earlier is not None and earlier not in followed and times[earlier] < commit.committed_at_s:
            followed.add(earlier)
            yield DerivedRelation(SAME_FILE, "temporal_before", earlier, commit.hash, _evidence(commit, change.path))
        if change.status == "D":
            last_touched.pop(change.path, None)
        else:
            last_touched[change.path] = commit.hash


def _reverted(commit: Commit, index: _HashIndex) -> Iterator[str]:
    for match in _REVERTED.finditer(commit.message):
        target = index.resolve(match.group(1).lower())
        if target is not None and target != commit.hash:
            yield target


def _mentioned(commit: Commit, index: _HashIndex) -> list[str]:
    found: dict[str, None] = {}
    for match in _HASH_WORD.finditer(commit.message.lower()):
        word = match.group()
        if word.isdecimal() and len(word) < _DIGITS_ONLY_MIN:
            continue
        target = index.resolve(word)
        if target is not None and target != commit.hash:
            found.setdefault(target)
    return list(found)


def _evidence(commit: Commit, detail: str = "") -> str:
    text = f"git:{commit.hash}" + (f":{detail}" if detail else "")
    # Paths may hold control characters, evidence may not.
    text = _CONTROL.sub(lambda match: f"%{ord(match.group()):02X}", text)
    return text.encode("utf-8")[:EVIDENCE_BYTES_MAX].decode("utf-8", "ignore")


class _HashIndex:
    """Finds the one commit that a full or shortened hash means."""

    def __init__(self, commits: Sequence[Commit]) -> None:
        self._sorted = sorted(commit.hash for commit in commits)

    def resolve(self, prefix: str) -> str | None:
        """Return the full hash, None when no commit or more than one starts so."""
        start = bisect_left(self._sorted, prefix)
        matches = [name for name in self._sorted[start : start + 2] if name.startswith(prefix)]
        return matches[0] if len(matches) == 1 else None

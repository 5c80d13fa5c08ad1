"""A git history as import commands: one memory a commit, one relation a derived relation. Pure and deterministic.

Keys are made from hashes and the revision of the rules, so that importing the same history again, or a longer one,
repeats commands instead of adding to them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence

from cli.git_history import Commit, FileChange
from cli.git_rules import RULES_REVISION, DerivedRelation
from waggle.common.v1 import records_pb2, relations_pb2
from waggle.memory.v1 import commands_pb2, import_service_pb2

MESSAGE_BYTES_MAX = 24 * 1024
FILES_BYTES_MAX = 16 * 1024

_KINDS = {
    "temporal_before": relations_pb2.RELATION_KIND_TEMPORAL_BEFORE,
    "same_entity": relations_pb2.RELATION_KIND_SAME_ENTITY,
    "contradicts": relations_pb2.RELATION_KIND_CONTRADICTS,
    "supports": relations_pb2.RELATION_KIND_SUPPORTS,
}
_STATUS_WORDS = {"A": "added", "M": "modified", "D": "deleted", "R": "renamed", "C": "copied", "T": "changed type of"}


def commit_key(commit_hash: str) -> str:
    """Return the idempotency key of the memory of a commit."""
    return f"git/{RULES_REVISION}/commit/{commit_hash}"


def commands_from_history(
    commits: Sequence[Commit], relations: Sequence[DerivedRelation]
) -> Iterator[import_service_pb2.ImportCommand]:
    """Yield the commands: all memories first, then the relations between them."""
    for commit in commits:
        yield import_service_pb2.ImportCommand(
            idempotency_key=commit_key(commit.hash),
            create_record=commands_pb2.CreateRecord(record=record_from_commit(commit)),
        )
    for relation in relations:
        yield command_from_relation(relation)


def name_history_command(index: int, commits: Sequence[Commit], relations: Sequence[DerivedRelation]) -> str:
    """Say what the command at a position of `commands_from_history` is about: a commit, or a relation of two."""
    if index < len(commits):
        commit = commits[index]
        subject = (commit.message.splitlines() or ["(no message)"])[0]
        return f"commit {commit.hash[:12]} “{subject}”"
    relation = relations[index - len(commits)]
    return f"relation {relation.rule} from commit {relation.source[:12]} to {relation.target[:12]}"


def record_from_commit(commit: Commit) -> records_pb2.RecordInput:
    """Return the memory of a commit: its message, who made it, and the files that it touched."""
    data = {
        "commit": commit.hash,
        "parents": list(commit.parents),
        "author": {"name": commit.author_name, "email": commit.author_email},
        "file_count": len(commit.files),
    }
    return records_pb2.RecordInput(
        episode_type=records_pb2.EpisodeType(custom="commit"),
        content=records_pb2.EpisodeContent(
            primary=_bounded(commit.message or "(no message)", MESSAGE_BYTES_MAX),
            secondary=f"Commit {commit.hash[:12]} by {commit.author_name}",
            context=_files_in_words(commit.files) if commit.files else None,
            data=json.dumps(data, ensure_ascii=False, separators=(",", ":"), sort_keys=True),
        ),
        event_time_millis=commit.committed_at_s * 1000,
        tags=["git", "commit"],
    )


def command_from_relation(relation: DerivedRelation) -> import_service_pb2.ImportCommand:
    """Return the command that asserts a derived relation between the memories of its commits."""
    # The evidence is part of the key: in a longer history another file may connect the same two commits, and that is
    # another assertion, not a changed one.
    digest = hashlib.sha256(relation.evidence_ref.encode("utf-8")).hexdigest()[:16]
    return import_service_pb2.ImportCommand(
        idempotency_key=f"git/{RULES_REVISION}/{relation.rule}/{relation.source}/{relation.target}/{digest}",
        assert_relation=import_service_pb2.ImportAssertion(
            source=import_service_pb2.ImportRef(created_by=commit_key(relation.source)),
            target=import_service_pb2.ImportRef(created_by=commit_key(relation.target)),
            kind=_KINDS[relation.kind],
            provenance=relations_pb2.RelationProvenance(
                origin=relations_pb2.RELATION_ORIGIN_TOOL_OBSERVATION,
                method=relation.rule,
                method_revision=RULES_REVISION,
                evidence_ref=relation.evidence_ref,
            ),
        ),
    )


def _files_in_words(files: Sequence[FileChange]) -> str:
    lines: list[str] = []
    size = 0
    for position, change in enumerate(files):
        origin = f"{change.old_path} -> " if change.old_path else ""
        line = f"{_STATUS_WORDS.get(change.status, 'changed')} {origin}{change.path}"
        size += len(line.encode("utf-8")) + 1
        if size > FILES_BYTES_MAX:
            lines.append(f"and {len(files) - position} more files")
            break
        lines.append(line)
    return "\n".join(lines)


def _bounded(text: str, bytes_max: int) -> str:
    encoded = text.encode("utf-8")
    if len(encoded) <= bytes_max:
        return text
    return encoded[:bytes_max].decode("utf-8", "ignore") + "\n[cut]"

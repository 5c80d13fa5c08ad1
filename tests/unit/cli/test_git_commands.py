"""A history as import commands."""

from __future__ import annotations

from cli.git_commands import (
    FILES_BYTES_MAX,
    MESSAGE_BYTES_MAX,
    commands_from_history,
    name_history_command,
    record_from_commit,
)
from cli.git_history import Commit, FileChange
from cli.git_rules import derive_relations
from services.runtime.validation import validate
from waggle.common.v1 import relations_pb2

ONE, TWO = "1a" * 20, "2b" * 20
FILES = (FileChange("M", "src/hive.py"), FileChange("R", "docs/new.md", "docs/old.md"))
HISTORY = [
    Commit(ONE, (), "Ada", "ada@example.org", 100, "Add the hive", (FileChange("A", "src/hive.py"),)),
    Commit(TWO, (ONE,), "Bo", "bo@example.org", 200, "Move the hive\n\nIt was windy.", FILES),
]


def test_every_command_keeps_the_bounds_of_the_contract() -> None:
    """Whatever a history gives is accepted by request validation."""
    for command in commands_from_history(HISTORY, derive_relations(HISTORY)):
        validate(command)


def test_memories_come_first_and_relations_point_to_them_by_key() -> None:
    """A relation refers to the memories of the same import, whether they are new or were there."""
    first, second, relation = commands_from_history(HISTORY, derive_relations(HISTORY))
    assert (first.idempotency_key, second.idempotency_key) == (
        relation.assert_relation.source.created_by,
        relation.assert_relation.target.created_by,
    )


def test_provenance_names_the_rule_and_the_evidence() -> None:
    """A reader can follow each relation back to the commit and the file."""
    *_, relation = commands_from_history(HISTORY, derive_relations(HISTORY))
    provenance = relation.assert_relation.provenance
    assert ("git_same_file", "1", f"git:{TWO}:src/hive.py", relations_pb2.RELATION_ORIGIN_TOOL_OBSERVATION) == (
        provenance.method,
        provenance.method_revision,
        provenance.evidence_ref,
        provenance.origin,
    )


def test_a_memory_holds_message_author_and_files() -> None:
    """What a search should find is text: the message, who wrote it, and the paths."""
    content = record_from_commit(HISTORY[1]).content
    assert ("Move the hive\n\nIt was windy.", "Commit 2b2b2b2b2b2b by Bo") == (content.primary, content.secondary)
    assert "modified src/hive.py\nrenamed docs/old.md -> docs/new.md" == content.context


def test_the_same_history_gives_the_same_bytes() -> None:
    """Repeating an import repeats the commands exactly; anything else would be a conflict."""
    relations = derive_relations(HISTORY)
    once = [command.SerializeToString(deterministic=True) for command in commands_from_history(HISTORY, relations)]
    again = [command.SerializeToString(deterministic=True) for command in commands_from_history(HISTORY, relations)]
    assert once == again


def test_a_command_is_named_by_its_commit() -> None:
    """A refusal in a history of thousands tells which commit, or which two, it is about."""
    relations = derive_relations(HISTORY)
    names = [name_history_command(index, HISTORY, relations) for index in range(3)]
    assert names == [
        "commit 1a1a1a1a1a1a “Add the hive”",
        "commit 2b2b2b2b2b2b “Move the hive”",
        "relation git_same_file from commit 1a1a1a1a1a1a to 2b2b2b2b2b2b",
    ]
    silent = Commit(ONE, (), "Ada", "a@b", 1, "", ())
    assert "commit 1a1a1a1a1a1a “(no message)”" == name_history_command(0, [silent], [])


def test_huge_commits_are_cut_to_a_bounded_memory() -> None:
    """A commit with a vast message and thousands of files still gives one modest record that says what was cut."""
    files = tuple(FileChange("A", f"vendor/{number:06}.c") for number in range(5000))
    record = record_from_commit(Commit(ONE, (), "Ada", "a@b", 1, "ä" * MESSAGE_BYTES_MAX, files))
    assert record.content.primary.endswith("[cut]")
    assert record.content.context.splitlines()[-1].endswith("more files")
    assert len(record.content.context.encode()) <= FILES_BYTES_MAX + 100

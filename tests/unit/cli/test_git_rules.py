"""Relations between commits rest on what git recorded, and on nothing else."""

from __future__ import annotations

import hashlib

from cli.git_history import Commit, FileChange
from cli.git_rules import DerivedRelation, derive_relations


def name(word: str) -> str:
    """Return a stable full hash."""
    return hashlib.sha1(word.encode(), usedforsecurity=False).hexdigest()


ONE, TWO, THREE = name("one"), name("two"), name("three")


def commit(
    commit_hash: str, at_s: int, *paths: str, message: str = "Change", files: tuple[FileChange, ...] = ()
) -> Commit:
    """Return a commit that modified paths, or changed files as given."""
    changes = files or tuple(FileChange("M", path) for path in paths)
    return Commit(commit_hash, (), "Ada", "ada@example.org", at_s, message, changes)


def links(relations: list[DerivedRelation]) -> list[tuple[str, str, str]]:
    """Return kind, source and target of each relation."""
    return [(relation.kind, relation.source, relation.target) for relation in relations]


def test_consecutive_commits_to_one_file_are_ordered_in_time() -> None:
    """Each commit follows the last one that touched the file, not all earlier ones."""
    history = [commit(ONE, 1, "a"), commit(TWO, 2, "a"), commit(THREE, 3, "a")]
    assert [("temporal_before", ONE, TWO), ("temporal_before", TWO, THREE)] == links(derive_relations(history))


def test_two_files_in_common_give_one_relation() -> None:
    """A pair is related once, with its first file as evidence."""
    relations = derive_relations([commit(ONE, 1, "b", "a"), commit(TWO, 2, "a", "b")])
    assert [f"git:{TWO}:a"] == [relation.evidence_ref for relation in relations]


def test_commits_of_one_second_are_not_ordered() -> None:
    """temporal_before needs a strictly earlier time; git records whole seconds."""
    assert [] == derive_relations([commit(ONE, 1, "a"), commit(TWO, 1, "a")])


def test_a_clock_that_ran_backwards_orders_nothing() -> None:
    """A descendant with an earlier time is not said to come after."""
    assert [] == derive_relations([commit(ONE, 9, "a"), commit(TWO, 1, "a")])


def test_a_rename_is_the_same_entity_and_carries_the_history_over() -> None:
    """The renaming commit is tied to the last one under the old path; later ones follow under the new path."""
    rename = commit(TWO, 2, files=(FileChange("R", "new", "old"),))
    relations = derive_relations([commit(ONE, 1, "old"), rename, commit(THREE, 3, "new")])
    assert [("same_entity", ONE, TWO), ("temporal_before", TWO, THREE)] == links(relations)
    assert f"git:{TWO}:old -> new" == relations[0].evidence_ref


def test_a_deleted_file_that_comes_back_is_another_file() -> None:
    """Nothing is said about a path across its deletion."""
    deletion = commit(TWO, 2, files=(FileChange("D", "a"),))
    relations = derive_relations([commit(ONE, 1, "a"), deletion, commit(THREE, 3, "a")])
    assert [("temporal_before", ONE, TWO)] == links(relations)


def test_a_revert_contradicts_and_does_not_support() -> None:
    """The hash in git's own sentence is a revert only, even though the message names the commit."""
    revert = commit(TWO, 2, "b", message=f'Revert "Change"\n\nThis reverts commit {ONE}.')
    assert [("contradicts", TWO, ONE)] == links(derive_relations([commit(ONE, 1, "a"), revert]))


def test_a_commit_that_names_another_supports_it() -> None:
    """A shortened hash is enough when only one commit starts so."""
    mention = commit(TWO, 2, "b", message=f"Finish what {ONE[:9]} began")
    assert [("supports", TWO, ONE)] == links(derive_relations([commit(ONE, 1, "a"), mention]))


def test_words_that_are_no_commit_say_nothing() -> None:
    """Unknown hashes, numbers, the commit's own hash and ambiguous prefixes are not evidence."""
    first, second = "abcdef0" + "1" * 33, "abcdef0" + "2" * 33
    message = f"See deadbeef, 1234567, {TWO} and abcdef0"
    history = [commit(first, 1, "a"), commit(second, 2, "b"), commit(TWO, 3, "c", message=message)]
    assert [] == derive_relations(history)


def test_evidence_never_holds_control_characters() -> None:
    """A path with a line break is escaped, since the contract refuses control characters there."""
    relations = derive_relations([commit(ONE, 1, "a\nb"), commit(TWO, 2, "a\nb")])
    assert [f"git:{TWO}:a%0Ab"] == [relation.evidence_ref for relation in relations]

"""What the demonstration imports: this repository's history, or the language reference of the Python interpreter."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cli.git_commands import commands_from_history, commit_key, record_from_commit
from cli.git_history import NoHistory, read_history
from cli.git_rules import derive_relations
from cli.language_reference import (
    commands_from_topics,
    derive_references,
    read_generation_time,
    read_topics,
    topic_key,
)
from cli.local_vectors import LatentSpace
from waggle.memory.v1 import import_service_pb2

# With fewer commits there is little to find, and hardly a path.
COMMITS_MIN = 20
COMMITS_MAX = 3000

_GIT_QUESTIONS = (
    "graph search path ranking",
    "one owner of the data directory",
    "import a history with provenance",
    "strict JSON decoding of requests",
    "crash recovery and damaged store",
    "credential scope authorization",
    "fix",
    "add",
    "test",
)
_REFERENCE_QUESTIONS = (
    "how does a name get its value",
    "with statement context manager",
    "customizing attribute access",
    "exceptions and the try statement",
    "function parameters and default values",
)


@dataclass(frozen=True, slots=True)
class Corpus:
    """Something to import and to ask about.

    Attributes:
        what: For people, as in "imported ...".
        commands: Creates and assertions.
        keys: Idempotency keys of the creates.
        texts: What each record says, in the order of `keys`.
        relation_count: Number of assertions among the commands.
        questions: Texts to search for.
    """

    what: str
    commands: list[import_service_pb2.ImportCommand]
    keys: list[str]
    texts: list[str]
    relation_count: int
    questions: tuple[str, ...]


def choose_corpus(repository: Path) -> Corpus:
    """Return the history of a repository if it has one worth showing, else the language reference."""
    try:
        # git looks for a repository upwards; somebody else's around an unpacked archive is not this one's history.
        commits = read_history(repository)[-COMMITS_MAX:] if (repository / ".git").exists() else []
    except NoHistory:
        commits = []
    if len(commits) < COMMITS_MIN:
        return _reference_corpus()
    relations = derive_relations(commits)
    contents = [record_from_commit(commit).content for commit in commits]
    return Corpus(
        what="the git history of this repository",
        commands=list(commands_from_history(commits, relations)),
        keys=[commit_key(commit.hash) for commit in commits],
        texts=[f"{content.primary}\n{content.context}" for content in contents],
        relation_count=len(relations),
        questions=_GIT_QUESTIONS,
    )


def _reference_corpus() -> Corpus:
    topics = read_topics()
    references = derive_references(topics)
    return Corpus(
        what="the language reference that ships with this Python, topic by topic (there is no git history to import)",
        commands=list(commands_from_topics(topics, references, event_time_millis=read_generation_time())),
        keys=[topic_key(name) for name in topics],
        texts=list(topics.values()),
        relation_count=len(references),
        questions=_REFERENCE_QUESTIONS,
    )


def embedding_commands(corpus: Corpus, space: LatentSpace) -> list[import_service_pb2.ImportCommand]:
    """Return a command for each text that has a vector in the space."""
    identity = space.space
    return [
        import_service_pb2.ImportCommand(
            idempotency_key=f"vector/{identity.revision}/{key}",
            attach_embedding=import_service_pb2.ImportEmbedding(
                record=import_service_pb2.ImportRef(created_by=key),
                space=identity,
                vector=vector.astype("<f4").tobytes(),
            ),
        )
        for key, vector in zip(corpus.keys, space.vectors, strict=True)
        if vector.any()
    ]

"""What is measured on: a generated corpus, or a real one read from a directory.

A directory holds `records.jsonl.gz` (record_id, title, text), `queries.jsonl.gz` (query_id, question, gold),
`relations.jsonl.gz` (source_id, target_id, kind), `record_embeddings.npy` and `query_embeddings.npy` (rows in the order
of the JSON lines, any float type).
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float32]

_VOCABULARY = 30_000
_KINDS = ("semantic_related", "same_entity", "supports", "contradicts")


@dataclass(frozen=True)
class Passage:
    """One memory to import. `name` is unique in the corpus and becomes its idempotency key."""

    name: str
    title: str
    text: str


@dataclass(frozen=True)
class Link:
    """A relation between two passages, by their names."""

    source: str
    target: str
    kind: str


@dataclass(frozen=True)
class Question:
    """A query text with the names of the passages that answer it (empty when unknown)."""

    text: str
    gold: tuple[str, ...]


@dataclass(frozen=True)
class Corpus:
    """Everything that one benchmark run imports and asks.

    Attributes:
        vectors: (passages, dimensions) float32, rows unit length.
        question_vectors: (questions, dimensions) float32, rows unit length.
    """

    name: str
    passages: tuple[Passage, ...]
    vectors: Matrix
    links: tuple[Link, ...]
    questions: tuple[Question, ...]
    question_vectors: Matrix

    @property
    def dimensions(self) -> int:
        """Length of each vector."""
        return int(self.vectors.shape[1])


def generate_corpus(*, passages: int = 10_000, dimensions: int = 384, questions: int = 200, seed: int = 1) -> Corpus:
    """A corpus with word frequencies like a language's (Zipf), clustered vectors and about 0.8 relations a passage."""
    random = np.random.default_rng(seed)
    words = np.array([f"w{number:05d}" for number in range(_VOCABULARY)])
    odds = 1.0 / np.arange(1, _VOCABULARY + 1)
    odds /= odds.sum()
    lengths = random.integers(20, 90, size=passages)
    tokens = random.choice(words, size=int(lengths.sum()), p=odds)
    starts = np.concatenate(([0], np.cumsum(lengths)))
    clusters = _unit_rows(random.standard_normal((200, dimensions)))
    member_of = random.integers(0, len(clusters), size=passages)
    vectors = _unit_rows(clusters[member_of] + 0.6 * random.standard_normal((passages, dimensions)) / dimensions**0.5)
    items = tuple(
        Passage(f"p{number:06d}", f"Passage {number}", " ".join(tokens[starts[number] : starts[number + 1]]))
        for number in range(passages)
    )
    ends = random.integers(0, passages, size=(passages * 8 // 10, 2))
    links = tuple(
        Link(items[source].name, items[target].name, _KINDS[int(source) % len(_KINDS)])
        for source, target in ends
        if source != target
    )
    chosen = random.integers(0, passages, size=questions)
    asked = tuple(
        Question(" ".join(random.choice(items[row].text.split(), size=8)), (items[row].name,)) for row in chosen
    )
    noise = 0.4 * random.standard_normal((questions, dimensions)) / dimensions**0.5
    return Corpus("generated", items, vectors, links, asked, _unit_rows(vectors[chosen] + noise))


def load_corpus(directory: Path) -> Corpus:
    """Read a corpus from a directory laid out as this module says."""
    records = _json_lines(directory / "records.jsonl.gz")
    return Corpus(
        directory.name,
        tuple(Passage(row["record_id"], row["title"], row["text"]) for row in records),
        _unit_rows(np.load(directory / "record_embeddings.npy")),
        tuple(
            Link(row["source_id"], row["target_id"], row["kind"])
            for row in _json_lines(directory / "relations.jsonl.gz")
        ),
        tuple(Question(row["question"], tuple(row["gold"])) for row in _json_lines(directory / "queries.jsonl.gz")),
        _unit_rows(np.load(directory / "query_embeddings.npy")),
    )


def _json_lines(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def _unit_rows(matrix: npt.NDArray[Any]) -> Matrix:
    wide = matrix.astype(np.float64)
    unit: Matrix = (wide / np.linalg.norm(wide, axis=1, keepdims=True)).astype(np.float32)
    return unit

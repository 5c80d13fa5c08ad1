"""Search requests over a corpus, and how well their answers find what answers the questions."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.corpus import Corpus
from benchmarks.http_load import Answer
from benchmarks.importing import SCOPE, embedding_space

# The whole corpus is scanned: the default of 8 MiB would cut it.
_SCAN_BYTES = 67_108_864

LIMIT = 10

SearchBody = Callable[[Corpus, int], tuple[str, bytes]]


def lexical_search(corpus: Corpus, number: int) -> tuple[str, bytes]:
    """Path and body of a lexical search for one question."""
    query = {"text": corpus.questions[number].text, "limit": LIMIT, "scan_bytes_limit": _SCAN_BYTES}
    return "/api/v1/memory/search/lexical", _body(query, mode="lexical")


def semantic_search(corpus: Corpus, number: int) -> tuple[str, bytes]:
    """Path and body of a semantic search for one question."""
    query = {"space": embedding_space(corpus), "vector": _vector(corpus, number), "limit": LIMIT}
    return "/api/v1/memory/search", _body(query)


def hybrid_search(corpus: Corpus, number: int) -> tuple[str, bytes]:
    """Path and body of a hybrid search for one question."""
    query = {
        "text": corpus.questions[number].text,
        "space": embedding_space(corpus),
        "vector": _vector(corpus, number),
        "ranking_version": "weighted_rrf_v1",
        "limit": LIMIT,
        "scan_bytes_limit": _SCAN_BYTES,
    }
    return "/api/v1/memory/search/hybrid", _body(query, mode="hybrid")


def graph_search(corpus: Corpus, number: int) -> tuple[str, bytes]:
    """Path and body of a graph search with hybrid seeds for one question, at the default depth of 2."""
    query = {
        "ranking_version": "typed_path_balanced_v1",
        "seed": {
            "mode": "hybrid",
            "text": corpus.questions[number].text,
            "space": embedding_space(corpus),
            "vector": _vector(corpus, number),
            "ranking_version": "weighted_rrf_v1",
        },
        "limit": LIMIT,
        "scan_bytes_limit": _SCAN_BYTES,
    }
    return "/api/v1/memory/search/graph", _body(query)


def found_names(answer: Answer) -> list[str]:
    """Names of the passages of an answer, best first."""
    page = json.loads(answer.body)["page"]
    return [hit["record"]["payload"]["metadata"]["name"] for hit in page["hits"]]


def mean_recall(corpus: Corpus, rankings: Sequence[list[str]], numbers: Sequence[int]) -> float:
    """Mean share of a question's passages among the first ten."""
    shares = [len(set(corpus.questions[number].gold) & set(rankings[number])) for number in numbers]
    sizes = [len(corpus.questions[number].gold) for number in numbers]
    return sum(share / size for share, size in zip(shares, sizes, strict=True)) / len(numbers)


def mean_ndcg(corpus: Corpus, rankings: Sequence[list[str]], numbers: Sequence[int]) -> float:
    """Mean normalised discounted cumulative gain at ten, binary gain, discount log2(rank + 1)."""
    total = 0.0
    for number in numbers:
        gold = set(corpus.questions[number].gold)
        gained = sum(1 / math.log2(rank + 1) for rank, name in enumerate(rankings[number], 1) if name in gold)
        ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(len(gold), LIMIT) + 1))
        total += gained / ideal
    return total / len(numbers)


def _vector(corpus: Corpus, number: int) -> list[float]:
    vector: list[float] = corpus.question_vectors[number].tolist()
    return vector


def _body(query: dict[str, Any], **members: str) -> bytes:
    return json.dumps({"contract_version": 1, "scope": SCOPE, **members, "query": query}).encode()

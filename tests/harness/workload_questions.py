"""Reads whose answers follow from what a client knows, and reads that tell how a whole partition is served."""

from __future__ import annotations

from tests.harness import builders
from tests.harness.known_memory import Json, KnownMemory, KnownRecord, KnownRelation
from tests.harness.turn import Question

_VECTORS = ([1.0, 1.0, 1.0], [9.0, 1.0, 2.0], [1.0, 8.0, 3.0])
_WALKED_MAX = 16


def question_of_record(memory: KnownMemory, record: KnownRecord, scope: Json) -> Question:
    """The single read answers the record exactly, or 404 when it is not eligible."""
    is_eligible, json = memory.is_eligible(record), record.json

    def judge(status: int, answer: Json) -> None:
        if is_eligible:
            assert (200, json) == (status, answer.get("record"))
        else:
            assert (404, "record_not_found") == (status, answer["error"]["code"])

    query = {"contract_version": 1, **{name: value for name, value in scope.items() if value is not None}}
    return Question(f"memory/records/{record.id}", judge, query=query)


def question_of_relation(relation: KnownRelation) -> Question:
    """The inspection answers the relation exactly, served or not."""
    json = relation.json

    def judge(status: int, answer: Json) -> None:
        assert (200, json) == (status, answer.get("inspection", {}).get("relation"))

    return Question("memory/relations/inspect", judge, {"relation_id": relation.id})


def question_of_word(memory: KnownMemory, record: KnownRecord) -> Question:
    """The word that one record has leads to this record as acknowledged, and to nothing when it is not eligible."""
    expected = [record.json] if memory.is_eligible(record) else []

    def judge(status: int, answer: Json) -> None:
        assert 200 == status, answer
        assert expected == [hit["record"] for hit in answer["page"]["hits"]]

    return Question("memory/search/lexical", judge, _lexical(record.word))


def question_of_vector(record: KnownRecord) -> Question:
    """A record is found by its own vector, with the receipt of its binding."""
    expected = (record.json, record.binding)

    def judge(status: int, answer: Json) -> None:
        assert 200 == status, answer
        assert expected in [(hit["record"], hit["embedding"]) for hit in answer["page"]["hits"]]

    return Question("memory/search", judge, _semantic(record.vector, min_score=0.9999))


def question_of_edges(record: KnownRecord, expected: set[tuple[str, int]]) -> Question:
    """A walk finds exactly the relations of a record that are served, whichever way they point."""

    def judge(status: int, answer: Json) -> None:
        assert 200 == status, answer
        assert expected == {
            (edge["relation_id"], edge["revision"])
            for edge in answer["graph"]["edges"]
            if record.id in (edge["input"]["source"]["record_id"], edge["input"]["target"]["record_id"])
        }

    return Question("memory/graph/typed", judge, _walk([record.id], max_depth=1))


def searches_of(words: tuple[str, ...], record_ids: list[str]) -> list[tuple[str, Json]]:
    """Route and body of searches and walks that together look at most of a partition."""
    asked: list[tuple[str, Json]] = []
    for word, vector in zip((*words, "load"), (*_VECTORS, *_VECTORS, *_VECTORS), strict=False):
        both = {"text": word, "space": builders.SPACE, "vector": vector, "ranking_version": "weighted_rrf_v2"}
        seed, hybrid = {"mode": "hybrid", **both}, {**both, "limit": 100}
        graph = {"ranking_version": "typed_path_balanced_v1", "seed": seed, "limit": 50}
        asked += [
            ("memory/search/lexical", _lexical(word)),
            ("memory/search", _semantic(vector)),
            ("memory/search/hybrid", {"mode": "hybrid", "query": hybrid}),
            ("memory/search/graph", {"query": graph}),
        ]
    for first in range(0, len(record_ids), _WALKED_MAX):
        asked.append(("memory/graph/typed", _walk(record_ids[first : first + _WALKED_MAX], max_depth=2)))
    return asked


def without_times(answer: Json) -> Json:
    """An answer without the moment at which it was made and the time that it took."""
    found = {name: value for name, value in answer.items() if name not in ("evaluated_at_millis", "timing")}
    return {name: without_times(value) if isinstance(value, dict) else value for name, value in found.items()}


def _lexical(text: str) -> Json:
    return {"mode": "lexical", "query": {"text": text, "limit": 100}}


def _semantic(vector: list[float], **members: object) -> Json:
    return {"query": {"space": builders.SPACE, "vector": vector, "limit": 100, **members}}


def _walk(record_ids: list[str], *, max_depth: int) -> Json:
    return {"query": {"root_record_ids": record_ids, "direction": "both", "max_depth": max_depth}}

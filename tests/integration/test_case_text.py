"""C01: texts that hold no term, through the gateway and over gRPC."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness import builders
from tests.harness.api import Api
from tests.harness.both_ways import BothWays, Outcome
from tests.harness.untouched import untouched

pytestmark = [pytest.mark.usefixtures("left_sound"), pytest.mark.both_entrances(edge_in_depth=True)]

SILENT = ["!!!", "\u200b\ufe0f", "\N{WOMAN}\u200d\N{WOMAN}\u200d\N{GIRL}"]
SPOKEN = ["a bee", "the hive moved", "bee keeper", "southern field", "a queen"]
NO_TERM = ["!!!", SILENT[2], "   ", "\u200b", "\t\n", "\u0301", "€", "_"]
EAST, NORTH = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]


def search(both: BothWays, api: Api, mode: str, text: str, *, seed: str = "lexical", vector: Any = None) -> Outcome:
    """A search in one of the modes that read a text, with a good vector where one is asked for."""
    space = {"space": builders.SPACE, "vector": EAST if vector is None else vector}
    path, members = {
        "lexical": ("lexical", {"mode": "lexical", "query": {"text": text, "limit": 100}}),
        "hybrid": (
            "hybrid",
            {"mode": "hybrid", "query": {"text": text, **space, "limit": 100, "ranking_version": "weighted_rrf_v2"}},
        ),
        "graph": ("graph", {"query": {"ranking_version": "typed_path_balanced_v1", "limit": 10}}),
    }[mode]
    if mode == "graph":
        hybrid = {"mode": "hybrid", "text": text, **space, "ranking_version": "weighted_rrf_v1"}
        members["query"]["seed"] = hybrid if seed == "hybrid" else {"mode": "lexical", "text": text}
    return both.post(f"memory/search/{path}", {"scope": api.scope, **members})


def found(outcome: Outcome) -> list[str]:
    assert (200, "") == outcome.verdict, outcome.text
    return [hit["record"]["record_id"] for hit in outcome.document["page"]["hits"]]


def test_alone_they_make_an_empty_page(both: BothWays, api: Api) -> None:
    """With an average length of zero a lexical query finds nothing, counts every record, and divides by nothing."""
    for text in SILENT:
        api.create(text)
    page = search(both, api, "lexical", "bee").document["page"]
    assert (3, 3, 0, []) == (page["scanned_records"], page["corpus_records"], page["matched_records"], page["hits"])
    assert page["exhaustive"]
    assert [] == found(search(both, api, "graph", "bee"))
    assert [] == found(search(both, api, "hybrid", "bee"))


def test_among_others_they_count_and_are_never_a_lexical_hit(both: BothWays, api: Api) -> None:
    """They are part of the population, have no score, and every score of the others is above zero."""
    silent = [api.create(text) for text in SILENT]
    spoken = [api.create(text) for text in SPOKEN]
    for text in ("bee", "queen", "a the southern keeper"):
        page = search(both, api, "lexical", text).document["page"]
        assert 8 == page["corpus_records"]
        assert all(hit["score"] > 0 for hit in page["hits"])
        assert not {hit["record"]["record_id"] for hit in page["hits"]} & {record["record_id"] for record in silent}
    assert [spoken[4]["record_id"]] == found(search(both, api, "lexical", "queen"))


def test_they_are_stored_read_and_listed_as_they_are(both: BothWays, api: Api) -> None:
    """By id, in the list, in order and in a batch, with their text to the letter."""
    silent = [api.create(text) for text in SILENT]
    ids = [record["record_id"] for record in silent]
    texts = [api.get(record_id).json()["record"]["payload"]["content"]["primary"] for record_id in ids]
    assert SILENT == texts
    listed = both.post("memory/query", {"scope": api.scope, "filter": {"limit": 10}}).document["page"]["records"]
    assert sorted(ids) == [record["record_id"] for record in listed]
    batch = both.post("memory/records/batch", {"scope": api.scope, "record_ids": ids}).document["batch"]["entries"]
    assert SILENT == [entry["record"]["payload"]["content"]["primary"] for entry in batch]
    ordered = both.post("memory/query/ordered", {"scope": api.scope, "query": {"order": "created_asc"}})
    assert sorted(ids) == sorted(record["record_id"] for record in ordered.document["page"]["records"])


def test_they_are_found_by_vector_and_reached_through_relations(both: BothWays, api: Api) -> None:
    """Cosine, the semantic half of a hybrid, a path from a word, and a walk all come to a record without a term."""
    silent, spoken = api.create("!!!"), api.create("a bee")
    api.attach(silent, EAST)
    relation_id = api.relate(spoken, silent)
    semantic = both.post(
        "memory/search", {"scope": api.scope, "query": {"space": builders.SPACE, "vector": EAST, "limit": 1}}
    )
    assert [silent["record_id"]] == found(semantic)
    assert 1.0 == semantic.document["page"]["hits"][0]["score"]
    hybrid = search(both, api, "hybrid", "bee").document["page"]
    channels = {hit["record"]["record_id"]: (hit["lexical"], hit["semantic"]) for hit in hybrid["hits"]}
    assert {silent["record_id"], spoken["record_id"]} == set(channels)
    assert channels[silent["record_id"]][0] is None
    hits = search(both, api, "graph", "bee").document["page"]["hits"]
    (walked,) = [hit for hit in hits if hit["record"]["record_id"] == silent["record_id"]]
    assert [relation_id] == [step["relation_id"] for step in walked["graph"]["steps"]]
    graph = both.post(
        "memory/graph/typed", {"scope": api.scope, "query": {"root_record_ids": [silent["record_id"]]}}
    ).document["graph"]
    assert [relation_id] == [edge["relation_id"] for edge in graph["edges"]]


@pytest.mark.parametrize("text", NO_TERM)
def test_a_query_without_a_term_is_refused_on_every_route(both: BothWays, api: Api, text: str) -> None:
    """Lexical, hybrid and graph search name the text, although a good vector stands beside it."""
    api.attach(api.create("a bee"), EAST)
    with untouched(both.suite, api.scope):
        for mode, seed in (("lexical", ""), ("hybrid", ""), ("graph", "lexical"), ("graph", "hybrid")):
            outcome = search(both, api, mode, text, seed=seed)
            assert (400, "invalid_request") == outcome.verdict, (mode, seed)
            assert ("query.seed.text" if mode == "graph" else "query.text") == outcome.member

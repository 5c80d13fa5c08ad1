"""C23: cycles, parallel edges, cliques and chains; every step of every path is confirmed by canonical reads."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.harness import builders
from tests.harness.api import Api
from tests.harness.both_ways import BothWays, steady
from tests.harness.bulk import import_records, import_relations, space_json
from tests.harness.suite import Suite
from tests.harness.untouched import untouched

pytestmark = [pytest.mark.usefixtures("left_sound"), pytest.mark.both_entrances(edge_in_depth=True)]

Json = dict[str, Any]
PROFILES = ["typed_path_balanced_v1", "typed_path_entity_v1", "typed_path_temporal_v1", "typed_path_evidence_v1"]
WEIGHTS = {"supports": [1, 0, 0, 1], "same_entity": [1, 1, 0.5, 0.5]}
WIDE = {
    "direction": "both",
    "max_depth": 8,
    "node_limit": 256,
    "edge_limit": 1024,
    "scan_limit": 4096,
    "embedding_bytes_limit": 8_388_608,
}
REASONS = {"depth_limit", "node_limit", "edge_limit", "scan_limit"}


def graph_page(
    api: Api, text: str = "alpha", *, profile: str = PROFILES[0], seed: Json | None = None, **to: Any
) -> Json:
    """Graph search from a word, or from another seed."""
    query = {
        "ranking_version": profile,
        "seed": seed or {"mode": "lexical", "text": text},
        "limit": 100,
        "expansion": {**WIDE, **to},
    }
    page: Json = api.expect("memory/search/graph", {"query": query})["page"]
    return page


def replay(api: Api, page: Json) -> int:
    """Confirm each step of each hit by reading what it names; the number of steps."""
    count = 0
    told = {relation["relation_id"]: relation for relation in page["relations"]}
    used: set[str] = set()
    for hit in page["hits"]:
        if hit["graph"] is None:
            continue
        at, steps = hit["graph"]["anchor"], hit["graph"]["steps"]
        walked = [at["record_id"]]
        for step in steps:
            read = api.expect("memory/relations/read", {"relation_id": step["relation_id"]})["relation"]
            assert told[step["relation_id"]] == read
            assert (step["relation_revision"], "active") == (read["revision"], read["state"])
            ends = (read["input"]["source"], read["input"]["target"])
            assert (step["from"], step["to"]) == (ends if step["direction"] == "outgoing" else ends[::-1])
            assert at == step["from"]
            at = step["to"]
            walked.append(at["record_id"])
            assert at["revision"] == api.get(at["record_id"]).json()["record"]["revision"]
            used.add(step["relation_id"])
            count += 1
        assert hit["record"]["record_id"] == at["record_id"]
        assert len(walked) == len(set(walked))
    assert used == set(told)
    assert len(told) == len(page["relations"])
    return count


def assert_honest(page: Json) -> None:
    coverage, flags = page["graph_coverage"], page["coverage"]
    reasons = coverage["stop_reasons"]
    assert REASONS >= set(reasons)
    assert len(reasons) == len(set(reasons))
    assert coverage["complete"] == flags["graph_complete"] == (not reasons)
    assert flags["complete"] == all(flags[name] for name in flags if name != "complete")
    expansion = page["expansion"]
    assert expansion["node_limit"] >= coverage["records_examined"]
    assert expansion["scan_limit"] >= coverage["adjacency_entries_examined"] >= coverage["relations_examined"]


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("direction", ["outgoing", "incoming", "both"])
def test_a_cycle_with_parallel_edges(api: Api, profile: str, direction: str) -> None:
    """Of equal assertions the lower id carries the best path, at every depth; more edges never raise a score."""
    first, second, third = (api.create(text) for text in ("alpha start", "beta middle", "gamma end"))
    twins = sorted([api.relate(first, second), api.relate(first, second)])
    scores: dict[int, dict[str, float]] = {}
    for depth in range(9):
        page = graph_page(api, profile=profile, direction=direction, max_depth=depth)
        scores[depth] = {hit["record"]["record_id"]: hit["score"] for hit in page["hits"]}
        replay(api, page)
        assert_honest(page)
    api.relate(first, second, "same_entity")
    for source, target in ((second, first), (second, third), (third, first)):
        api.relate(source, target)
    index = PROFILES.index(profile)
    for depth in range(9):
        page = graph_page(api, profile=profile, direction=direction, max_depth=depth)
        replay(api, page)
        assert_honest(page)
        hits = {hit["record"]["record_id"]: hit for hit in page["hits"]}
        assert scores[depth][first["record_id"]] == hits[first["record_id"]]["score"]
        path = (hits.get(second["record_id"]) or {"graph": None})["graph"]
        best = max(WEIGHTS["supports"][index], WEIGHTS["same_entity"][index] if direction != "incoming" else 0)
        if depth == 0 or best == 0:
            assert path is None
            continue
        assert abs(best * 0.5 / 3 - path["strength"]) < 1e-12
        assert 1 == len(path["steps"])
        if WEIGHTS["supports"][index] > WEIGHTS["same_entity"][index] and direction == "outgoing":
            assert twins[0] == path["steps"][0]["relation_id"]


def test_equal_assertions_cost_scan_budget(both: BothWays, api: Api) -> None:
    """Two equal assertions stay two: both are edges of the typed graph, both are scanned, one path is best."""
    first, second = api.create("alpha"), api.create("beta")
    twins = sorted([api.relate(first, second), api.relate(first, second)])
    walk = {"root_record_ids": [first["record_id"]], "direction": "outgoing"}
    graph = both.post("memory/graph/typed", {"scope": api.scope, "query": walk}).document["graph"]
    assert twins == [edge["relation_id"] for edge in graph["edges"]]
    # The one record further on is scanned too, in the direction that was asked for, and has no edge of its own.
    assert 2 == graph["coverage"]["adjacency_entries_examined"] == graph["coverage"]["relations_examined"]
    cut = both.post("memory/graph/typed", {"scope": api.scope, "query": {**walk, "scan_limit": 1}}).document["graph"]
    assert (["scan_limit"], twins[:1]) == (
        cut["coverage"]["stop_reasons"],
        [edge["relation_id"] for edge in cut["edges"]],
    )
    page = graph_page(api, direction="outgoing")
    steps = [hit["graph"]["steps"] for hit in page["hits"] if hit["record"]["record_id"] == second["record_id"]]
    assert [[twins[0]]] == [[step["relation_id"] for step in path] for path in steps]


@pytest.mark.parametrize("kind", ["supports", "same_entity", "contradicts", "temporal_before"])
def test_no_record_is_related_to_itself(both: BothWays, api: Api, kind: str) -> None:
    """400 in every kind, also when one end is spelled in capitals, and nothing is written."""
    record = api.create("alpha")
    shouted = {**record, "record_id": record["record_id"].upper()}
    with untouched(both.suite, api.scope):
        for target in (record, shouted, {**record, "revision": 7}):
            outcome = both.send(
                "POST", "memory/relations/commands", builders.assert_body(api.scope, record, target, kind)
            )
            assert (400, "invalid_request") == outcome.verdict


CLIQUE = list(itertools.permutations(range(15), 2))


def test_a_clique_within_its_budgets(suite: Suite, both: BothWays, api: Api) -> None:
    """Fifteen records, each related to each in both directions: honest cuts, whole paths, equal answers on each run."""
    ids, relation_ids = import_relations(suite, api.scope, [f"alpha node{number}" for number in range(15)], CLIQUE)
    assert (15, 210) == (len(set(ids)), len(set(relation_ids)))
    limits: list[Json] = [{"max_depth": depth} for depth in range(9)]
    limits += [{"node_limit": 1}, {"node_limit": 7}, {"edge_limit": 1}, {"edge_limit": 99}, {"scan_limit": 1}]
    limits += [{"scan_limit": 57}, {"direction": "outgoing", "scan_limit": 30, "edge_limit": 5, "node_limit": 3}]
    for to in limits:
        body = {
            "scope": api.scope,
            "query": {
                "ranking_version": PROFILES[0],
                "seed": {"mode": "lexical", "text": "node3"},
                "limit": 100,
                "expansion": {**WIDE, **to},
            },
        }
        outcome = both.post("memory/search/graph", body)
        page = outcome.document["page"]
        assert_honest(page)
        assert steady(outcome.document) == steady(both.post("memory/search/graph", body).document)
        assert len(page["hits"]) <= 1 + to.get("node_limit", 256)
        assert to.get("max_depth", 8) >= max(len(hit["graph"]["steps"]) for hit in page["hits"] if hit["graph"])
    page = graph_page(api, "node3")
    assert 15 == len(page["hits"])
    assert 14 == replay(api, page)
    assert page["graph_coverage"]["complete"]
    assert 210 == page["graph_coverage"]["relations_examined"]


def test_a_chain_is_followed_to_its_bound(suite: Suite, api: Api) -> None:
    """Of a chain of nine relations depth d serves d, never more than eight, and says that it was cut."""
    texts = ["alpha", *(f"link{number}" for number in range(1, 10))]
    ids, _ = import_relations(suite, api.scope, texts, list(itertools.pairwise(range(10))))
    for depth in range(9):
        page = graph_page(api, max_depth=depth)
        assert ids[: depth + 1] == [hit["record"]["record_id"] for hit in page["hits"]]
        assert [depth] == [len(hit["graph"]["steps"]) for hit in page["hits"][-1:]]
        assert ["depth_limit"] == page["graph_coverage"]["stop_reasons"]
        strengths = [hit["graph"]["strength"] for hit in page["hits"]]
        assert all(abs(0.5**hops / 3 - strength) < 1e-12 for hops, strength in enumerate(strengths))
        replay(api, page)
    assert 400 == api.post(
        "memory/search/graph",
        {"query": {"ranking_version": PROFILES[0], "seed": {"mode": "lexical", "text": "alpha"}, "limit": 1,
                   "expansion": {**WIDE, "max_depth": 9}}},
    ).status_code  # fmt: skip


def test_paths_of_a_vector_search_replay_too(suite: Suite, api: Api) -> None:
    """With affinities, stale and missing vectors, changed and retired relations: only what holds now is walked."""
    vectors = np.eye(8, dtype=np.float32)
    ids = import_records(suite, api.scope, [f"alpha{number}" for number in range(8)], vectors=vectors)
    records = [builders.reference(record_id) for record_id in ids]
    relations = [api.relate(records[a], records[b]) for a, b in itertools.pairwise(range(8))]
    seed = {"mode": "semantic", "space": space_json(8), "vector": vectors[0].tolist(), "min_score": 0.5}
    assert sum(range(8)) == replay(api, graph_page(api, seed=seed))
    records[6] = api.update(records[6], "a new revision that no relation knows")
    page = graph_page(api, seed=seed)
    assert ids[:6] == [hit["record"]["record_id"] for hit in page["hits"]]
    replay(api, page)
    operation = {"type": "retire", "relation_id": relations[2], "expected_revision": 1, "evidence_ref": "e"}
    api.expect("memory/relations/commands", {"idempotency_key": builders.new_key(), "operation": operation})
    page = graph_page(api, seed=seed)
    assert ids[:3] == [hit["record"]["record_id"] for hit in page["hits"]]
    replay(api, page)

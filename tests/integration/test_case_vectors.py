"""C04: vectors at the ends of float32 and beyond them, through the gateway and over gRPC."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.harness import builders
from tests.harness.api import Api
from tests.harness.both_ways import BothWays, Outcome
from tests.harness.bulk import import_records, space_json
from tests.harness.suite import Suite
from tests.harness.untouched import untouched

pytestmark = [pytest.mark.usefixtures("left_sound"), pytest.mark.both_entrances(edge_in_depth=True)]

# As JSON text, because no client library would send them all; the number at fault, if it is one.
REFUSED = {
    "[NaN,1]": None,
    "[Infinity,1]": None,
    "[-Infinity,1]": None,
    '["NaN",1]': 0,
    "[1e999,0]": None,
    "[0,0]": None,
    "[-0.0,0]": None,
    "[1e-46,0]": None,
    "[1e-46,-1e-46]": None,
    "[3.5e38,0]": 0,
    "[0,-3.5e38]": 1,
    "[1]": None,
    "[1,2,3]": None,
    "[null,1]": 0,
    "[true,1]": 0,
    "[1,[1]]": 1,
    '[1,{"a":1}]': 1,
    "[]": None,
    '"AAAA"': None,
    "{}": None,
    "null": None,
}
ODD = {"[1e-45,0]": (1e-45, 0.0), "[1e-30,1e-30]": (1e-30, 1e-30), "[3e38,3e38]": (3e38, 3e38)}


def attach_text(api: Api, record: dict[str, Any], vector: str, **members: Any) -> str:
    """The body that binds a vector spelled as given in two dimensions."""
    body = builders.attach_body(api.scope, record["record_id"], [0.0, 0.0], revision=record["revision"], **members)
    return json.dumps({**body, "vector": "VECTOR"}).replace('"VECTOR"', vector)


def search_texts(api: Api, vector: str, **members: Any) -> list[tuple[str, str, str]]:
    """Path, body and path of the vector's member, for every search that takes one."""
    space = {"space": space_json(2), "vector": "VECTOR"}
    hybrid = {"text": "row", **space, "ranking_version": "weighted_rrf_v2"}
    seeds = [{"mode": "semantic", **space}, {"mode": "hybrid", **hybrid}]
    bodies: list[tuple[str, dict[str, Any], str]] = [
        ("memory/search", {"query": {**space, "limit": 100, **members}}, "query.vector"),
        ("memory/search/hybrid", {"mode": "hybrid", "query": {**hybrid, "limit": 100, **members}}, "query.vector"),
    ]
    bodies += [
        (
            "memory/search/graph",
            {"query": {"ranking_version": "typed_path_balanced_v1", "seed": {**seed, **members}, "limit": 100}},
            "query.seed.vector",
        )
        for seed in seeds
    ]
    common = {"contract_version": 1, "scope": api.scope}
    return [(path, json.dumps({**common, **body}).replace('"VECTOR"', vector), at) for path, body, at in bodies]


def cosines(both: BothWays, api: Api, vector: str, **members: Any) -> list[tuple[str, float]]:
    """Records and cosines of a semantic search, best first."""
    (path, text, _) = search_texts(api, vector, **members)[0]
    outcome = both.send("POST", path, text)
    assert 200 == outcome.status, outcome.text
    return [(hit["record"]["record_id"], hit["score"]) for hit in outcome.document["page"]["hits"]]


def assert_names(outcome: Outcome, member: str, number: int | None) -> None:
    assert (400, "invalid_request") == outcome.verdict, outcome.text
    if outcome.member is not None:
        assert (member if number is None else f"{member}[{number}]") == outcome.member


@pytest.mark.parametrize("vector", REFUSED)
def test_vectors_without_a_direction_are_refused_everywhere(both: BothWays, api: Api, vector: str) -> None:
    """As a binding and as a query of every kind: 400 for the vector, and nothing is written."""
    record, bound = api.create("row"), api.create("row")
    api.attach(bound, [1.0, 0.0])
    with untouched(both.suite, api.scope):
        assert_names(
            both.send("POST", "memory/embeddings", attach_text(api, record, vector)), "vector", REFUSED[vector]
        )
        for path, text, member in search_texts(api, vector):
            assert_names(both.send("POST", path, text), member, REFUSED[vector])


def test_odd_directions_have_their_cosines(both: BothWays, api: Api) -> None:
    """Each has cosine 1 with itself, the diagonal ones half a square root of two with east; all lie in [-1, 1]."""
    odd = {}
    for vector in ODD:
        odd[vector] = api.create("row")
        assert 200 == both.send("POST", "memory/embeddings", attach_text(api, odd[vector], vector)).status
    east, west = api.create("row"), api.create("row")
    api.attach(east, [1.0, 0.0])
    api.attach(west, [-1.0, 0.0])
    for vector, record in odd.items():
        scores = dict(cosines(both, api, vector))
        assert abs(1.0 - scores[record["record_id"]]) < 1e-9
        assert 5 == len(scores)
        assert all(-1.0 <= score <= 1.0 for score in scores.values())
    scores = dict(cosines(both, api, "[1,0]"))
    for diagonal in ("[1e-30,1e-30]", "[3e38,3e38]"):
        assert abs(0.5**0.5 - scores[odd[diagonal]["record_id"]]) < 1e-9
    assert (1.0, 1.0, -1.0) == tuple(scores[at["record_id"]] for at in (odd["[1e-45,0]"], east, west))
    for path, text, _ in search_texts(api, "[3e38,3e38]"):
        assert 200 == both.send("POST", path, text).status


def test_odd_rows_among_a_thousand_change_nothing(both: BothWays, suite: Suite, api: Api) -> None:
    """Order, scores and threshold are those of a plain float64 reference, whatever the sizes of the vectors."""
    random = np.random.default_rng(4)
    vectors = random.normal(size=(1003, 2)).astype(np.float32)
    places = (0, 500, 1002)
    vectors[list(places)] = np.array(list(ODD.values()), dtype=np.float32)
    ids = import_records(suite, api.scope, ["row"] * len(vectors), vectors=vectors)
    for spelling in ("[1,0]", "[-0.3,0.7]", *ODD):
        query = np.array(json.loads(spelling), dtype=np.float32)
        expected = reference(ids, vectors, query)
        found = cosines(both, api, spelling)
        assert [record_id for record_id, _ in expected[:100]] == [record_id for record_id, _ in found]
        assert max(abs(a - b) for (_, a), (_, b) in zip(expected, found, strict=False)) < 1e-12
        page = page_of(both, api, spelling, min_score=0.9)
        assert sum(score >= 0.9 for _, score in expected) == page["matched_records"]
        assert (1003, True) == (page["scanned_embeddings"], page["exhaustive"])
    everyone = {record_id for record_id, _ in walk(both, api)}
    assert set(ids) == everyone


def reference(ids: list[str], vectors: Any, query: Any) -> list[tuple[str, float]]:
    """Cosine of every row in float64, one after the other; best first, then the lower id."""
    exact = query.astype(np.float64)
    exact = exact / np.abs(exact).max()
    scores = []
    for record_id, row in zip(ids, vectors.astype(np.float64), strict=True):
        scaled = row / np.abs(row).max()
        cosine = float(scaled @ exact) / float(np.sqrt(scaled @ scaled) * np.sqrt(exact @ exact))
        scores.append((record_id, max(-1.0, min(1.0, cosine))))
    return sorted(scores, key=lambda entry: (-round(entry[1], 13), entry[0]))


def page_of(both: BothWays, api: Api, vector: str, **members: Any) -> dict[str, Any]:
    (path, text, _) = search_texts(api, vector, **members)[0]
    page: dict[str, Any] = both.send("POST", path, text).document["page"]
    return page


def walk(both: BothWays, api: Api) -> list[tuple[str, float]]:
    """Every hit of the partition, in scans of a hundred candidates."""
    found: list[tuple[str, float]] = []
    after = None
    while True:
        page = page_of(both, api, "[1,0]", scan_limit=100, after=after)
        found += [(hit["record"]["record_id"], hit["score"]) for hit in page["hits"]]
        after = page["next_after"]
        if after is None:
            return found

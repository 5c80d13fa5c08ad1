"""The documented JSON of the search routes, member by member, through the gateway of a running suite."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness import builders
from tests.harness.api import Api

SPACE = builders.SPACE
EAST = [1.0, 0.0, 0.0]
RECORD = {
    "schema_version",
    "record_id",
    "revision",
    "created_at_millis",
    "modified_at_millis",
    "author",
    "payload",
    "review",
    "derivation",
}
SELECTION_HEADERS = {
    "x-qilbee-candidate-selection-version",
    "x-qilbee-scanned-records",
    "x-qilbee-candidate-index-bytes",
    "x-qilbee-scanned-bytes",
}
EVERY_HEADER = SELECTION_HEADERS | {"x-qilbee-ranking-version", "x-qilbee-retrieval-micros"}


def lexical(text: str = "hive", **members: Any) -> dict[str, Any]:
    """Body of a lexical search."""
    return {"mode": "lexical", "query": {"text": text, "limit": 10, **members}}


def semantic(vector: list[Any] | None = None, **members: Any) -> dict[str, Any]:
    """Body of a semantic search."""
    return {"query": {"space": SPACE, "vector": EAST if vector is None else vector, "limit": 10, **members}}


def hybrid(text: str = "hive", **members: Any) -> dict[str, Any]:
    """Body of a hybrid search."""
    query = {"text": text, "space": SPACE, "vector": EAST, "limit": 10, "ranking_version": "weighted_rrf_v2"}
    return {"mode": "hybrid", "query": {**query, **members}}


def graph(seed: dict[str, Any], **members: Any) -> dict[str, Any]:
    """Body of a graph search."""
    return {"query": {"ranking_version": "typed_path_balanced_v1", "seed": seed, "limit": 10, **members}}


ROUTES = {
    "memory/search": semantic(),
    "memory/search/lexical": lexical(),
    "memory/search/hybrid": hybrid(),
    "memory/search/graph": graph({"mode": "lexical", "text": "hive"}),
    "memory/graph/typed": {"query": {"root_record_ids": ["00000000-0000-4000-8000-000000000001"]}},
    "memory/graph": {"query": {"root_record_ids": ["00000000-0000-4000-8000-000000000001"]}},
}


@pytest.fixture
def records(api: Api) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two related records, the first with a vector."""
    hive, field = api.create("The hive moved."), api.create("The southern field.")
    api.attach(hive, EAST)
    api.relate(hive, field)
    return hive, field


def our_headers(response: Any) -> set[str]:
    """Names of our own headers."""
    return {name for name in response.headers if name.startswith("x-qilbee-")}


def test_a_lexical_answer_has_the_documented_members(api: Api, records: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """Envelope, page, hit and headers, nothing more."""
    response = api.post("memory/search/lexical", lexical())
    document = response.json()
    assert set(document) == {"contract_version", "scope", "mode", "ranking_version", "page", "timing"}
    assert document["scope"] == api.scope
    assert (document["mode"], document["ranking_version"]) == ("lexical", "bm25_v1")
    assert set(document["timing"]) == {"retrieval_micros"}
    page = document["page"]
    assert set(page) == {
        *("scanned_records", "scanned_bytes", "corpus_records", "next_after", "exhaustive"),
        *("hits", "matched_records", "dependency_work"),
    }
    assert page["next_after"] is None
    assert page["dependency_work"] == {"records_examined": 0, "bytes_examined": 0}
    assert [set(hit) for hit in page["hits"]] == [{"record", "score"}]
    assert set(page["hits"][0]["record"]) == RECORD
    assert page["hits"][0]["record"]["record_id"] == records[0]["record_id"]
    assert our_headers(response) == SELECTION_HEADERS
    assert response.headers["cache-control"] == "no-store"


def test_a_semantic_answer_has_the_documented_members(api: Api, records: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """The older envelope: no mode, no ranking version, no timing; those are headers."""
    response = api.post("memory/search", semantic())
    document = response.json()
    assert set(document) == {"contract_version", "scope", "page"}
    page = document["page"]
    assert set(page) == {
        *("hits", "next_after", "scanned_embeddings", "matched_records", "exhaustive", "dependency_work"),
    }
    (hit,) = page["hits"]
    assert set(hit) == {"record", "score", "embedding"}
    assert hit["score"] == 1.0
    assert set(hit["embedding"]) == {
        *("contract_version", "idempotency_key", "record_id", "record_revision", "space"),
        *("vector_digest", "author", "committed_at_millis"),
    }
    assert hit["embedding"]["record_id"] == records[0]["record_id"]
    assert our_headers(response) == EVERY_HEADER
    assert response.headers["x-qilbee-ranking-version"] == "cosine_exact_v1"


@pytest.mark.usefixtures("records")
def test_a_hybrid_answer_has_the_documented_members(api: Api) -> None:
    """The whole profile, and null for a part that a hit does not have."""
    response = api.post("memory/search/hybrid", hybrid("southern"))
    document = response.json()
    assert set(document) == {"contract_version", "scope", "mode", "ranking_version", "page", "timing"}
    page = document["page"]
    assert set(page) == {
        *("scanned_records", "scanned_bytes", "corpus_records", "embedded_records", "lexical_matches"),
        *("semantic_matches", "lexical_candidates", "semantic_candidates", "candidates_truncated", "rank_constant"),
        *("ranking", "embedding_coverage", "next_after", "exhaustive", "hits", "dependency_work"),
    }
    assert page["ranking"] == {
        "version": "weighted_rrf_v2",
        "method": "weighted_rrf",
        "lexical_version": "bm25_v1",
        "semantic_version": "cosine_exact_v1",
        "candidate_limit": 100,
        "lexical_weight": 0.25,
        "semantic_weight": 0.75,
        "rank_constant": 2,
        "experimental": True,
    }
    by_vector, by_text = page["hits"]
    assert set(by_vector) == set(by_text) == {"record", "score", "lexical", "semantic", "embedding"}
    assert by_vector["lexical"] is by_text["semantic"] is by_text["embedding"] is None
    assert by_vector["semantic"] == {"rank": 1, "score": 1.0, "contribution": 0.25}
    assert set(by_text["lexical"]) == {"rank", "score", "contribution"}
    assert our_headers(response) == SELECTION_HEADERS


def test_what_was_written_is_found_at_once(api: Api) -> None:
    """Every acknowledged write is in the next answer, through different processes."""
    record = api.create("swarm zero")
    for number in range(1, 6):
        record = api.update(record, f"swarm {number} {'word' * number}")
        (hit,) = api.expect("memory/search/lexical", lexical(f"word{'word' * (number - 1)}"))["page"]["hits"]
        assert hit["record"]["revision"] == record["revision"]
    api.delete(record)
    assert api.expect("memory/search/lexical", lexical("swarm"))["page"]["scanned_records"] == 0


@pytest.mark.parametrize("path", ROUTES)
def test_bad_bodies_are_refused_by_name(api: Api, path: str) -> None:
    """Unknown members, another version, missing and foreign members: 400, whatever the route."""
    body = ROUTES[path]
    good = api.post(path, body)
    assert good.status_code == 200, good.text
    wrong: list[dict[str, Any]] = [
        {**body, "unknown": 1},
        {**body, "query": {**body["query"], "unknown": 1}},
        {**body, "query": {}},
        {**body, "query": None},
        {**body, "scope": {**api.scope, "agent_id": " "}},
    ]
    for changed in wrong:
        response = api.post(path, changed)
        assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_request")
    other = api.post(path, {**body, "contract_version": 2})
    assert (other.status_code, other.json()["error"]["code"]) == (400, "unsupported_contract_version")


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("memory/search/lexical", {**lexical(), "mode": "hybrid"}, "invalid_request"),
        ("memory/search/hybrid", {**hybrid(), "mode": "lexical"}, "invalid_request"),
        ("memory/search/hybrid", hybrid(ranking_version="latest"), "invalid_request"),
        ("memory/search/hybrid", hybrid(lexical_weight=1), "invalid_request"),
        ("memory/search/hybrid", hybrid("!!!"), "invalid_request"),
        ("memory/search/lexical", lexical(limit=0), "invalid_request"),
        ("memory/search/lexical", lexical(limit=101), "invalid_request"),
        ("memory/search/lexical", lexical(scan_limit=0), "invalid_request"),
        ("memory/search/lexical", lexical(scan_limit=10_001), "invalid_request"),
        ("memory/search/lexical", lexical(scan_bytes_limit=0), "retrieval_scan_limit"),
        ("memory/search/lexical", lexical(scan_bytes_limit=67_108_865), "retrieval_scan_limit"),
        ("memory/search/lexical", lexical(scan_bytes_limit=268_435_457), "retrieval_scan_limit"),
        ("memory/search/lexical", lexical(after="not-a-uuid"), "invalid_request"),
        ("memory/search/lexical", lexical("x" * 4097), "invalid_request"),
        ("memory/search/lexical", lexical(" ".join(f"t{n}" for n in range(65))), "invalid_request"),
        ("memory/search", semantic(scan_bytes_limit=8_388_608), "invalid_request"),
        ("memory/search", semantic(min_score=1.01), "invalid_request"),
        ("memory/search", semantic([True, 0, 0]), "invalid_request"),
        ("memory/search", semantic([None, 0, 1]), "invalid_request"),
        ("memory/search", semantic(["NaN", 0, 1]), "invalid_request"),
        ("memory/search", semantic([0, 0, 0]), "invalid_request"),
        ("memory/search", semantic([3.5e38, 0, 0]), "invalid_request"),
        ("memory/search", semantic([1, 2]), "invalid_request"),
        ("memory/search", semantic(space={**SPACE, "dimensions": 0}), "embedding_dimension_limit"),
        ("memory/search", semantic(space={**SPACE, "dimensions": 32_769}), "embedding_dimension_limit"),
        ("memory/search/graph", graph({"mode": "lexical", "text": "!!!"}), "invalid_request"),
        ("memory/search/graph", graph({"mode": "semantic", "text": "hive"}), "invalid_request"),
        ("memory/search/graph", graph({"mode": "lexical", "text": "hive"}, after=None), "invalid_request"),
    ],
)
def test_values_out_of_bounds_have_their_documented_codes(api: Api, path: str, body: dict[str, Any], code: str) -> None:
    """Each bound is told by the code that the contract gives it."""
    response = api.post(path, body)
    assert (response.status_code, response.json()["error"]["code"]) == (400, code)


def test_numbers_may_be_integers_and_vectors_as_long_as_the_contract_allows(api: Api) -> None:
    """A vector of 32,768 integers is accepted in a body below 2 MiB."""
    space = {**SPACE, "dimensions": 32_768}
    page = api.expect("memory/search", semantic([1] * 32_768, space=space))["page"]
    assert page["hits"] == []


def test_the_catalogues_publish_profiles_and_limits(api: Api) -> None:
    """Both name the same limits; neither needs a scope; both need a reader."""
    hybrids = api.client.get("/api/v1/memory/ranking-profiles").json()
    graphs = api.client.get("/api/v1/memory/graph-ranking-profiles").json()
    assert set(hybrids) == {"contract_version", "component_versions", "hybrid_profiles", "execution_limits"}
    assert hybrids["component_versions"] == {"lexical": "bm25_v1", "semantic": "cosine_exact_v1"}
    assert [profile["version"] for profile in hybrids["hybrid_profiles"]] == ["weighted_rrf_v1", "weighted_rrf_v2"]
    assert set(graphs) == {"contract_version", "graph_profiles", "execution_limits"}
    assert hybrids["execution_limits"] == graphs["execution_limits"]
    assert hybrids["execution_limits"] == {
        "scope": "server_instance",
        "max_embedding_dimensions": 32_768,
        "max_scan_bytes": 67_108_864,
        "default_scan_bytes": 8_388_608,
        "max_concurrent_retrievals": hybrids["execution_limits"]["max_concurrent_retrievals"],
        "vector_request_body_bytes": 2_097_152,
    }
    for name in ("ranking-profiles", "graph-ranking-profiles"):
        response = api.client.get(f"/api/v1/memory/{name}", headers={"Authorization": ""})
        assert response.status_code == 401
        assert our_headers(api.client.get(f"/api/v1/memory/{name}")) == set()

"""Pages of the searches on a real socket: hits, counters, headers, cuts, odd inputs and the operator's ceilings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from services.domain import keys
from services.domain.embeddings import Space
from services.domain.records import SourceRef
from services.memory.commands import (
    DeleteRecord,
    DeriveRecord,
    ReviewRecord,
    UpdateRecord,
    attach_embedding_command,
)
from services.retrieval.settings import Settings
from services.runtime.common_messages import scope_message
from tests.harness.memory_world import SCOPE, SPACE, MemoryWorld, derivation, embedding, record_input
from tests.harness.retrieval_server import LEXICAL, RetrievalClient, refused, running_retrieval, space_message
from waggle.common.v1 import records_pb2
from waggle.retrieval.v1 import graph_search_pb2, searches_pb2
from waggle.retrieval.v1 import retrieval_service_pb2 as pb

EAST = (1.0, 0.0, 0.0, 0.0)
NORTH = (0.0, 1.0, 0.0, 0.0)
ODD = Space("local", "odd", "1", 2)


def bind_odd(world: MemoryWorld, record: SourceRef, numbers: tuple[float, float]) -> None:
    """Bind a two-dimensional vector."""
    vector = np.array(numbers, np.float32)
    world.execute(
        attach_embedding_command(record_id=record.record_id, record_revision=record.revision, space=ODD, vector=vector)
    )


def hit_ids(answer: object) -> list[str]:
    """Ids of the hits, best first."""
    return [hit.record.record_id for hit in answer.page.hits]  # type: ignore[attr-defined]


def test_a_lexical_page_tells_records_scores_and_counters(world: MemoryWorld, client: RetrievalClient) -> None:
    """Only records that hold a term are hits; all eligible ones are the corpus; bytes are those stored."""
    bees, wasps, ants = world.create("bees dance"), world.create("wasps sting"), world.create("ants march bees")
    answer = client.lexical("bees")
    assert hit_ids(answer) == [bees.record_id, ants.record_id]
    assert answer.mode == LEXICAL
    assert answer.ranking_version == "bm25_v1"
    page = answer.page
    assert page.hits[0].record.payload.content.primary == "bees dance"
    assert page.hits[0].score > page.hits[1].score > 0
    assert (page.corpus_records, page.scanned_records, page.matched_records, page.exhaustive) == (3, 3, 2, True)
    stored = world.rows()
    assert page.scanned_bytes == sum(len(stored[keys.record_key(ref.record_id)]) for ref in (bees, wasps, ants))
    assert not page.HasField("next_after")


def test_a_semantic_page_tells_records_cosines_and_receipts(world: MemoryWorld, client: RetrievalClient) -> None:
    """Records without a binding in the space are examined but never hits; stale bindings are counted only."""
    east, north, bare, stale = (world.create(text) for text in ("east", "north", "bare", "stale"))
    for record, vector in ((east, EAST), (north, (0.6, 0.8, 0.0, 0.0)), (stale, EAST)):
        world.execute(embedding(record, vector))
    world.execute(UpdateRecord(stale.record_id, stale.revision, record_input("moved on")))
    answer = client.semantic(EAST)
    assert hit_ids(answer) == [east.record_id, north.record_id]
    assert answer.page.hits[0].score == 1.0
    assert abs(answer.page.hits[1].score - 0.6) < 1e-7
    assert answer.page.hits[1].embedding.record_id == north.record_id
    assert (answer.page.scanned_embeddings, answer.page.matched_records, answer.page.exhaustive) == (3, 2, True)
    assert hit_ids(client.semantic(EAST, min_score=0.7)) == [east.record_id]
    assert hit_ids(client.semantic((1.0, 0.0), space=ODD)) == []
    assert bare.record_id not in hit_ids(answer)


def test_a_hybrid_page_fuses_and_tells_both_parts(world: MemoryWorld, client: RetrievalClient) -> None:
    """Ranks, raw scores and contributions of each channel; a receipt exactly with a semantic part."""
    both, text_only, vector_only = world.create("bees dance"), world.create("bees rest"), world.create("silence")
    world.execute(embedding(both, EAST))
    world.execute(embedding(vector_only, (0.6, 0.8, 0.0, 0.0)))
    answer = client.hybrid("bees dance", EAST)
    hits = {hit.record.record_id: hit for hit in answer.page.hits}
    assert next(iter(hits)) == both.record_id
    assert hits[both.record_id].score == 0.3333333333333333
    assert hits[both.record_id].lexical.contribution == 0.25 / 3
    assert hits[both.record_id].semantic.contribution == 0.25
    assert not hits[text_only.record_id].HasField("semantic")
    assert not hits[text_only.record_id].HasField("embedding")
    assert not hits[vector_only.record_id].HasField("lexical")
    assert hits[vector_only.record_id].embedding.record_id == vector_only.record_id
    page = answer.page
    assert page.embedding_coverage == searches_pb2.EMBEDDING_COVERAGE_PARTIAL
    assert (page.corpus_records, page.embedded_records) == (3, 2)
    assert (page.lexical_matches, page.semantic_matches, page.candidates_truncated) == (2, 2, False)
    assert (page.rank_constant, page.ranking.lexical_weight, page.ranking.semantic_weight) == (2, 0.25, 0.75)
    stored = world.rows()
    counted = [value for key, value in stored.items() if key[:1] in (keys.RECORD, keys.BINDING)]
    assert page.scanned_bytes == sum(map(len, counted))
    filtered = client.hybrid("nothing", NORTH, min_score=0.9)
    assert (filtered.page.embedding_coverage, len(filtered.page.hits)) == (searches_pb2.EMBEDDING_COVERAGE_PARTIAL, 0)


def test_headers_are_exactly_the_documented_ones(world: MemoryWorld, client: RetrievalClient) -> None:
    """Semantic has all six, lexical and hybrid the four of the selection, graph the time alone, catalogues none."""
    record = world.create("bees")
    world.execute(embedding(record, EAST))
    scope, space = scope_message(SCOPE.as_json()), space_message(SPACE)
    selection = {
        "x-qilbee-candidate-selection-version",
        "x-qilbee-scanned-records",
        "x-qilbee-candidate-index-bytes",
        "x-qilbee-scanned-bytes",
    }
    semantic = pb.SearchSemanticRequest(
        contract_version=1,
        scope=scope,
        query=searches_pb2.SemanticQuery(space=space, vector=EAST, limit=1),
    )
    found = client.headers("SearchSemantic", semantic)
    assert set(found) == selection | {"x-qilbee-ranking-version", "x-qilbee-retrieval-micros"}
    assert found["x-qilbee-ranking-version"] == "cosine_exact_v1"
    assert found["x-qilbee-candidate-selection-version"] == "current_records_v1"
    assert found["x-qilbee-scanned-records"] == "1"
    assert found["x-qilbee-candidate-index-bytes"] == "24"
    assert int(found["x-qilbee-retrieval-micros"]) >= 0
    lexical = pb.SearchLexicalRequest(
        contract_version=1, scope=scope, mode=LEXICAL, query=searches_pb2.LexicalQuery(text="bees", limit=1)
    )
    assert set(client.headers("SearchLexical", lexical)) == selection
    seed = graph_search_pb2.GraphSeed(lexical=graph_search_pb2.LexicalSeed(text="bees"))
    graph = pb.SearchGraphRequest(
        contract_version=1, scope=scope, query=graph_search_pb2.GraphQuery(ranking_version=1, seed=seed, limit=1)
    )
    assert set(client.headers("SearchGraph", graph)) == {"x-qilbee-retrieval-micros"}
    assert client.headers("ListRankingProfiles", pb.ListRankingProfilesRequest()) == {}


def test_pages_continue_after_the_last_candidate(world: MemoryWorld, client: RetrievalClient) -> None:
    """Each page has statistics of its own; only a first page that reaches the end is exhaustive."""
    ids = sorted(world.create(f"bee {number}").record_id for number in range(5))
    seen = []
    after = None
    for _ in range(3):
        members = {} if after is None else {"after": after}
        page = client.lexical("bee", scan_limit=2, **members).page
        seen += sorted(hit.record.record_id for hit in page.hits)
        assert page.exhaustive is False
        assert page.corpus_records == page.scanned_records
        after = page.next_after if page.HasField("next_after") else None
    assert after is None
    assert seen == ids
    assert client.lexical("bee", after=ids[-1]).page.scanned_records == 0


def test_a_byte_limit_cuts_before_the_candidate_that_does_not_fit(world: MemoryWorld, client: RetrievalClient) -> None:
    """Exactly fitting is admitted; a first candidate that alone is too large is refused, never an empty page."""
    ids = sorted(world.create(f"bee {number}").record_id for number in range(3))
    stored = world.rows()
    sizes = [len(stored[keys.record_key(record_id)]) for record_id in ids]
    page = client.lexical("bee", scan_bytes_limit=sizes[0] + sizes[1]).page
    assert (page.scanned_records, page.scanned_bytes, page.next_after) == (2, sizes[0] + sizes[1], ids[1])
    assert client.lexical("bee", scan_bytes_limit=sizes[0] + sizes[1] - 1).page.scanned_records == 1
    assert refused(client.lexical, "bee", scan_bytes_limit=sizes[0] - 1) == (
        "invalid_request",
        "query.scan_bytes_limit",
    )


def test_what_may_not_be_served_is_no_hit_and_no_statistic(world: MemoryWorld, client: RetrievalClient) -> None:
    """Deleted and rejected records have no candidate; expired and sourceless ones are examined and nothing else."""
    live, gone, refuted, source = (world.create(f"bee {number}") for number in range(4))
    fading = world.create("bee fades", valid_until_millis=world.clock.ms + 10)
    derived = world.execute(DeriveRecord(record_input("bee derived"), derivation(source)))
    world.execute(DeleteRecord(gone.record_id, gone.revision))
    world.execute(ReviewRecord(refuted.record_id, refuted.revision, "rejected", "why"))
    before = client.lexical("bee").page
    assert before.scanned_records == before.corpus_records == 4
    assert (before.dependency_work.records_examined, before.dependency_work.bytes_examined > 0) == (1, True)
    world.clock.ms += 10
    world.execute(UpdateRecord(source.record_id, source.revision, record_input("bee source, revised")))
    after = client.lexical("bee")
    assert (after.page.scanned_records, after.page.corpus_records) == (4, 2)
    assert sorted(hit_ids(after)) == sorted([live.record_id, source.record_id])
    assert not {fading.record_id, derived["record_id"]} & set(hit_ids(after))


def test_filters_narrow_before_anything_is_examined(world: MemoryWorld, client: RetrievalClient) -> None:
    """Exact type, exact custom type, exact tag; both together."""
    plain = world.create("bee", tags=("red",))
    note = world.create("bee", episode_type={"Custom": "note"}, tags=("red", "blue"))
    custom = records_pb2.EpisodeType(custom="note")
    standard = records_pb2.EpisodeType(standard=records_pb2.STANDARD_EPISODE_TYPE_OBSERVATION)
    assert hit_ids(client.lexical("bee", episode_type=custom)) == [note.record_id]
    assert hit_ids(client.lexical("bee", episode_type=standard)) == [plain.record_id]
    assert hit_ids(client.lexical("bee", tag="blue")) == [note.record_id]
    assert client.lexical("bee", tag="Blue").page.scanned_records == 0
    assert client.lexical("bee", tag="red", episode_type=custom).page.scanned_records == 1


def test_texts_without_terms(world: MemoryWorld, client: RetrievalClient) -> None:
    """Case C01: stored and found by vector; never a lexical hit; alone they make an empty page, no division by zero."""
    silent = [world.create(text) for text in ("!!!", "\u200b\ufe0f", "👩‍👩‍👧")]
    world.execute(embedding(silent[0], EAST))
    page = client.lexical("bee").page
    assert (page.corpus_records, page.matched_records, len(page.hits)) == (3, 0, 0)
    assert hit_ids(client.semantic(EAST)) == [silent[0].record_id]
    spoken = world.create("a bee")
    assert hit_ids(client.lexical("bee")) == [spoken.record_id]
    for text in ("!!!", "👩‍👩‍👧", "   "):
        assert refused(client.lexical, text) == ("invalid_request", "query.text")
        assert refused(client.hybrid, text, EAST) == ("invalid_request", "query.text")
        seed = graph_search_pb2.GraphSeed(lexical=graph_search_pb2.LexicalSeed(text=text))
        graph = pb.SearchGraphRequest(
            contract_version=1,
            scope=scope_message(SCOPE.as_json()),
            query=graph_search_pb2.GraphQuery(ranking_version=1, seed=seed, limit=1),
        )
        metadata = world.authorization()
        assert refused(client.stub.SearchGraph, graph, metadata=metadata) == ("invalid_request", "query.seed.text")


def test_odd_vectors_are_found_and_shift_nothing(world: MemoryWorld, client: RetrievalClient) -> None:
    """Case C04: sizes at the ends of float32, among ordinary rows, have the cosines of their directions."""
    odd = {numbers: world.create("odd") for numbers in ((3e38, 3e38), (1e-45, 0.0), (1e-30, 1e-30))}
    for numbers, record in odd.items():
        bind_odd(world, record, numbers)
    ordinary = world.create("ordinary")
    bind_odd(world, ordinary, (0.0, 1.0))
    for numbers in odd:
        scores = {hit.record.record_id: hit.score for hit in client.semantic(numbers, space=ODD).page.hits}
        assert abs(scores[odd[numbers].record_id] - 1.0) < 1e-9
        assert all(-1.0 <= score <= 1.0 for score in scores.values())
        assert len(scores) == 4
    scores = {hit.record.record_id: hit.score for hit in client.semantic((1.0, 0.0), space=ODD).page.hits}
    assert abs(scores[odd[3e38, 3e38].record_id] - 0.5**0.5) < 1e-9
    assert abs(scores[odd[1e-30, 1e-30].record_id] - 0.5**0.5) < 1e-9
    assert scores[odd[1e-45, 0.0].record_id] == 1.0
    assert scores[ordinary.record_id] == 0.0


@pytest.mark.parametrize(
    ("vector", "member"),
    [
        ([float("nan"), 1.0], "query.vector[0]"),
        ([float("inf"), 0.0], "query.vector[0]"),
        ([3.5e38, 0.0], "query.vector[0]"),
        ([0.0, 0.0], "query.vector"),
        ([-0.0, 0.0], "query.vector"),
        ([1e-46, 0.0], "query.vector"),
        ([1.0], "query.vector"),
        ([1.0, 2.0, 3.0], "query.vector"),
        ([], "query.vector"),
    ],
)
def test_vectors_without_a_direction_are_refused(client: RetrievalClient, vector: list[float], member: str) -> None:
    """Case C04: not finite, zero as float32, or of another length; the member is named."""
    assert refused(client.semantic, vector, space=ODD) == ("invalid_request", member)


def test_the_operators_ceilings_are_refused_by_name(world: MemoryWorld, tmp_path: Path) -> None:
    """Dimensions and scan bytes above the setting have codes of their own; the catalogue publishes the limits."""
    settings = Settings(max_embedding_dimensions=3, max_scan_bytes=8_388_608)
    with running_retrieval(world, tmp_path, settings) as client:
        assert refused(client.semantic, EAST) == ("embedding_dimension_limit", "query.space.dimensions")
        assert refused(client.hybrid, "bee", EAST) == ("embedding_dimension_limit", "query.space.dimensions")
        over = {"scan_bytes_limit": 8_388_609}
        assert refused(client.lexical, "bee", **over) == ("retrieval_scan_limit", "query.scan_bytes_limit")
        zero = {"scan_bytes_limit": 0}
        assert refused(client.lexical, "bee", **zero) == ("retrieval_scan_limit", "query.scan_bytes_limit")
        assert client.lexical("bee", scan_bytes_limit=8_388_608).page.scanned_records == 0
        metadata = world.authorization()
        catalog = client.stub.ListRankingProfiles(pb.ListRankingProfilesRequest(), metadata=metadata)
        limits = catalog.execution_limits
        assert (limits.scope, limits.max_embedding_dimensions, limits.max_scan_bytes) == (
            "server_instance",
            3,
            8_388_608,
        )
        assert (limits.default_scan_bytes, limits.max_concurrent_retrievals) == (8_388_608, 2)
        assert [profile.rank_constant for profile in catalog.hybrid_profiles] == [60, 2]
        graphs = client.stub.ListGraphRankingProfiles(pb.ListGraphRankingProfilesRequest(), metadata=metadata)
        assert [len(profile.relation_weights) for profile in graphs.graph_profiles] == [6, 6, 6, 6]
        assert graphs.execution_limits == limits

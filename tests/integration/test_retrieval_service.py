"""The retrieval service on a real socket: pages, counters, headers, refusals, freshness and admission."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from services.domain import keys
from services.domain.embeddings import Space
from services.domain.records import SourceRef
from services.domain.scope import IDENTITY_PARTITION, workspace_for
from services.memory.commands import (
    AssertRelation,
    DeleteRecord,
    DeriveRecord,
    ReviewRecord,
    UpdateRecord,
    attach_embedding_command,
)
from services.retrieval.answer_bytes import HIT_BYTES_MAX
from services.retrieval.replica import Replica
from services.retrieval.settings import Settings
from services.runtime.common_messages import scope_message
from services.runtime.transport import MESSAGE_BYTES_MAX
from tests.harness.memory_world import SCOPE, SPACE, MemoryWorld, derivation, embedding, record_input, relation_input
from tests.harness.retrieval_server import LEXICAL, RetrievalClient, refused, running_retrieval, space_message
from tests.harness.suite import wait_until
from waggle.common.v1 import records_pb2
from waggle.retrieval.v1 import graph_search_pb2, searches_pb2, traversal_pb2
from waggle.retrieval.v1 import retrieval_service_pb2 as pb

EAST = (1.0, 0.0, 0.0, 0.0)
NORTH = (0.0, 1.0, 0.0, 0.0)
ODD = Space("local", "odd", "1", 2)
PARTITION = workspace_for("acme", SCOPE, "svc").partition


@pytest.fixture
def world() -> Iterator[MemoryWorld]:
    """A company with a memory."""
    made = MemoryWorld()
    yield made
    made.close()


@pytest.fixture
def client(world: MemoryWorld, tmp_path: Path) -> Iterator[RetrievalClient]:
    """The service over it."""
    with running_retrieval(world, tmp_path) as connected:
        yield connected


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


def test_who_may_not_read_learns_nothing(world: MemoryWorld, client: RetrievalClient) -> None:
    """No credential is 401, a missing capability 403, before any data is looked at; the catalogues ask as well."""
    world.create("bee")
    mute = world.issue(subject="mute", capabilities=("memory_write",))
    assert refused(client.lexical, "bee", token=mute) == ("forbidden", None)
    assert refused(client.stub.ListRankingProfiles, pb.ListRankingProfilesRequest()) == ("unauthorized", None)
    assert refused(
        client.stub.ListGraphRankingProfiles,
        pb.ListGraphRankingProfilesRequest(),
        metadata=world.authorization(mute),
    ) == ("forbidden", None)
    foreign = world.issue(company="other")
    assert client.lexical("bee", token=foreign).page.scanned_records == 0


def test_a_warm_query_costs_one_read(world: MemoryWorld, client: RetrievalClient) -> None:
    """The first query learns the caller and loads the partition; a write costs the next query one look at the log."""
    world.create("bee")
    client.lexical("bee")
    assert client.store.followed == [0]
    client.store.reads = 0
    client.lexical("bee")
    assert (client.store.reads, client.store.followed) == (1, [0])
    world.create("another bee")
    assert client.lexical("bee").page.matched_records == 2
    assert client.store.reads == 2
    assert len(client.store.followed) == 2
    assert client.store.followed[1] > 0


def test_a_workspace_that_was_never_written_is_not_loaded(client: RetrievalClient) -> None:
    """An empty page, and nothing asked of the change log."""
    page = client.lexical("bee").page
    assert (page.scanned_records, page.exhaustive) == (0, True)
    assert client.store.followed == []


def test_the_first_search_registers_the_agent(world: MemoryWorld, client: RetrievalClient) -> None:
    """Reads with empty results count; a refused one does not."""
    agent_key = keys.agent_key("acme", SCOPE.agent_id)
    refused(client.lexical, "!!!")
    assert agent_key not in world.partition_rows(IDENTITY_PARTITION)
    client.lexical("bee")
    assert agent_key in world.partition_rows(IDENTITY_PARTITION)


def test_a_full_server_refuses_after_authorization(
    world: MemoryWorld, client: RetrievalClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all slots held 503 is immediate, yet a stranger still gets 401; a freed slot serves again."""
    world.create("bee")
    entered, leave = threading.Semaphore(0), threading.Event()
    bring_up_to_date = Replica._bring_up_to_date

    def hold(*arguments: object) -> None:
        entered.release()
        leave.wait(30)
        bring_up_to_date(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Replica, "_bring_up_to_date", hold)
    holders = [threading.Thread(target=client.lexical, args=("bee",)) for _ in range(2)]
    for holder in holders:
        holder.start()
    entered.acquire(timeout=30)
    # The second waits for the partition that the first holds, with a slot of its own.
    wait_until(lambda: refused_or_none(client) == "retrieval_busy", "both slots are held")
    mute = world.issue(subject="mute", capabilities=("memory_write",))
    assert refused(client.lexical, "bee", token=mute) == ("forbidden", None)
    leave.set()
    for holder in holders:
        holder.join()
    assert client.lexical("bee").page.matched_records == 1


def test_many_at_once_see_their_own_writes_and_never_less_than_before(world: MemoryWorld, tmp_path: Path) -> None:
    """Writers find what they have just written; what a reader counts never falls."""
    with running_retrieval(world, tmp_path, Settings(max_concurrent_retrievals=64)) as client:
        written = threading.Event()

        def write_and_look(number: int) -> list[int]:
            matches = []
            for step in range(12):
                world.create(f"bee bee{number}x{step}")
                matches.append(client.lexical(f"bee{number}x{step}").page.matched_records)
            return matches

        def count_again() -> list[int]:
            counts = []
            while not written.is_set():
                counts.append(client.lexical("bee").page.matched_records)
            return counts

        with ThreadPoolExecutor(8) as pool:
            readers = [pool.submit(count_again) for _ in range(4)]
            writers = [pool.submit(write_and_look, number) for number in range(4)]
            try:
                found = [writer.result() for writer in writers]
            finally:
                written.set()
            counted = [reader.result() for reader in readers]
        assert found == [[1] * 12] * 4
        assert all(counts == sorted(counts) for counts in counted)
        assert client.lexical("bee").page.matched_records == 48


def test_graph_routes_answer_records_paths_and_relations(world: MemoryWorld, client: RetrievalClient) -> None:
    """Graph search, typed graph and ancestry over the same three records."""
    bee, flower = world.create("bee"), world.create("flower")
    honey = world.create("honey", event_time_millis=world.clock.ms + 1)
    first = world.execute(AssertRelation(relation_input(bee, flower, "supports")))["relation_id"]
    second = world.execute(AssertRelation(relation_input(flower, honey, "temporal_before")))["relation_id"]
    derived = world.execute(DeriveRecord(record_input("derived"), derivation(bee, honey)))
    scope, metadata = scope_message(SCOPE.as_json()), world.authorization()
    seed = graph_search_pb2.GraphSeed(lexical=graph_search_pb2.LexicalSeed(text="bee"))
    page = client.stub.SearchGraph(
        pb.SearchGraphRequest(
            contract_version=1,
            scope=scope,
            query=graph_search_pb2.GraphQuery(ranking_version=1, seed=seed, limit=10),
        ),
        metadata=metadata,
    ).page
    assert [hit.record.record_id for hit in page.hits] == [bee.record_id, flower.record_id, honey.record_id]
    steps = page.hits[2].graph.steps
    assert [step.relation_id for step in steps] == [first, second]
    assert (steps[0].from_record.record_id, steps[1].to_record.record_id) == (bee.record_id, honey.record_id)
    assert [relation.relation_id for relation in page.relations] == sorted([first, second])
    assert page.seed.selected_anchors[0].record_id == bee.record_id
    assert page.coverage.complete
    assert page.evaluated_at_millis == world.clock.ms
    graph = client.stub.TraverseTypedGraph(
        pb.TraverseTypedGraphRequest(
            contract_version=1,
            scope=scope,
            query=traversal_pb2.TypedGraphQuery(root_record_ids=[bee.record_id], max_depth=1),
        ),
        metadata=metadata,
    ).graph
    assert [(node.record.record_id, node.depth) for node in graph.nodes] == [(bee.record_id, 0), (flower.record_id, 1)]
    assert [edge.relation_id for edge in graph.edges] == [first]
    assert list(graph.coverage.stop_reasons) == [traversal_pb2.TRAVERSAL_STOP_REASON_DEPTH_LIMIT]
    ancestry = client.stub.TraceAncestry(
        pb.TraceAncestryRequest(
            contract_version=1,
            scope=scope,
            query=traversal_pb2.AncestryQuery(root_record_ids=[derived["record_id"]]),
        ),
        metadata=metadata,
    ).graph
    assert sorted(edge.target.record_id for edge in ancestry.edges) == sorted([bee.record_id, honey.record_id])
    assert {edge.relation for edge in ancestry.edges} == {"derived_from"}
    assert (ancestry.max_depth, ancestry.node_limit, ancestry.coverage.complete) == (4, 128, True)


def refused_or_none(client: RetrievalClient) -> str | None:
    """Reason why a search in another, empty workspace is refused now; None when it is served."""
    request = pb.SearchLexicalRequest(
        contract_version=1,
        scope=scope_message({**SCOPE.as_json(), "project_id": "elsewhere"}),
        mode=LEXICAL,
        query=searches_pb2.LexicalQuery(text="bee", limit=1),
    )
    try:
        return refused(client.stub.SearchLexical, request, metadata=client.world.authorization())[0]
    except AssertionError:
        return None


@pytest.mark.parametrize("search", ["lexical", "semantic", "hybrid", "graph"])
def test_a_page_that_fits_no_message_is_refused(
    world: MemoryWorld, client: RetrievalClient, monkeypatch: pytest.MonkeyPatch, search: str
) -> None:
    """More record bytes than an answer carries are 400 naming the limit, never a failure; fewer hits are answered."""
    for text in ("bees one", "bees two"):
        record = world.create(text)
        world.execute(embedding(record, EAST))
    scope = scope_message(SCOPE.as_json())
    seed = graph_search_pb2.GraphSeed(lexical=graph_search_pb2.LexicalSeed(text="bees"))

    def ask(limit: int) -> Any:
        match search:
            case "lexical":
                return client.lexical("bees", limit=limit)
            case "semantic":
                return client.semantic(EAST, limit=limit)
            case "hybrid":
                return client.hybrid("bees", EAST, limit=limit)
        query = graph_search_pb2.GraphQuery(ranking_version=1, seed=seed, limit=limit)
        request = pb.SearchGraphRequest(contract_version=1, scope=scope, query=query)
        return client.stub.SearchGraph(request, metadata=world.authorization())

    both = 2 * len(world.rows()[keys.record_key(record.record_id)])
    monkeypatch.setattr("services.retrieval.answer_bytes.HIT_BYTES_MAX", both - 1)
    assert len(ask(1).page.hits) == 1
    assert refused(lambda: ask(2)) == ("invalid_request", "query.limit")


def test_a_page_within_its_bound_fits_a_message() -> None:
    """What receipts, relations and paths add to the records has room, by a wide margin."""
    assert HIT_BYTES_MAX + 8 * 1024 * 1024 <= MESSAGE_BYTES_MAX

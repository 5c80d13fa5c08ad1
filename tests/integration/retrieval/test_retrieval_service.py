"""The retrieval service on a real socket: authority, freshness, admission, graph routes and messages too large."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from services.domain import keys
from services.domain.scope import IDENTITY_PARTITION
from services.memory.commands import AssertRelation, DeriveRecord
from services.retrieval.answer_bytes import HIT_BYTES_MAX
from services.retrieval.replica import Replica
from services.retrieval.settings import Settings
from services.runtime.common_messages import scope_message
from services.runtime.transport import MESSAGE_BYTES_MAX
from tests.harness.memory_world import SCOPE, MemoryWorld, derivation, embedding, record_input, relation_input
from tests.harness.retrieval_server import LEXICAL, RetrievalClient, refused, running_retrieval
from tests.harness.suite import wait_until
from waggle.retrieval.v1 import graph_search_pb2, searches_pb2, traversal_pb2
from waggle.retrieval.v1 import retrieval_service_pb2 as pb

EAST = (1.0, 0.0, 0.0, 0.0)


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

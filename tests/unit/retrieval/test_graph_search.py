"""Graph search end to end on small partitions made by hand."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from services.domain.eligibility import DependencyCache
from services.domain.errors import InvalidRequest
from services.domain.relations import RELATION_KINDS
from services.retrieval.graph_search import GraphPage, GraphQuery, search_graph
from services.retrieval.partition import Partition
from services.retrieval.profiles import GRAPH_PROFILES, HYBRID_PROFILES, GraphRankingProfile
from services.retrieval.seed import HybridSeed, LexicalSeed, Seed, SemanticSeed
from services.retrieval.traversal import Expansion
from services.retrieval.view import Filter
from tests.reference.building import NOW_MS, SPACE, WorldBuilder, letter_id, letter_of, number_of
from tests.reference.loading import partition_of

ALDER = LexicalSeed(("alder",))
EAST = np.array([1, 0], np.float32)


def ask(
    view: Partition, seed: Seed = ALDER, *, profile: GraphRankingProfile = GRAPH_PROFILES[0], **members: Any
) -> GraphPage:
    query = GraphQuery(profile, seed, members.pop("limit", 100), **members)
    return search_graph(view, query, cache=DependencyCache(view), now_ms=NOW_MS)


def letters(view: Partition, page: GraphPage) -> str:
    return "".join(letter_of(view.record_id(hit.row)) for hit in page.hits)


def test_a_record_that_matches_nothing_is_found_through_its_relation() -> None:
    """The answer names anchor, steps with their direction, and carries the relation that was used."""
    builder = WorldBuilder().record("a").record("b", "!!!").record("c", "birch").relate(1, "ba").relate(2, "cb")
    view = partition_of(builder.world)
    page = ask(view)
    assert letters(view, page) == "abc"
    found = page.hits[2].graph
    assert found is not None
    walked = [(step.outgoing, *map(view.record_id, (step.from_row, step.to_row))) for step in found.steps]
    assert walked == [(False, letter_id("a"), letter_id("b")), (False, letter_id("b"), letter_id("c"))]
    assert (found.rank, found.strength, found.contribution) == (3, 1 / 12, 0.75 / 5)
    assert page.hits[2].base is None
    assert page.hits[2].score == 0.75 / 5
    assert [number_of(view.relation(index).relation_id) for index in page.relations] == [1, 2]


def test_scores_are_those_of_the_documented_table() -> None:
    """Anchors of both ranks one to four have the documented sums."""
    view = partition_of(WorldBuilder().records("abcd").world)
    page = ask(view)
    assert [hit.score for hit in page.hits] == [0.3333333333333333, 0.25, 0.2, 0.16666666666666666]
    assert [hit.base.contribution for hit in page.hits if hit.base] == [
        0.08333333333333333,
        0.0625,
        0.05,
        0.041666666666666664,
    ]


def test_no_seed_hit_means_an_empty_graph() -> None:
    """No substitute roots are chosen; nothing was cut."""
    view = partition_of(WorldBuilder().records("ab", text="birch").relate(1, "ab").world)
    page = ask(view)
    assert (page.hits, page.graph_roots, page.relations, page.graph_candidates) == ((), (), (), 0)
    assert page.coverage.complete


def test_an_empty_partition_is_complete() -> None:
    """Also for a query with a vector: nothing lacks one."""
    page = ask(partition_of(WorldBuilder().world), SemanticSeed(SPACE, EAST))
    assert page.seed.selection.embedding_coverage == "empty_corpus"
    assert page.coverage.complete


def test_only_paths_of_returned_hits_bring_their_relations() -> None:
    """A cut to fewer hits cuts the relations as well; an intermediate record need not be a hit."""
    builder = WorldBuilder().records("abcd").records("xyz", text="birch")
    view = partition_of(builder.relate(1, "ax").relate(2, "xy").relate(3, "dz").world)
    assert ask(view, limit=4).relations == ()
    page = ask(view, limit=5)
    assert letters(view, page) == "abcdx"
    assert [number_of(view.relation(index).relation_id) for index in page.relations] == [1]


def test_anchors_beyond_the_node_budget_are_not_examined() -> None:
    """They have no graph part, keep their base part, and are a node cut."""
    view = partition_of(WorldBuilder().records("abcd").world)
    page = ask(view, expansion=Expansion(node_limit=2))
    assert [root.status for root in page.graph_roots] == ["included", "included", "not_examined", "not_examined"]
    assert [hit.graph is None for hit in page.hits] == [False, False, True, True]
    assert page.graph_coverage.stop_reasons == ("node_limit",)
    assert not page.coverage.graph_complete
    assert not page.coverage.complete


def test_the_filter_holds_for_neighbours() -> None:
    """A neighbour without the tag is no bridge, but is looked up."""
    builder = WorldBuilder().record("a", tags=("red",)).record("b", "birch").record("c", "birch", tags=("red",))
    view = partition_of(builder.relate(1, "ab").relate(2, "bc").world)
    page = ask(view, narrowing=Filter(tag="red"))
    assert letters(view, page) == "a"
    assert page.graph_coverage.records_examined == 2


def test_affinity_counts_every_included_record_once() -> None:
    """Pool cosines are reused, others read; a stale or missing binding on a path is named and scored with one half."""
    builder = (
        WorldBuilder()
        .record("a", vector=(1, 0))
        .record("s", "birch", revision=2, vector=(1, 0), bound_revision=1)
        .record("m", "birch")
        .record("z", "birch", vector=(-1, 1))
    )
    builder.relate(1, "as", revisions=(1, 2)).relate(2, "sm", revisions=(2, 1)).relate(3, "mz")
    view = partition_of(builder.world)
    page = ask(view, SemanticSeed(SPACE, EAST, min_score=0.5), expansion=Expansion(max_depth=3))
    assert letters(view, page) == "asmz"
    work = page.affinity_work
    assert (work.reused_scores, work.lookups, work.current_bindings) == (1, 3, 2)
    assert (work.missing_bindings, work.stale_bindings) == (1, 1)
    last = page.hits[3].graph
    assert last is not None
    assert [letter_of(view.record_id(row)) for row in last.missing_affinity] == ["s", "m"]
    assert last.strength == 1 / 3 * 0.5 * 0.5 * 0.5 * 0.5 * 0.5 * 0.5
    assert page.hits[3].cosine == pytest.approx(-(0.5**0.5))
    assert not page.coverage.embeddings_complete


def test_a_hit_of_the_base_alone_has_its_cosine() -> None:
    """Affinity is null only where no current binding exists, whoever found the record."""
    builder = WorldBuilder().records("abcd", vector=(1, 0)).record("e", vector=(0, 1)).record("f")
    view = partition_of(builder.world)
    seed = HybridSeed(("alder",), SPACE, EAST, HYBRID_PROFILES[1], min_score=0.5)
    page = ask(view, seed)
    cosines = {letter_of(view.record_id(hit.row)): (hit.graph is None, hit.cosine) for hit in page.hits}
    assert cosines["e"] == (True, 0.0)
    assert cosines["f"] == (True, None)
    assert page.affinity_work.reused_scores == 4
    assert all(hit.cosine is None for hit in ask(view).hits)


def test_a_missing_vector_on_an_inspected_record_breaks_completeness_of_embeddings() -> None:
    """Also when the record is not returned, and when the base scan saw all its own."""
    builder = WorldBuilder().record("a", vector=(1, 0)).record("b", "birch").relate(1, "ab")
    view = partition_of(builder.world)
    seed = SemanticSeed(SPACE, EAST)
    assert not ask(view, seed, limit=1).coverage.embeddings_complete
    # A scan that is cut before b has complete embeddings; b is then inspected through the relation.
    page = ask(view, seed, scan_limit=1)
    assert page.seed.selection.embedding_coverage == "complete"
    assert not page.coverage.source_complete
    assert not page.coverage.embeddings_complete


def test_bindings_beyond_the_byte_limit_are_refused() -> None:
    """No partial answer."""
    builder = WorldBuilder().record("a", vector=(1, 0)).record("b", "birch", vector=(1, 1)).relate(1, "ab")
    view = partition_of(builder.world)
    seed = SemanticSeed(SPACE, EAST, min_score=0.9)
    size = len(builder.world.bindings[letter_id("b"), SPACE].encode())
    assert ask(view, seed, embedding_bytes_limit=size).affinity_work.bytes_read == size
    with pytest.raises(InvalidRequest):
        ask(view, seed, embedding_bytes_limit=size - 1)


def test_a_full_pool_is_said_to_be_truncated() -> None:
    """At 101 matches, not at 100."""
    builder = WorldBuilder()
    for number in range(100):
        builder.record(chr(200 + number))
    assert not ask(partition_of(builder.world)).seed.truncated
    page = ask(partition_of(builder.record("a").world))
    assert page.seed.truncated
    assert len(page.seed.selection.hits) == 100
    assert not page.coverage.candidates_complete
    assert page.coverage.source_complete


@pytest.mark.parametrize("profile", GRAPH_PROFILES, ids=lambda profile: profile.version)
@pytest.mark.parametrize("max_depth", range(9))
def test_cycles_parallels_and_reverses(profile: GraphRankingProfile, max_depth: int) -> None:
    """Equal assertions keep two ids and use scan budget, give one path through the lower id and no higher score."""
    builder = WorldBuilder().record("a").records("bc", text="birch")
    builder.relate(1, "bc", "same_entity").relate(2, "ca", "same_entity").relate(5, "ab", "same_entity")
    single = partition_of(builder.world)
    before = ask(single, profile=profile, expansion=Expansion(max_depth=max_depth))
    builder.relate(6, "ab", "same_entity").relate(7, "ba", "same_entity").relate(8, "ab", "causal_claim")
    view = partition_of(builder.world)
    after = ask(view, profile=profile, expansion=Expansion(max_depth=max_depth))
    assert after.graph_coverage.adjacency_entries_examined > before.graph_coverage.adjacency_entries_examined
    if profile.version != "typed_path_evidence_v1":
        assert [hit.score for hit in after.hits] == [hit.score for hit in before.hits]
    for hit in after.hits:
        assert hit.graph is not None
        path = [hit.graph.anchor_row, *(step.to_row for step in hit.graph.steps)]
        assert len(set(path)) == len(path)
    if max_depth and profile.version in ("typed_path_balanced_v1", "typed_path_entity_v1"):
        used = [number_of(view.relation(index).relation_id) for index in after.relations]
        assert used == [2, 5]


def test_a_clique_stays_within_its_budgets() -> None:
    """Fifteen records, 210 relations: honest stop reasons, and the same answer each time."""
    builder = WorldBuilder().record("a").records("bcdefghijklmno", text="birch")
    for number, (source, target) in enumerate(itertools.permutations("abcdefghijklmno", 2)):
        builder.relate(number, source + target, RELATION_KINDS[number % 6])
    view = partition_of(builder.world)
    whole = ask(view, expansion=Expansion(max_depth=8))
    assert whole.graph_coverage.complete
    assert whole.graph_coverage.relations_examined == 210
    assert whole.graph_coverage.adjacency_entries_examined == 420
    assert all(len(hit.graph.steps) <= 1 for hit in whole.hits if hit.graph)
    for bounds, reason in (
        ({"edge_limit": 209}, "edge_limit"),
        ({"scan_limit": 419}, "scan_limit"),
        ({"node_limit": 14}, "node_limit"),
        ({"max_depth": 0}, "depth_limit"),
    ):
        cut = ask(view, expansion=Expansion(**bounds))
        assert cut.graph_coverage.stop_reasons == (reason,)
        assert cut == ask(partition_of(builder.world), expansion=Expansion(**bounds))


@pytest.mark.parametrize("vector", [(1e-45, 0), (1e-30, 1e-30), (3e38, 3e38), (-0.0, 1)])
def test_extreme_vectors_have_exact_affinity(vector: tuple[float, float]) -> None:
    """Vectors whose squares leave float32 are compared like any other."""
    builder = WorldBuilder().record("a", vector=vector).record("b", "birch", vector=vector).relate(1, "ab")
    view = partition_of(builder.world)
    seed = HybridSeed(("alder",), SPACE, np.array(vector, np.float32), HYBRID_PROFILES[0], min_score=0.9)
    page = ask(view, seed)
    assert [hit.cosine for hit in page.hits] == [pytest.approx(1, abs=1e-9)] * 2
    assert all(hit.cosine is not None and hit.cosine <= 1 for hit in page.hits)

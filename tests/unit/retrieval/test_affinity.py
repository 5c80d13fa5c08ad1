"""Affinity, and the binding work that it counts."""

from __future__ import annotations

import numpy as np
import pytest

from services.domain.errors import InvalidRequest
from services.retrieval.affinity import AffinityWork, lexical_affinities, measure_affinities
from services.retrieval.profiles import GRAPH_PROFILES
from tests.reference.building import SPACE, WorldBuilder, letter_id
from tests.reference.plain_view import PlainView

QUERY = np.array([1, 0], np.float32)
PROFILE = GRAPH_PROFILES[0]


def builder() -> WorldBuilder:
    """a, b, c with current bindings along, across and against the query; d stale, e without one."""
    return (
        WorldBuilder()
        .record("a", vector=(2, 0))
        .record("b", vector=(0, 1))
        .record("c", vector=(-1, 0))
        .record("d", vector=(1, 0), revision=2, bound_revision=1)
        .record("e")
    )


def binding_bytes(world: WorldBuilder, letters: str) -> int:
    return sum(len(world.world.bindings[letter_id(letter), SPACE].encode()) for letter in letters)


def test_affinity_is_half_plus_half_the_positive_cosine() -> None:
    """Negative cosines count as zero; a missing or stale binding has the profile's value."""
    made = builder()
    found = measure_affinities(PlainView(made.world), SPACE, QUERY, range(5), {}, PROFILE, byte_limit=10_000)
    assert found.affinity_of == {0: 1.0, 1: 0.5, 2: 0.5, 3: 0.5, 4: 0.5}
    assert found.cosine_of == {0: 1.0, 1: 0.0, 2: -1.0}
    assert found.work == AffinityWork(
        requested=True,
        byte_limit=10_000,
        reused_scores=0,
        lookups=5,
        current_bindings=3,
        missing_bindings=1,
        stale_bindings=1,
        bytes_read=binding_bytes(made, "abcd"),
    )


def test_known_cosines_are_not_read_again() -> None:
    """They count as reused and as current; those of other records are not looked at."""
    made = builder()
    known = {0: 0.25, 2: -0.5, 99: 1.0}
    found = measure_affinities(PlainView(made.world), SPACE, QUERY, [0, 1, 2], known, PROFILE, byte_limit=10_000)
    assert found.affinity_of == {0: 0.625, 1: 0.5, 2: 0.5}
    assert found.cosine_of == {0: 0.25, 1: 0.0, 2: -0.5}
    assert (found.work.reused_scores, found.work.lookups, found.work.current_bindings) == (2, 1, 3)
    assert found.work.bytes_read == binding_bytes(made, "b")


def test_bytes_that_do_not_fit_are_refused() -> None:
    """Exactly the limit passes; a further binding, stale or not, makes the request too large."""
    made = builder()
    view = PlainView(made.world)
    room = binding_bytes(made, "abcd")
    assert measure_affinities(view, SPACE, QUERY, range(5), {}, PROFILE, byte_limit=room).work.bytes_read == room
    with pytest.raises(InvalidRequest) as refusal:
        measure_affinities(view, SPACE, QUERY, range(5), {}, PROFILE, byte_limit=room - 1)
    assert refusal.value.member == "query.expansion.embedding_bytes_limit"


def test_a_lexical_query_reads_nothing() -> None:
    """Every counter is zero, the limit is as asked."""
    found = lexical_affinities(77)
    assert found.affinity_of is None
    assert found.cosine_of == {}
    assert found.work == AffinityWork(requested=False, byte_limit=77)

"""Vectors by latent semantic analysis of the texts at hand."""

from __future__ import annotations

import numpy as np
import pytest

from cli.local_vectors import DIMENSIONS_MAX, LatentSpace

TEXTS = [
    "bees gather nectar from flowers",
    "nectar becomes honey in the hive",
    "bees guard the hive and its honey",
    "the compiler parses source code",
    "source code is parsed before the compiler checks types",
    "the compiler emits code and checks types",
]


@pytest.fixture(scope="module")
def space() -> LatentSpace:
    """The space of two small subjects."""
    return LatentSpace(TEXTS)


def test_vectors_are_unit_rows_of_float32(space: LatentSpace) -> None:
    """Every text with a shared term has a vector of length 1."""
    assert ((len(TEXTS), space.dimensions), np.dtype(np.float32)) == (space.vectors.shape, space.vectors.dtype)
    np.testing.assert_allclose(np.linalg.norm(space.vectors, axis=1), 1.0, rtol=1e-6)


def test_texts_of_one_subject_are_closer_than_those_of_two(space: LatentSpace) -> None:
    """That is all that the method promises."""
    likeness = space.vectors @ space.vectors.T
    assert likeness[0, 2] > likeness[0, 3:].max()
    assert likeness[4, 5] > likeness[4, :3].max()


def test_a_text_embeds_to_its_own_vector(space: LatentSpace) -> None:
    """A query goes the same way as the texts did."""
    np.testing.assert_allclose(space.embed(TEXTS[3]), space.vectors[3], atol=1e-6)


def test_unknown_words_give_a_zero_vector(space: LatentSpace) -> None:
    """A query without any known term has no direction; callers must not search with it."""
    assert not space.embed("quantum chromodynamics").any()


def test_both_shapes_of_matrix_give_the_same_likeness() -> None:
    """More texts than terms takes another way to the same decomposition."""
    few_terms = ["a b", "b c", "c a", "a b c", "a", "b", "c", "a b b"]
    space = LatentSpace(few_terms)
    assert space.dimensions <= 3
    likeness = space.vectors @ space.vectors.T
    assert likeness[0, 7] > likeness[0, 6]


def test_the_space_is_named_after_its_vocabulary() -> None:
    """Vectors of other texts are another space, never compared with these."""
    one, two = LatentSpace(TEXTS).space, LatentSpace([*TEXTS, "bees dance", "bees dance again"]).space
    assert (one.provider, one.model) == (two.provider, two.model)
    assert one.revision != two.revision
    assert one.dimensions <= DIMENSIONS_MAX

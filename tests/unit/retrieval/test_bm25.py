"""The formula of bm25_v1."""

from __future__ import annotations

import math

import numpy as np
import pytest

from services.retrieval.bm25 import inverse_document_frequency, length_norms, term_scores


@pytest.mark.parametrize(
    ("corpus_records", "document_frequency", "frequency", "length", "average", "expected"),
    [(3, 1, 1, 5, 5.0, 0.9808292530117263), (3, 2, 2, 6, 4.0, 0.5665797174469143)],
)
def test_the_contracts_samples_come_out(
    corpus_records: int, document_frequency: int, frequency: int, length: int, average: float, expected: float
) -> None:
    """To the last digit."""
    idf = inverse_document_frequency(corpus_records, document_frequency)
    norms = length_norms(np.array([length], np.int32), average)
    assert expected == term_scores(idf, np.array([frequency], np.int32), norms)[0]


def test_columns_equal_the_formula_in_scalars() -> None:
    """Bit for bit: the columns run the same operations in the same order."""
    random = np.random.default_rng(1)
    frequencies = random.integers(1, 50, 400).astype(np.int32)
    lengths = frequencies + random.integers(0, 500, 400).astype(np.int32)
    average = float(lengths.sum() / len(lengths))
    idf = inverse_document_frequency(1000, 400)
    expected = [
        idf * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * length / average))
        for tf, length in zip(frequencies.tolist(), lengths.tolist(), strict=True)
    ]
    assert expected == term_scores(idf, frequencies, length_norms(lengths, average)).tolist()


def test_a_term_in_every_document_still_counts() -> None:
    """The idf is positive for every possible document frequency."""
    assert inverse_document_frequency(7, 7) == math.log(1 + 0.5 / 7.5)
    assert inverse_document_frequency(7, 7) > 0

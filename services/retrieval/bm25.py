"""The formula of `bm25_v1`, in float64.

    idf   = ln(1 + (N - df + 0.5) / (df + 0.5))
    score = sum over query terms of  idf * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * length / average_length))

k1 = 1.2, b = 0.75; operations run from left to right as written. The sum starts at zero and adds the terms in the order
of their first occurrence in the query.

Source: Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009, with the idf that is never negative.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

K1 = 1.2
B = 0.75

Float64Array = npt.NDArray[np.float64]


def inverse_document_frequency(corpus_records: int, document_frequency: int) -> float:
    """How telling a term is; positive for 0 <= document_frequency <= corpus_records."""
    return math.log(1.0 + (corpus_records - document_frequency + 0.5) / (document_frequency + 0.5))


def length_norms(lengths: npt.NDArray[np.int32] | Float64Array, average_length: float) -> Float64Array:
    """The part of the denominator that depends on the document only.

    Args:
        lengths: (documents,) number of tokens.
        average_length: Mean length over the corpus, greater than zero.

    Returns:
        (documents,) float64, K1 * (1 - B + B * length / average_length).
    """
    norms: Float64Array = np.multiply(lengths, B, dtype=np.float64)
    norms /= average_length
    norms += 1.0 - B
    norms *= K1
    return norms


def term_scores(idf: float, frequencies: npt.NDArray[np.int32] | Float64Array, norms: Float64Array) -> Float64Array:
    """Scores of one term in the documents that hold it.

    Args:
        idf: Of the term.
        frequencies: (documents,) occurrences in each document, at least 1.
        norms: (documents,) `length_norms` of the same documents.

    Returns:
        (documents,) float64, positive.
    """
    scores: Float64Array = np.multiply(frequencies, idf, dtype=np.float64)
    scores *= K1 + 1.0
    scores /= frequencies + norms
    return scores

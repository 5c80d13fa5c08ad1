"""Vectors without a model: latent semantic analysis of the texts at hand, in numpy.

It is an honest small method, good enough to show what vector modes do: words that occur in the same texts come close.
It knows nothing of the world beyond those texts, so its embedding space is named after them.
Source: Deerwester, Dumais, Furnas, Landauer, Harshman, "Indexing by latent semantic analysis", JASIS 41 (1990).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from services.retrieval.tokenizer import split_terms
from waggle.common.v1 import embeddings_pb2

DIMENSIONS_MAX = 64
VOCABULARY_MAX = 6000
_REVISION = "1"


class LatentSpace:
    """A space made from texts: weights of terms, and the projection of weighted terms to vectors.

    Args:
        texts: At least two, not all the same.

    Attributes:
        dimensions: Length of the vectors, at most 64.
        vectors: (texts, dimensions) float32, rows of unit length; a text without any known term has a zero row.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        counts = [Counter(split_terms(text)) for text in texts]
        document_frequency = Counter(term for count in counts for term in count)
        # A term of a single text ties it to nothing.
        shared = [(term, frequency) for term, frequency in document_frequency.items() if frequency > 1]
        shared.sort(key=lambda item: (-item[1], item[0]))
        self._terms = {term: column for column, (term, _) in enumerate(shared[:VOCABULARY_MAX])}
        frequencies = np.array([frequency for _, frequency in shared[:VOCABULARY_MAX]], dtype=np.float64)
        self._weights = np.log((1.0 + len(texts)) / (1.0 + frequencies)) + 1.0
        matrix = np.stack([self._weigh(count) for count in counts])
        # The eigenvectors of the smaller of A A' and A' A give the truncated SVD at the least cost.
        if len(texts) <= len(self._terms):
            values, left = np.linalg.eigh(matrix @ matrix.T)
            kept = self._strongest(values)
            self._projection = (matrix.T @ left[:, kept]) / np.sqrt(values[kept])
        else:
            values, right = np.linalg.eigh(matrix.T @ matrix)
            self._projection = right[:, self._strongest(values)]
        self.dimensions = int(self._projection.shape[1])
        self.vectors = _unit_rows(matrix @ self._projection)
        digest = hashlib.sha256("\n".join(self._terms).encode("utf-8")).hexdigest()[:12]
        self._revision = f"{_REVISION}-{digest}"

    @property
    def space(self) -> embeddings_pb2.EmbeddingSpace:
        """Return the identity of the space: the method, and a digest of the vocabulary that it was made from."""
        return embeddings_pb2.EmbeddingSpace(
            provider="local", model="tfidf-truncated-svd", revision=self._revision, dimensions=self.dimensions
        )

    def embed(self, text: str) -> NDArray[np.float32]:
        """Return the vector of another text, (dimensions,) float32 of unit length; zero when it has no known term."""
        vector: NDArray[np.float32] = _unit_rows(self._weigh(Counter(split_terms(text)))[None, :] @ self._projection)[0]
        return vector

    def _weigh(self, count: Counter[str]) -> NDArray[np.float64]:
        row = np.zeros(len(self._terms), dtype=np.float64)
        for term, occurrences in count.items():
            column = self._terms.get(term)
            if column is not None:
                row[column] = (1.0 + np.log(occurrences)) * self._weights[column]
        length = np.linalg.norm(row)
        return row / length if length > 0.0 else row

    @staticmethod
    def _strongest(values: NDArray[np.float64]) -> NDArray[np.intp]:
        order = np.argsort(values)[::-1][:DIMENSIONS_MAX]
        # What is left beyond the rank of the matrix is rounding noise.
        return order[values[order] > 1e-9 * max(1.0, float(values.max()))]


def _unit_rows(rows: NDArray[np.float64]) -> NDArray[np.float32]:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    scaled: NDArray[np.float32] = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 1e-12).astype(
        np.float32
    )
    return scaled

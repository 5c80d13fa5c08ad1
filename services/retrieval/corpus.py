"""The population that one search ranks, with the statistics and masks that follow from it.

Everything but the population itself is made on first use and kept, because the same population usually serves many
searches in a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from services.domain.embeddings import Space
from services.retrieval.bm25 import Float64Array, inverse_document_frequency, length_norms, term_scores
from services.retrieval.record_columns import BoolArray, RecordColumns
from services.retrieval.selection import EmbeddingCoverage
from services.retrieval.text_index import IntArray, Postings, TextIndex
from services.retrieval.vector_space import VectorSpace

# A term in more than one of so many documents is added as a whole column, which is quicker than picking them out.
_DENSE_FRACTION = 3
# Kept term scores of one corpus, in values.
_KEPT_VALUES_MAX = 1 << 18


@dataclass(frozen=True, slots=True)
class TermScores:
    """BM25 parts of one term.

    Attributes:
        documents: (n,) int32 ascending; None when `scores` has one value for every document, zero without the term.
        scores: (n,) float64.
    """

    documents: IntArray | None
    scores: Float64Array


@dataclass(frozen=True, slots=True)
class BoundCorpus:
    """The part of a corpus that has bindings in one space.

    Attributes:
        scanned_embeddings: Records with a binding, stale ones included.
        embedded_records: Records with a current binding.
        current: (slots,) bool, bindings that are ranked; None when all slots are.
    """

    scanned_embeddings: int
    embedded_records: int
    current: BoolArray | None


class Corpus:
    """Eligible records, as a mask over the rows of a partition that does not change meanwhile.

    It knows the partition's parts, not the partition, which holds it in turn: so a partition that is evicted is freed
    at once, not at some later garbage collection.

    Attributes:
        records, texts, spaces: Of the partition.
        eligible: (rows,) bool.
        corpus_records: Number of them: N.
    """

    def __init__(
        self, records: RecordColumns, texts: TextIndex, spaces: Mapping[Space, VectorSpace], eligible: BoolArray
    ) -> None:
        self.records = records
        self.texts = texts
        self.spaces = spaces
        self.eligible = eligible
        self.corpus_records = int(np.count_nonzero(eligible))
        self._is_prepared = False
        self._documents: BoolArray | None = None
        self._norms: Float64Array = np.empty(0, np.float64)
        self._terms: dict[str, TermScores | None] = {}
        self._kept_values = 0
        self._bound: dict[Space, BoundCorpus] = {}

    def term_scores(self, term: str) -> TermScores | None:
        """BM25 parts of a term over the documents of the corpus; None when no document holds it."""
        if term in self._terms:
            return self._terms[term]
        scores = self._score_term(term)
        self._keep(term, scores)
        return scores

    def _keep(self, term: str, scores: TermScores | None) -> None:
        self._terms[term] = scores
        self._kept_values += _kept_values(scores)
        while self._kept_values > _KEPT_VALUES_MAX and len(self._terms) > 1:
            self._kept_values -= _kept_values(self._terms.pop(next(iter(self._terms))))

    def _score_term(self, term: str) -> TermScores | None:
        self._prepare()
        postings = self._postings(term)
        if postings is None:
            return None
        documents, frequencies = postings
        idf = inverse_document_frequency(self.corpus_records, len(documents))
        scores = term_scores(idf, frequencies, self._norms[documents])
        if len(documents) * _DENSE_FRACTION <= len(self._norms):
            return TermScores(documents, scores)
        column = np.zeros(len(self._norms), np.float64)
        column[documents] = scores
        return TermScores(None, column)

    def _postings(self, term: str) -> Postings | None:
        postings = self.texts.postings(term)
        if postings is None or self._documents is None:
            return postings
        kept = self._documents[postings.documents]
        if not kept.any():
            return None
        return Postings(postings.documents[kept], postings.frequencies[kept])

    def _prepare(self) -> None:
        """Find the documents of the corpus, unless they are all that live, and their length norms."""
        if self._is_prepared:
            return
        texts = self.texts
        lengths = texts.document_length.living
        # Every eligible record has one living document, so equal numbers mean the same documents.
        documents: BoolArray = texts.living & self.eligible[texts.document_row.living]
        total = int(lengths[documents].sum())
        if total:
            self._norms = length_norms(lengths, total / self.corpus_records)
        else:
            # Without a single token nothing can match.
            self._norms = np.ones(len(lengths), np.float64)
        self._documents = None if int(np.count_nonzero(texts.living)) == self.corpus_records else documents
        self._is_prepared = True

    def bound(self, space: Space) -> BoundCorpus:
        """The part with bindings in a space."""
        found = self._bound.get(space)
        if found is None:
            found = self._bound[space] = self._find_bound(space)
        return found

    def _find_bound(self, space: Space) -> BoundCorpus:
        vectors = self.spaces.get(space)
        if vectors is None:
            return BoundCorpus(0, 0, None)
        rows = vectors.slot_row.living
        in_corpus = self.eligible[rows]
        current: BoolArray = in_corpus & (vectors.bound_revision.living == self.records.revision.living[rows])
        embedded = int(np.count_nonzero(current))
        return BoundCorpus(int(np.count_nonzero(in_corpus)), embedded, None if embedded == len(rows) else current)

    def embedding_coverage(self, space: Space) -> EmbeddingCoverage:
        """How much of the corpus has a current binding."""
        if not self.corpus_records:
            return "empty_corpus"
        embedded = self.bound(space).embedded_records
        if embedded == self.corpus_records:
            return "complete"
        return "partial" if embedded else "missing"


def _kept_values(scores: TermScores | None) -> int:
    return 1 if scores is None else len(scores.scores)


def sort_best(
    rows: npt.NDArray[np.integer], scores: Float64Array, id_rank: npt.NDArray[np.integer], limit: int
) -> tuple[npt.NDArray[np.integer], Float64Array]:
    """The best rows: score descending, then record id ascending.

    Args:
        rows: (n,) distinct rows.
        scores: (n,) float64, no NaN and no -0.0.
        id_rank: Position of every row in ascending record id.
        limit: Most rows to keep.
    """
    if len(rows) > limit:
        cut = np.partition(scores, len(scores) - limit)[len(scores) - limit]
        kept = np.flatnonzero(scores >= cut)
        rows, scores = rows[kept], scores[kept]
    order = np.lexsort((id_rank[rows], -scores))[:limit]
    return rows[order], scores[order]

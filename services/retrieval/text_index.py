"""An inverted index: term -> documents with term frequencies, packed in arrays, with a small tail of recent documents.

A document is one text of a row. A changed text is a new document and the old one is dead: postings only grow at the
end, and are packed anew when tail or dead documents become many.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from services.retrieval.growable import GrowableArray

IntArray = npt.NDArray[np.int32]

_NONE = -1
# The tail is packed when it holds more than this and than an eighth of the packed postings.
_TAIL_POSTINGS_MIN = 8_192
_DEAD_DOCUMENTS_MIN = 1_024
_TERM_OVERHEAD_BYTES = 180
_TAIL_POSTING_BYTES = 72


class Postings(NamedTuple):
    """Living documents that hold a term, ascending, and how often each does; both (documents,) int32."""

    documents: IntArray
    frequencies: IntArray


class TextIndex:
    """The index of one partition.

    Attributes:
        document_row: (documents,) int32, row of each document, dead ones included.
        document_length: (documents,) int32, number of tokens.
    """

    def __init__(self) -> None:
        self.document_row = GrowableArray(np.int32)
        self.document_length = GrowableArray(np.int32)
        self._is_living = GrowableArray(np.bool_)
        self._document_of_row: dict[int, int] = {}
        self._dead_count = 0
        self._vocabulary: dict[str, int] = {}
        # Postings of term t are packed in [offsets[t], offsets[t + 1]).
        self._offsets: npt.NDArray[np.int64] = np.zeros(1, np.int64)
        self._documents: IntArray = np.empty(0, np.int32)
        self._frequencies: IntArray = np.empty(0, np.int32)
        # Of each term: document, frequency, document, frequency, ...
        self._tails: dict[int, list[int]] = {}
        self._tail_postings = 0

    def __len__(self) -> int:
        """Number of documents, dead ones included."""
        return len(self.document_row)

    @property
    def memory_bytes(self) -> int:
        """Estimate of the memory held."""
        arrays = self._offsets.nbytes + self._documents.nbytes + self._frequencies.nbytes
        columns = self.document_row.reserved_bytes + self.document_length.reserved_bytes
        terms = len(self._vocabulary) * _TERM_OVERHEAD_BYTES + self._tail_postings * _TAIL_POSTING_BYTES
        return arrays + columns + terms + len(self._document_of_row) * 100

    @property
    def has_dead(self) -> bool:
        """Some documents are dead."""
        return self._dead_count > 0

    @property
    def living(self) -> npt.NDArray[np.bool_]:
        """(documents,) bool."""
        return self._is_living.living

    def terms(self) -> Iterable[str]:
        """Every term that a document holds or has held."""
        return self._vocabulary.keys()

    def put(self, row: int, terms: Sequence[str]) -> None:
        """Make this the text of a row. `settle` must follow before anything is looked up."""
        self.remove(row)
        document = self._append_document(row, len(terms))
        vocabulary = self._vocabulary
        for term, frequency in Counter(terms).items():
            tail = self._tails.setdefault(vocabulary.setdefault(term, len(vocabulary)), [])
            tail.append(document)
            tail.append(frequency)
            self._tail_postings += 1

    def remove(self, row: int) -> None:
        """The row has no text any more."""
        document = self._document_of_row.pop(row, _NONE)
        if document != _NONE:
            self._is_living.living[document] = False
            self._dead_count += 1

    def settle(self) -> None:
        """Pack when it is worth it."""
        if self._dead_count > max(_DEAD_DOCUMENTS_MIN, len(self) // 4):
            self._pack_tails()
            self._drop_dead()
        elif self._tail_postings > max(_TAIL_POSTINGS_MIN, len(self._documents) // 8):
            self._pack_tails()

    def postings(self, term: str) -> Postings | None:
        """Living documents that hold a term; None when there is none."""
        code = self._vocabulary.get(term)
        if code is None:
            return None
        if code + 1 < len(self._offsets):
            packed = slice(self._offsets[code], self._offsets[code + 1])
            documents, frequencies = self._documents[packed], self._frequencies[packed]
        else:
            documents, frequencies = self._documents[:0], self._frequencies[:0]
        tail = self._tails.get(code)
        if tail is not None:
            documents = np.concatenate((documents, np.array(tail[::2], np.int32)))
            frequencies = np.concatenate((frequencies, np.array(tail[1::2], np.int32)))
        if self._dead_count:
            living = self._is_living.living[documents]
            documents, frequencies = documents[living], frequencies[living]
        return Postings(documents, frequencies) if len(documents) else None

    def _append_document(self, row: int, length: int) -> int:
        document = self.document_row.append(row)
        self.document_length.append(length)
        self._is_living.append(True)
        self._document_of_row[row] = document
        return document

    def _pack_tails(self) -> None:
        if not self._tails:
            return
        packed_terms = len(self._offsets) - 1
        codes = sorted(self._tails)
        flat = np.array([number for code in codes for number in self._tails[code]], np.int32)
        sizes = np.array([len(self._tails[code]) // 2 for code in codes], np.int64)
        ends = self._offsets[np.minimum(np.array(codes, np.int64) + 1, packed_terms)]
        places = np.repeat(ends, sizes)
        # Tail documents are younger than packed ones, so a term's own end is where they belong.
        self._documents = np.insert(self._documents, places, flat[::2])
        self._frequencies = np.insert(self._frequencies, places, flat[1::2])
        counts = np.zeros(len(self._vocabulary), np.int64)
        counts[:packed_terms] = np.diff(self._offsets)
        counts[codes] += sizes
        self._offsets = _offsets_from_counts(counts)
        self._tails = {}
        self._tail_postings = 0

    def _drop_dead(self) -> None:
        living = self._is_living.living.copy()
        renumbered = np.cumsum(living, dtype=np.int32) - 1
        kept = living[self._documents]
        terms = np.repeat(np.arange(len(self._offsets) - 1), np.diff(self._offsets))[kept]
        self._documents = renumbered[self._documents[kept]]
        self._frequencies = self._frequencies[kept]
        counts = np.bincount(terms, minlength=len(self._offsets) - 1)
        # Terms that no document holds any more leave the vocabulary.
        used = counts > 0
        codes = np.cumsum(used) - 1
        self._vocabulary = {term: int(codes[code]) for term, code in self._vocabulary.items() if used[code]}
        self._offsets = _offsets_from_counts(counts[used])
        self.document_row.replace(self.document_row.living[living])
        self.document_length.replace(self.document_length.living[living])
        self._is_living.replace(np.ones(len(self.document_row), np.bool_))
        self._document_of_row = {row: document for document, row in enumerate(self.document_row.living.tolist())}
        self._dead_count = 0


class TextIndexBuilder:
    """Builds a packed index from many texts at once."""

    def __init__(self) -> None:
        self._vocabulary: defaultdict[str, int] = defaultdict(count().__next__)
        self._code_of: Callable[[str], int] = self._vocabulary.__getitem__
        self._tokens = array("i")
        self._rows = array("i")
        self._lengths = array("i")

    def put(self, row: int, terms: Sequence[str]) -> None:
        """Add the text of a row; each row at most once."""
        self._tokens.extend(map(self._code_of, terms))
        self._rows.append(row)
        self._lengths.append(len(terms))

    def build(self) -> TextIndex:
        """The index of everything that was put. The builder is spent."""
        index = TextIndex()
        tokens = np.frombuffer(self._tokens, np.int32) if self._tokens else np.empty(0, np.int32)
        lengths = np.array(self._lengths, np.int32)
        document_count = len(lengths)
        index.document_row.replace(np.array(self._rows, np.int32))
        index.document_length.replace(lengths)
        index._is_living.replace(np.ones(document_count, np.bool_))
        index._document_of_row = {row: document for document, row in enumerate(self._rows)}
        index._vocabulary = dict(self._vocabulary)
        # One number for each token that sorts by term, then document; equal ones are one posting.
        keys = tokens.astype(np.int64)
        keys *= max(1, document_count)
        keys += np.repeat(np.arange(document_count, dtype=np.int64), lengths)
        keys.sort()
        starts = np.flatnonzero(np.concatenate((np.ones(min(1, len(keys)), np.bool_), keys[1:] != keys[:-1])))
        index._frequencies = np.diff(starts, append=len(keys)).astype(np.int32)
        terms, documents = np.divmod(keys[starts], max(1, document_count))
        index._documents = documents.astype(np.int32)
        index._offsets = _offsets_from_counts(np.bincount(terms, minlength=len(index._vocabulary)))
        return index


def _offsets_from_counts(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets

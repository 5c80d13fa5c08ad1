"""The records of one partition as columns: one row a record, tombstones included."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np
import numpy.typing as npt

from services.domain.canonical_json import canonical_bytes
from services.domain.records import RecordState, SourceRef, source_ref_from_json
from services.retrieval.growable import GrowableArray
from services.retrieval.view import Filter

BoolArray = npt.NDArray[np.bool_]
RowArray = npt.NDArray[np.int32]

NEVER_MS = np.iinfo(np.int64).max
"""Stands for "no expiry" in `valid_until_ms`."""

_NO_TYPE = -1
# Objects that a row holds besides its arrays and its answer: id, entries of lists and of the id map.
_ROW_OVERHEAD_BYTES = 320
# Up to this many new rows are put into the order one by one; more are sorted.
_SINGLE_INSERTIONS_MAX = 32


class RecordColumns:
    """Columns over rows; a row keeps its number.

    Attributes:
        ids: Record id of each row.
        row_by_id: Row of each record id.
        revision: (rows,) uint64.
        size_bytes: (rows,) int64, length of the stored form.
        valid_until_ms: (rows,) int64, exclusive; NEVER_MS for none.
        is_candidate: (rows,) bool, neither deleted nor rejected: what has a candidate entry.
        is_derived: (rows,) bool, names sources.
        answers: Of each row, the record as answers carry it.
    """

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.revision = GrowableArray(np.uint64)
        self.size_bytes = GrowableArray(np.int64)
        self.valid_until_ms = GrowableArray(np.int64)
        self.is_candidate = GrowableArray(np.bool_)
        self.is_derived = GrowableArray(np.bool_)
        self.answers: list[bytes] = []
        self.row_by_id: dict[str, int] = {}
        self._is_deleted = GrowableArray(np.bool_)
        self._is_rejected = GrowableArray(np.bool_)
        self._type_code = GrowableArray(np.int32)
        self._code_by_type: dict[str, int] = {}
        self._rows_by_tag: dict[str, set[int]] = {}
        self._tags: dict[int, tuple[str, ...]] = {}
        self._sources: dict[int, tuple[SourceRef, ...]] = {}
        # Rows in ascending id order, and the position of each row in it.
        self.order: RowArray = np.empty(0, np.int32)
        self.id_rank: RowArray = np.empty(0, np.int32)
        self._answer_bytes = 0
        self._unfilled: set[int] = set()

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def has_unfilled(self) -> bool:
        """Some record was claimed but never put."""
        return bool(self._unfilled)

    @property
    def memory_bytes(self) -> int:
        """Estimate of the memory held."""
        columns = (self.revision, self.size_bytes, self.valid_until_ms, self.is_candidate, self.is_derived)
        arrays = sum(column.reserved_bytes for column in columns) + self._type_code.reserved_bytes
        return arrays + self._answer_bytes + len(self.ids) * _ROW_OVERHEAD_BYTES

    def put(self, record: Mapping[str, Any], *, size_bytes: int, answer: bytes) -> int:
        """Take over a record at its current revision. `settle_order` must follow before ids are compared.

        Args:
            record: The stored object.
            size_bytes: Length of its stored form.
            answer: The record as answers carry it.

        Returns:
            Its row.
        """
        record_id: str = record["record_id"]
        payload: Mapping[str, Any] | None = record["payload"]
        review: Mapping[str, Any] | None = record["review"]
        derivation: Mapping[str, Any] | None = record["derivation"]
        row = self.claim(record_id)
        self._unfilled.discard(row)
        is_deleted = payload is None
        is_rejected = review is not None and review["disposition"] == "rejected"
        valid_until_ms = None if payload is None else payload["valid_until_millis"]
        self.revision.living[row] = record["revision"]
        self.size_bytes.living[row] = size_bytes
        self.valid_until_ms.living[row] = NEVER_MS if valid_until_ms is None else valid_until_ms
        self.is_candidate.living[row] = not (is_deleted or is_rejected)
        self.is_derived.living[row] = derivation is not None
        self._is_deleted.living[row] = is_deleted
        self._is_rejected.living[row] = is_rejected
        self._sources.pop(row, None)
        if derivation is not None:
            self._sources[row] = tuple(map(source_ref_from_json, derivation["sources"]))
        self._put_labels(row, payload)
        self._answer_bytes += len(answer) - len(self.answers[row])
        self.answers[row] = answer
        return row

    def claim(self, record_id: str) -> int:
        """The row of a record, which may be put later."""
        row = self.row_by_id.get(record_id)
        if row is not None:
            return row
        row = len(self.ids)
        self._unfilled.add(row)
        self.ids.append(record_id)
        self.row_by_id[record_id] = row
        self.answers.append(b"")
        for column in (self.revision, self.size_bytes, self.valid_until_ms, self._type_code):
            column.append(0)
        for flag in (self.is_candidate, self.is_derived, self._is_deleted, self._is_rejected):
            flag.append(False)
        return row

    def _put_labels(self, row: int, payload: Mapping[str, Any] | None) -> None:
        for tag in self._tags.pop(row, ()):
            self._rows_by_tag[tag].discard(row)
            if not self._rows_by_tag[tag]:
                del self._rows_by_tag[tag]
        if payload is None:
            self._type_code.living[row] = _NO_TYPE
            return
        self._type_code.living[row] = self._code_by_type.setdefault(
            canonical_bytes(payload["episode_type"]).decode(), len(self._code_by_type)
        )
        if payload["tags"]:
            tags = self._tags[row] = tuple(payload["tags"])
            for tag in tags:
                self._rows_by_tag.setdefault(tag, set()).add(row)

    def type_word(self, row: int) -> str | None:
        """Type of a record as canonical JSON; None for a tombstone."""
        code = int(self._type_code.living[row])
        return next((word for word, known in self._code_by_type.items() if known == code), None)

    def tagged(self) -> Mapping[str, Set[int]]:
        """Rows by tag, as filters look them up."""
        return self._rows_by_tag

    def settle_order(self) -> None:
        """Bring new rows into id order."""
        count, known = len(self.ids), len(self.order)
        if count == known:
            return
        if count - known > _SINGLE_INSERTIONS_MAX:
            self.order = np.array(sorted(range(count), key=self.ids.__getitem__), np.int32)
        else:
            for row in range(known, count):
                place = bisect_left(self.order, self.ids[row], key=self.ids.__getitem__)
                self.order = np.insert(self.order, place, row)
        self.id_rank = np.empty(count, np.int32)
        self.id_rank[self.order] = np.arange(count, dtype=np.int32)

    def rank_after(self, record_id: str) -> int:
        """Position in id order of the first record whose id is greater; the id itself need not exist."""
        return bisect_right(self.order, record_id, key=self.ids.__getitem__)

    def state(self, row: int) -> RecordState:
        """What eligibility needs to know of a record."""
        valid_until_ms = int(self.valid_until_ms.living[row])
        return RecordState(
            self.ids[row],
            int(self.revision.living[row]),
            bool(self._is_deleted.living[row]),
            None if valid_until_ms == NEVER_MS else valid_until_ms,
            bool(self._is_rejected.living[row]),
            self.sources(row),
            int(self.size_bytes.living[row]),
        )

    def sources(self, row: int) -> Sequence[SourceRef]:
        """Sources of a derived record in stored order, else empty."""
        return self._sources.get(row, ())

    def is_servable_alone(self, row: int, now_ms: int) -> bool:
        """Not deleted, rejected or expired; sources aside."""
        return bool(self.is_candidate.item(row) and now_ms < self.valid_until_ms.item(row))

    def matches(self, row: int, narrowing: Filter) -> bool:
        """The record passes the filter. Tombstones pass only an open one."""
        if narrowing.episode_type is not None:
            code = self._code_by_type.get(narrowing.episode_type)
            if code is None or self._type_code.living[row] != code:
                return False
        return narrowing.tag is None or row in self._rows_by_tag.get(narrowing.tag, ())

    def candidates(self, narrowing: Filter) -> BoolArray:
        """(rows,) bool: has a candidate entry and passes the filter. A fresh array."""
        mask: BoolArray = self.is_candidate.living.copy()
        if narrowing.episode_type is not None:
            mask &= self._type_code.living == self._code_by_type.get(narrowing.episode_type, _NO_TYPE - 1)
        if narrowing.tag is not None:
            tagged = np.zeros(len(mask), np.bool_)
            rows = self._rows_by_tag.get(narrowing.tag, ())
            tagged[np.fromiter(rows, np.int64, len(rows))] = True
            mask &= tagged
        return mask

    def next_expiry_ms(self, now_ms: int) -> int:
        """The first clock value after `now_ms` at which any record expires; NEVER_MS for none."""
        upcoming = self.valid_until_ms.living
        upcoming = upcoming[upcoming > now_ms]
        return int(upcoming.min()) if len(upcoming) else int(NEVER_MS)

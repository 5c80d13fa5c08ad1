"""The bindings of one partition in one embedding space: a float32 matrix, and what each of its rows is bound to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from services.domain.embeddings import Float32Vector, Space
from services.retrieval.cosine import Float64Array, exact_cosines, scale_rows, vector_norms
from services.retrieval.growable import GrowableArray
from services.retrieval.view import BoundVector

IntArray = npt.NDArray[np.int32]

_NONE = -1
_BINDING_OVERHEAD_BYTES = 48
# Values that are computed together in float64; bounds the temporary arrays when very many rows are close to a cut.
_EXACT_VALUES = 1 << 18


class VectorSpace:
    """A slot holds one binding; a record has at most one slot in a space, and keeps it.

    Rows of the matrix are the float32 values as they came, but for extreme ones, which are scaled by a power of two
    (see `cosine.scale_rows`); the few that such a scaling would change are kept beside it as well.

    Attributes:
        slot_row: (slots,) int32, the record's row.
        bound_revision: (slots,) uint64, the revision that the vector was bound to.
        size_bytes: (slots,) int64, length of the stored binding.
        answers: Of each slot, the receipt as answers carry it.
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        self.slot_row = GrowableArray(np.int32)
        self.bound_revision = GrowableArray(np.uint64)
        self.size_bytes = GrowableArray(np.int64)
        self.answers: list[bytes] = []
        self._matrix = GrowableArray(np.float32, width=space.dimensions)
        self._norms = GrowableArray(np.float64)
        self._inverse_norms = GrowableArray(np.float32)
        self._slot_of_row: IntArray = np.empty(0, np.int32)
        self._originals: dict[int, Float32Vector] = {}
        self._answer_bytes = 0

    def __len__(self) -> int:
        return len(self.slot_row)

    @property
    def memory_bytes(self) -> int:
        """Estimate of the memory held."""
        columns = (self.slot_row, self.bound_revision, self.size_bytes, self._matrix, self._norms, self._inverse_norms)
        arrays = sum(column.reserved_bytes for column in columns) + self._slot_of_row.nbytes
        return arrays + self._answer_bytes + len(self) * _BINDING_OVERHEAD_BYTES

    def put_many(
        self,
        rows: Sequence[int],
        vectors: Sequence[Float32Vector],
        *,
        bound_revisions: Sequence[int],
        sizes_bytes: Sequence[int],
        answers: Sequence[bytes],
    ) -> None:
        """Bind vectors to records; earlier bindings in this space give way.

        Args:
            rows: Distinct records.
            vectors: Of each, (dimensions,) float32, finite and not zero.
            bound_revisions: Of each, the revision that the vector is bound to.
            sizes_bytes: Of each, the length of the stored binding.
            answers: Of each, the receipt as answers carry it.
        """
        scaled = np.stack(vectors).astype(np.float32)
        is_lossy = scale_rows(scaled)
        norms = vector_norms(scaled)
        slots = self._claim_slots(np.array(rows, np.int32))
        self._matrix.living[slots] = scaled
        self._norms.living[slots] = norms
        self._inverse_norms.living[slots] = 1.0 / norms
        self.bound_revision.living[slots] = np.array(bound_revisions, np.uint64)
        self.size_bytes.living[slots] = sizes_bytes
        for index, slot in enumerate(slots.tolist()):
            self._originals.pop(slot, None)
            if is_lossy[index]:
                self._originals[slot] = vectors[index].copy()
            self._answer_bytes += len(answers[index]) - len(self.answers[slot])
            self.answers[slot] = answers[index]

    def _claim_slots(self, rows: IntArray) -> IntArray:
        """Slots of these rows, new ones where a row has none."""
        slots = self.slots_of(rows)
        is_new = slots == _NONE
        new_rows = rows[is_new]
        if not len(new_rows):
            return slots
        known, count = len(self), len(new_rows)
        slots[is_new] = np.arange(known, known + count, dtype=np.int32)
        for column in (self._matrix, self._norms, self._inverse_norms, self.bound_revision, self.size_bytes):
            column.grow(count)
        self.slot_row.extend(new_rows)
        self.answers.extend([b""] * count)
        end = int(new_rows.max()) + 1
        if end > len(self._slot_of_row):
            grown = np.full(max(64, end + end // 4), _NONE, np.int32)
            grown[: len(self._slot_of_row)] = self._slot_of_row
            self._slot_of_row = grown
        self._slot_of_row[new_rows] = slots[is_new]
        return slots

    def slot_of(self, row: int) -> int:
        """Slot of a record, -1 without a binding."""
        return int(self._slot_of_row[row]) if row < len(self._slot_of_row) else _NONE

    def slots_of(self, rows: npt.NDArray[np.integer]) -> IntArray:
        """(rows,) int32, the slot of each record, -1 without a binding."""
        slots = np.full(len(rows), _NONE, np.int32)
        known = rows < len(self._slot_of_row)
        slots[known] = self._slot_of_row[rows[known]]
        return slots

    def binding_of(self, row: int) -> BoundVector | None:
        """A record's binding; None when missing."""
        slot = self.slot_of(row)
        if slot == _NONE:
            return None
        return BoundVector(int(self.bound_revision.living[slot]), int(self.size_bytes.living[slot]))

    def bindings_of(self, rows: npt.NDArray[np.integer]) -> list[BoundVector | None]:
        """The rows' bindings; None where one is missing."""
        slots = self.slots_of(rows)
        # Slots of missing ones are -1 and read some other slot's values, which are not used.
        revisions, sizes = self.bound_revision.living, self.size_bytes.living
        found = zip(slots.tolist(), revisions[slots].tolist(), sizes[slots].tolist(), strict=True)
        return [None if slot == _NONE else BoundVector(revision, size) for slot, revision, size in found]

    def held_bytes(self, slot: int) -> bytes:
        """What is held of a slot's vector: its row of the matrix and, where scaling it lost something, the original."""
        row: bytes = self._matrix.living[slot].tobytes()
        original = self._originals.get(slot)
        return row if original is None else row + original.tobytes()

    def estimate(self, unit_query: Float32Vector) -> npt.NDArray[np.float32]:
        """(slots,) float32 estimates of all cosines, each within `cosine.estimate_error`.

        Args:
            unit_query: (dimensions,) float32 from `cosine.unit_query`.
        """
        estimates: npt.NDArray[np.float32] = self._matrix.living @ unit_query
        estimates *= self._inverse_norms.living
        return estimates

    def exact(self, slots: npt.NDArray[np.integer], query: Float64Array, query_norm: float) -> Float64Array:
        """(slots,) float64, exact cosines of these slots; see `cosine.exact_cosines`."""
        step = max(1, _EXACT_VALUES // self.space.dimensions)
        if len(slots) <= step:
            return self._exact_block(slots, query, query_norm)
        blocks = [slots[start : start + step] for start in range(0, len(slots), step)]
        return np.concatenate([self._exact_block(block, query, query_norm) for block in blocks])

    def _exact_block(self, slots: npt.NDArray[np.integer], query: Float64Array, query_norm: float) -> Float64Array:
        rows = self._matrix.living[slots]
        norms = self._norms.living[slots]
        if self._originals:
            for index, slot in enumerate(slots.tolist()):
                original = self._originals.get(slot)
                if original is not None:
                    rows[index] = original
                    norms[index] = vector_norms(original[np.newaxis])[0]
        return exact_cosines(rows, norms, query, query_norm)

"""Numpy columns that grow at the end."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

Scalar = TypeVar("Scalar", bound=np.generic)

# A quarter more each time: growth stays linear in sum, and little memory is kept in reserve.
_GROWTH = 1.25
_CAPACITY_MIN = 16


class GrowableArray(Generic[Scalar]):
    """The living part of a larger array, growing along its first axis.

    Views that `living` gave out stay valid, but show later writes only until the next growth.
    """

    def __init__(self, dtype: type[Scalar], *, width: int | None = None) -> None:
        """Start empty.

        Args:
            dtype: Element type.
            width: Number of values in a row of a matrix; None for a column.
        """
        self._tail: tuple[int, ...] = () if width is None else (width,)
        self._array: npt.NDArray[Scalar] = np.empty((0, *self._tail), dtype)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def living(self) -> npt.NDArray[Scalar]:
        """A view of all rows."""
        return self._array[: self._count]

    def item(self, index: int) -> Any:
        """The value of a column's row as a Python number; much cheaper than through `living`."""
        return self._array.item(index)

    @property
    def reserved_bytes(self) -> int:
        """Memory held, reserve included."""
        return self._array.nbytes

    def reserve(self, count: int) -> None:
        """Make room for exactly this many rows when there is less."""
        if count > len(self._array):
            grown = np.empty((count, *self._tail), self._array.dtype)
            grown[: self._count] = self._array[: self._count]
            self._array = grown

    def append(self, value: Any) -> int:
        """Add a row.

        Returns:
            Its index.
        """
        index = self._count
        if index == len(self._array):
            self.reserve(max(_CAPACITY_MIN, int(index * _GROWTH) + 1))
        self._array[index] = value
        self._count = index + 1
        return index

    def grow(self, count: int) -> None:
        """Add rows whose content is still to be written."""
        wanted = self._count + count
        if wanted > len(self._array):
            self.reserve(wanted if self._count == 0 else max(wanted, int(self._count * _GROWTH) + 1))
        self._count = wanted

    def extend(self, values: npt.NDArray[Any]) -> None:
        """Add rows."""
        start = self._count
        self.grow(len(values))
        self._array[start : self._count] = values

    def replace(self, values: npt.NDArray[Any]) -> None:
        """Hold these rows instead of all present ones."""
        self._array = np.array(values, dtype=self._array.dtype)
        self._count = len(values)

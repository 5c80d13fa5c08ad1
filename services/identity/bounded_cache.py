"""A cache whose content stays within a bound."""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

Value = TypeVar("Value")


class BoundedCache(Generic[Value]):
    """A dict that forgets what was put first once the weights of its values exceed a bound."""

    def __init__(self, weight_max: int) -> None:
        self._weight_max = weight_max
        self._weight = 0
        self._entries: dict[str, tuple[Value, int]] = {}
        self._lock = threading.Lock()

    def get(self, key: str) -> Value | None:
        """The value, None when it is not remembered."""
        entry = self._entries.get(key)
        return None if entry is None else entry[0]

    def put(self, key: str, value: Value, weight: int) -> None:
        """Remember a value of this weight."""
        with self._lock:
            previous = self._entries.pop(key, None)
            if previous is not None:
                self._weight -= previous[1]
            self._entries[key] = (value, weight)
            self._weight += weight
            while self._weight > self._weight_max and len(self._entries) > 1:
                oldest = next(iter(self._entries))
                self._weight -= self._entries.pop(oldest)[1]

"""Partitions in which damage was met: they are still read, value by value, but no longer written.

A write would be built on, and mixed with, what cannot be trusted, and would make a backup that is still whole harder to
come back to. Damage whose place is not known, such as a block that the engine cannot read, stops all writes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from services.domain.errors import StorageInconsistency
from services.runtime.logging import get_logger
from services.storage.engine import EngineClosed, EngineCorrupt, EngineError
from services.storage.errors import SnapshotExpired, StorageUnavailable

ADVICE: Final = (
    "the operator should stop the suite, check the store with `waggle verify`, restore it from a backup if it is "
    "damaged, and start again"
)

Place = bytes | None
"""A partition, or None for a place that is not known."""


class Quarantine:
    """The damage that one process has met; safe to use from any thread. It outlives a reopening of the engine."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places: set[Place] = set()

    def note(self, place: Place) -> None:
        """Refuse writes there from now on; everywhere when the place is not known."""
        with self._lock:
            is_new = place not in self._places
            self._places.add(place)
        if is_new:
            get_logger().error("damage_met_writes_refused", partition=None if place is None else place.hex())

    def check(self, partitions: Iterable[bytes]) -> StorageInconsistency | None:
        """Return the refusal of a write to these partitions, None when they may be written."""
        # Looked at without the lock: the set only ever holds a few places, and nearly always none.
        if not self._places:
            return None
        with self._lock:
            if None in self._places:
                return StorageInconsistency(f"damage was met in the store, so nothing was written: {ADVICE}")
            met = next((partition for partition in partitions if partition in self._places), None)
        if met is None:
            return None
        return StorageInconsistency(
            f"damage was met in this workspace, so nothing was written: {ADVICE}", partition=met
        )

    @contextmanager
    def watch(self, *, pinned: bool = False) -> Iterator[None]:
        """Turn failures of the engine into those of `contract.Store`, and note where damage was met.

        Args:
            pinned: What is read is a pinned snapshot.
        """
        try:
            yield
        except StorageInconsistency as error:
            self.note(error.partition)
            raise
        except EngineClosed as error:
            if pinned:
                raise SnapshotExpired("the snapshot is not open") from error
            raise StorageUnavailable("the store is being opened again or closed") from error
        except EngineCorrupt as error:
            get_logger().error("engine_corrupt", cause=str(error))
            self.note(None)
            raise StorageInconsistency("the engine found its files damaged") from error
        except EngineError as error:
            get_logger().error("engine_failed", cause=str(error))
            raise StorageUnavailable("the engine cannot read") from error

    def places(self) -> frozenset[Place]:
        """Where damage was met."""
        with self._lock:
            return frozenset(self._places)

    def lift(self, places: frozenset[Place]) -> None:
        """Accept writes there again, after a check that began when these were known and found nothing."""
        with self._lock:
            self._places -= places
        if places:
            get_logger().warning("damage_not_found_again", places=len(places))

"""An engine that fails when a test wants it to."""

from __future__ import annotations

from collections.abc import Iterable

from services.storage.engine import Engine, EngineSnapshot, EngineWriteFailed, Operation


class FailingEngine:
    """An engine whose batches can be made to fail.

    Attributes:
        is_failing: Every batch fails.
        finds_damage: Because of damage.
        batch_count: Batches that were written.
    """

    name = "failing"

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.is_failing = False
        self.finds_damage = False
        self.batch_count = 0

    def snapshot(self) -> EngineSnapshot:
        """See Engine."""
        return self._engine.snapshot()

    def write(self, operations: Iterable[Operation]) -> None:
        """See Engine."""
        if self.is_failing:
            raise EngineWriteFailed("the disk is on fire", found_damage=self.finds_damage)
        self.batch_count += 1
        self._engine.write(operations)

    def close(self) -> None:
        """See Engine."""
        self._engine.close()

    def working_bytes(self) -> int:
        """See Engine."""
        return self._engine.working_bytes()

    def recovery_bytes(self) -> int:
        """See Engine."""
        return self._engine.recovery_bytes()

    def stored_bytes(self, start: bytes, end: bytes) -> int:
        """See Engine."""
        return self._engine.stored_bytes(start, end)

    def compact(self, start: bytes, end: bytes) -> None:
        """See Engine."""
        self._engine.compact(start, end)

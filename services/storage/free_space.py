"""When writes are refused for want of room: before the engine itself would fail, and no longer than needed.

The engine says what its background work may take beside the batches (`Engine.working_bytes`): to flush what it holds in
memory, and to merge tables, whose inputs stay until the output is complete. The guard keeps that much free, or what the
operator asks for where that is more, and counts three copies of what is to be written: in the write-ahead log, in the
table that it is flushed to, and in the first merge of that table.
"""

from __future__ import annotations

from typing import Final

from services.domain.errors import StorageFull
from services.runtime.logging import get_logger
from services.storage.engine import Engine
from services.storage.instruments import FREE_BYTES, RESERVE_BYTES
from services.storage.volume import DiskSpace, Volume

_MEBIBYTE: Final = 1024 * 1024
FREE_BYTES_MIN_DEFAULT: Final = 64 * _MEBIBYTE
_FREE_BYTES_FLOOR: Final = 4 * _MEBIBYTE
WRITE_COPIES: Final = 3
PROBE_INTERVAL_MS: Final = 10_000
REFUSAL_TEXT: Final = (
    "the store's disk is nearly full, so nothing was written; reads go on. "
    "Send the same command with the same idempotency key again later"
)


def free_bytes_min(total: int, configured: int | None) -> int:
    """Return how many bytes of a volume are kept free whatever the engine needs.

    Args:
        total: Size of the volume in bytes.
        configured: What the operator asks for; None for 64 MiB, or 2% of a volume where that is less, but no less
            than 4 MiB, or a quarter of a tiny volume.
    """
    if configured is not None:
        return configured
    return min(FREE_BYTES_MIN_DEFAULT, max(total // 50, min(_FREE_BYTES_FLOOR, total // 4)))


def reserve_bytes(total: int, configured: int | None, working_bytes: int) -> int:
    """Return how many bytes must stay free: the greater of `free_bytes_min` and what the engine needs to work."""
    return max(free_bytes_min(total, configured), working_bytes)


def has_room(space: DiskSpace, reserve: int, write_bytes: int) -> bool:
    """Whether that much can be written while the reserve stays free."""
    return space.free - WRITE_COPIES * write_bytes >= reserve


class FreeSpaceGuard:
    """Judges writes against the room on a volume; safe to use from any thread.

    Args:
        volume: Where the store lives.
        configured: Bytes that the operator wants kept free; None for the default.
    """

    def __init__(self, volume: Volume, configured: int | None) -> None:
        self._volume = volume
        self._configured = configured
        self._is_refusing = False
        self._last_probe_ms = 0

    def check(self, engine: Engine, write_bytes: int) -> StorageFull | None:
        """Return the refusal of a write, None when there is room for it.

        Args:
            engine: What would write.
            write_bytes: Keys and values to be written.
        """
        space = self._volume.disk_space()
        if space is None:
            return None
        reserve = reserve_bytes(space.total, self._configured, engine.working_bytes())
        self._note(space, reserve)
        return None if has_room(space, reserve, write_bytes) else StorageFull(REFUSAL_TEXT)

    def reserve(self, engine: Engine) -> int:
        """Return how many bytes must stay free at present; 0 when there is no disk."""
        space = self._volume.disk_space()
        return 0 if space is None else reserve_bytes(space.total, self._configured, engine.working_bytes())

    def may_reopen(self, engine: Engine) -> bool:
        """Whether there is room to open the engine again after a failure.

        That needs less than a write does, and it must: what a failed merge left behind is only removed by opening.
        """
        space = self._volume.disk_space()
        return space is None or space.free >= engine.recovery_bytes()

    def is_probe_due(self, engine: Engine, now_ms: int) -> bool:
        """Whether the engine should be asked if it still writes: every ten seconds while everything is refused.

        The room that is missing may be held by what a failed merge has left. A disk without any room is left alone.

        Args:
            engine: The engine.
            now_ms: The store's clock.
        """
        space = self._volume.disk_space()
        if not self._is_refusing or space is None or now_ms - self._last_probe_ms < PROBE_INTERVAL_MS:
            return False
        self._last_probe_ms = now_ms
        return space.free >= engine.recovery_bytes() + _MEBIBYTE

    def _note(self, space: DiskSpace, reserve: int) -> None:
        FREE_BYTES.set(space.free)
        RESERVE_BYTES.set(reserve)
        is_refused = not has_room(space, reserve, 0)
        if is_refused is self._is_refusing:
            return
        self._is_refusing = is_refused
        get_logger().warning(
            "writes_refused_for_want_of_room" if is_refused else "writes_accepted_again",
            place=self._volume.description,
            free_bytes=space.free,
            reserve_bytes=reserve,
        )

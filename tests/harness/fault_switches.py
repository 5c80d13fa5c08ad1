"""Fault points of a running suite, armed one passing at a time by whoever holds the switches."""

from __future__ import annotations

from pathlib import Path

from services.runtime.fault_points import ENVIRONMENT_VARIABLE
from tests.harness.suite import wait_until

STORAGE_POINTS = ("storage.before_batch", "storage.before_sync", "storage.after_sync")
POINTS = (
    *STORAGE_POINTS,
    *("memory.before_commit", "memory.after_commit"),
    *("consolidation.before_commit", "consolidation.after_commit"),
)
"""Where a command can be cut off."""
ADMITTED = "admission.admitted"
"""Where a request has taken its admission slot."""
REACHED_S = 120.0


class FaultPoints:
    """Switches of all points. A process that comes to an armed one stops there, with one of its threads.

    Args:
        directory: Where the files are that the processes look at.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a suite whose points these are."""
        armed = [f"{point}=pause:{self._gate(point)}?{self._trigger(point)}" for point in (*POINTS, ADMITTED)]
        return {ENVIRONMENT_VARIABLE: ",".join(armed)}

    def arm(self, point: str) -> None:
        """Let the next passing of a point stop there."""
        self._trigger(point).touch()

    def is_armed(self, point: str) -> bool:
        """Nobody has come to the point since it was armed."""
        return self._trigger(point).exists()

    def is_paused(self, point: str) -> bool:
        """A process stands at the point."""
        return self._gate(point).exists()

    def paused_process(self, point: str) -> int:
        """Return the id of the process that stands at a point."""
        return int(self._gate(point).read_text(encoding="ascii"))

    def await_paused(self, point: str) -> None:
        """Wait until a process stands at an armed point."""
        wait_until(lambda: self.is_paused(point), f"{point} is reached", timeout_s=REACHED_S)

    def release(self, point: str) -> None:
        """Let the process go on, if it still runs."""
        self._gate(point).unlink()

    def _gate(self, point: str) -> Path:
        return self._directory / f"{point}.gate"

    def _trigger(self, point: str) -> Path:
        return self._directory / f"{point}.trigger"

"""Named places where a test can make a process fail.

`WAGGLE_FAULT_POINTS` arms them, and nothing else does. It is a comma-separated list of `name=action`, with

* `kill`: the process ends at once with SIGKILL, as if the power had failed;
* `error`: FaultInjected is raised;
* `pause:FILE`: FILE is created with the process id in it, and the thread waits until somebody removes FILE.

`name=action@N` acts on the Nth passing only, counted from 1; `name=action?FILE` only while FILE is there, which is then
taken away, so that a test can arm one passing of a process that runs. Without either every passing acts.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

ENVIRONMENT_VARIABLE = "WAGGLE_FAULT_POINTS"
_PAUSE_POLL_S = 0.005


class FaultInjected(Exception):
    """Raised by an armed fault point with the action `error`."""


@dataclass(slots=True)
class _ArmedPoint:
    action: str
    passing: int | None
    trigger: Path | None = None
    passing_count: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def is_due(self) -> bool:
        if self.trigger is not None:
            return _take(self.trigger)
        with self.lock:
            self.passing_count += 1
            return self.passing is None or self.passing == self.passing_count


def parse_fault_points(text: str) -> dict[str, _ArmedPoint]:
    """Read the value of `WAGGLE_FAULT_POINTS`.

    Raises:
        ValueError: An entry is not of the form `name=action`.
    """
    armed: dict[str, _ArmedPoint] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, separator, action = entry.partition("=")
        passing: int | None = None
        action, has_trigger, trigger = action.partition("?")
        if "@" in action:
            action, _, count = action.rpartition("@")
            passing = int(count)
        is_complete = bool(separator and name) and bool(trigger) == bool(has_trigger)
        if not is_complete or not (action in ("kill", "error") or action.startswith("pause:")):
            raise ValueError(f"{ENVIRONMENT_VARIABLE}: {entry!r} is not name=kill, name=error or name=pause:FILE")
        armed[name] = _ArmedPoint(action, passing, Path(trigger) if trigger else None)
    return armed


_armed = parse_fault_points(os.environ.get(ENVIRONMENT_VARIABLE, ""))


def fault_point(name: str) -> None:
    """Mark a place where the process can be made to fail. Costs one look-up in an empty dict when nothing is armed.

    Raises:
        FaultInjected: The point is armed with `error`.
    """
    point = _armed.get(name)
    if point is not None and point.is_due():
        _act(name, point.action)


def _take(trigger: Path) -> bool:
    """Remove the file; false when it is not there. Of many threads and processes one succeeds."""
    try:
        trigger.unlink()
    except FileNotFoundError:
        return False
    return True


def _act(name: str, action: str) -> None:
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if action == "error":
        raise FaultInjected(name)
    gate = Path(action.removeprefix("pause:"))
    # Written beside and renamed, so that whoever waits for the file never reads an empty one.
    draft = gate.with_name(f"{gate.name}.draft")
    draft.write_text(str(os.getpid()), encoding="ascii")
    draft.rename(gate)
    while gate.exists():
        time.sleep(_PAUSE_POLL_S)

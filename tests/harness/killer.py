"""Ends processes of a running suite at chosen moments, and waits until the suite has recovered by itself."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from cli.readiness import GrpcProbe
from tests.harness.fault_switches import POINTS, STORAGE_POINTS, FaultPoints
from tests.harness.suite import SERVICES, Suite, processes_of, wait_until
from tests.harness.workload import RECOVERY_S, Interruption, Workload

_MORE_TURNS = 10
_PAIRS = (("storage", "memory"), ("storage", "retrieval"), ("memory", "gateway"), ("identity", "storage"))


@dataclass(frozen=True, slots=True)
class Outage:
    """From the kill until everything was ready again, by the monotonic clock."""

    what: str
    began_s: float
    ended_s: float


class Killer:
    """See the module.

    Args:
        suite: Started with the environment of `points`.
        load: What goes on meanwhile.
        points: Arms the suite's fault points.

    Attributes:
        outages: What has been done.
    """

    def __init__(self, suite: Suite, load: Workload, points: FaultPoints) -> None:
        self.outages: list[Outage] = []
        self._suite, self._load, self.points = suite, load, points

    def perform(self, act: str) -> None:
        """Do one of `ACTS`, and wait until every service runs once and says that it is ready."""
        began_s = time.monotonic()
        ACTS[act](self)
        self._await_recovery()
        self.outages.append(Outage(act, began_s, time.monotonic()))

    def unexplained(self, interruptions: list[Interruption]) -> list[Interruption]:
        """Return the interruptions that no outage explains."""
        return [
            interruption
            for interruption in interruptions
            if not any(
                outage.began_s <= interruption.ended_s and interruption.began_s <= outage.ended_s
                for outage in self.outages
            )
        ]

    def kill(self, names: Sequence[str]) -> None:
        """End services with SIGKILL, all at once."""
        former = {name: self._suite.process_id(name) for name in names}
        for process_id in former.values():
            os.kill(process_id, signal.SIGKILL)
        self._await_replaced(former)

    def kill_at(self, point: str) -> None:
        """End a service with SIGKILL while it stands at a fault point."""
        self.points.arm(point)
        self.kill_armed(point)

    def kill_armed(self, point: str) -> None:
        """Wait until somebody comes to a point that was armed before, and end that service."""
        name, former = point.partition(".")[0], self._await_paused(point)
        assert self._suite.process_id(name) == former
        if point in STORAGE_POINTS:
            self._load.await_waiting_writes()
        os.kill(former, signal.SIGKILL)
        self._await_replaced({name: former})
        self.points.release(point)

    def stall_at(self, point: str) -> None:
        """Hold a service at a fault point until others wait for it, and let it go on."""
        self.points.arm(point)
        self._await_paused(point)
        self._load.await_waiting_writes()
        self.points.release(point)

    def _await_paused(self, point: str) -> int:
        def is_paused() -> bool:
            if self._load.is_stuck() and self.points.is_armed(point):
                self._load.grant(_MORE_TURNS)
            self._load.check()
            return self.points.is_paused(point)

        wait_until(is_paused, f"{point} is reached", timeout_s=RECOVERY_S)
        return self.points.paused_process(point)

    def kill_supervisor(self) -> None:
        """End the supervisor with SIGKILL and start another at once. The services follow the former by themselves."""
        supervisor_id = self._suite.kill_supervisor()
        self._suite.start()
        wait_until(lambda: not processes_of(supervisor_id), "the former processes have ended", timeout_s=RECOVERY_S)

    def _await_replaced(self, former: dict[str, int]) -> None:
        def is_replaced() -> bool:
            found = self._suite.process_ids()
            return all(found.get(name, [old]) != [old] for name, old in former.items())

        wait_until(is_replaced, f"{', '.join(former)} is started again", timeout_s=RECOVERY_S)

    def _await_recovery(self) -> None:
        probes = [GrpcProbe(self._suite.address(name)) for name in SERVICES if name != "gateway"]
        try:
            wait_until(
                lambda: all(probe.is_ready() for probe in probes) and self._suite.is_healthy(),
                "everything is ready again",
                timeout_s=RECOVERY_S,
            )
        finally:
            for probe in probes:
                probe.close()
        found = {name: len(ids) for name, ids in self._suite.process_ids().items()}
        assert dict.fromkeys(SERVICES, 1) == found


ACTS: dict[str, Callable[[Killer], None]] = {
    **{f"kill {name}": partial(Killer.kill, names=(name,)) for name in SERVICES},
    **{f"kill {' and '.join(pair)}": partial(Killer.kill, names=pair) for pair in _PAIRS},
    **{f"kill at {point}": partial(Killer.kill_at, point=point) for point in POINTS},
    **{f"stall at {point}": partial(Killer.stall_at, point=point) for point in STORAGE_POINTS},
    "kill supervisor": Killer.kill_supervisor,
}
"""What can be done, by name."""


def plan(generator: random.Random, acts: list[str], count: int) -> list[tuple[str, int, int]]:
    """Choose what to do: for each step an act, the turns of the step, and after how many of them it happens."""
    steps = []
    for _ in range(count):
        turn_count = generator.randint(16, 32)
        steps.append((generator.choice(acts), turn_count, generator.randint(1, turn_count - 8)))
    return steps

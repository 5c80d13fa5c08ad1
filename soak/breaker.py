"""Kills, stops and halts processes of the suite at random moments, and sees that it recovers by itself each time."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from contextlib import suppress

from cli.readiness import GrpcProbe
from soak.history import History
from soak.running import PROCESSES, SoakedSuite
from tests.harness.edge import trusting
from tests.harness.raw_http import Door, RawConnection, request_bytes
from tests.harness.suite import SERVICES, wait_until

RECOVERY_S = 120.0
_CALM_S = (4.0, 9.0)
_HALT_S = (0.2, 1.5)
_ENVOY = "envoy"


class Breaker:
    """Used by one thread. Only children of the suite's own supervisor, and the Envoy of its edge, are touched.

    Attributes:
        deeds: How often what was done to whom.
        longest_recovery_s: From a deed until everything was ready again.
    """

    def __init__(self, soaked: SoakedSuite, history: History, seed: str, stop: threading.Event) -> None:
        self._soaked, self._history, self._stop = soaked, history, stop
        self._random = random.Random(seed)
        self.deeds: Counter[tuple[str, str]] = Counter()
        self.longest_recovery_s = 0.0

    def take_turn(self) -> None:
        """Wait a little, break something, and wait until all is well again."""
        if self._stop.wait(self._random.uniform(*_CALM_S)):
            return
        began_s = time.monotonic()
        deed = self._random.choices((self._kill, self._kill_two, self._hang, self._halt), (6, 2, 2, 2))[0]
        deed()
        try:
            wait_until(self.is_well, "the suite is well again", timeout_s=RECOVERY_S)
        except AssertionError as error:
            self._history.fault(f"{error}; after {self.deeds}\n{self._soaked.suite.tail_of_log()}")
            self._stop.set()
        self.longest_recovery_s = max(self.longest_recovery_s, time.monotonic() - began_s)

    def is_well(self) -> bool:
        """Every process runs once, says that it is ready, and the edge answers for all of them."""
        suite = self._soaked.suite
        if any(len(suite.process_ids().get(name, [])) != 1 for name in PROCESSES) or not suite.is_healthy():
            return False
        if not self._is_edge_answering():
            return False
        for name in SERVICES:
            if name == "gateway":
                continue
            probe = GrpcProbe(suite.address(name))
            try:
                if not probe.is_ready():
                    return False
            finally:
                probe.close()
        return True

    def _is_edge_answering(self) -> bool:
        door = Door(self._soaked.edge_port, trusting(self._soaked.certificate))
        try:
            with RawConnection(door) as connection:
                connection.send(request_bytes("GET", "/health"))
                return connection.receive().status == 200
        except (OSError, EOFError, ValueError):
            return False

    def _kill(self) -> None:
        self._signal("SIGKILL", self._random.choice((*PROCESSES, _ENVOY)))

    def _kill_two(self) -> None:
        for name in self._random.sample(PROCESSES, 2):
            self._signal("SIGKILL", name)

    def _hang(self) -> None:
        """It stays stopped: the supervisor notices and replaces it."""
        name = self._random.choice(SERVICES)
        former = self._signal("SIGSTOP, for good", name)
        if former is not None:

            def is_replaced() -> bool:
                return self._soaked.suite.process_ids().get(name, [former]) != [former]

            try:
                wait_until(is_replaced, f"{name}, which hangs, is replaced", timeout_s=RECOVERY_S)
            except AssertionError as error:
                self._history.fault(str(error))

    def _halt(self) -> None:
        """It goes on after a moment, as after a long pause of its machine."""
        name = self._random.choice((*PROCESSES, _ENVOY))
        halted = self._signal("SIGSTOP, then SIGCONT", name)
        if halted is not None:
            self._stop.wait(self._random.uniform(*_HALT_S))
            with suppress(ProcessLookupError):
                os.kill(halted, signal.SIGCONT)

    def _signal(self, deed: str, name: str) -> int | None:
        if name == _ENVOY:
            found = self._soaked.envoy_id()
        else:
            found = next(iter(self._soaked.suite.process_ids().get(name, [])), None)
        if found is None:
            return None
        with suppress(ProcessLookupError):
            os.kill(found, signal.SIGKILL if deed == "SIGKILL" else signal.SIGSTOP)
            self.deeds[name, deed] += 1
        return found

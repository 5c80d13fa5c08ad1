"""One run: everybody at once for as long as asked, then the end of it all."""

from __future__ import annotations

import random
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import httpx

from soak.attackers import Attacker
from soak.breaker import Breaker
from soak.caller import Caller, Tally
from soak.ending import Ending, Places
from soak.history import History
from soak.jobs import JobMaker, JobPlace, JobWorker
from soak.people import Administrator
from soak.report import Report
from soak.rivals import Rival, RivalPlaces
from soak.running import SoakedSuite, soaked_suite
from soak.steady import SteadyClients, new_marker
from tests.harness.closed_shapes import ClosedShapes
from tests.harness.edge import trusting
from tests.harness.raw_http import Door
from tests.harness.suite import wait_until

RIVALS_PER_COMPANY = 3
WORKERS = 3
ATTACKERS = 2
_POLL_S = 0.05
_SAY_EVERY_S = 30.0
_END_S = 180.0
_FAILURES = ("unexpected_failure", "failure", "close_failed", "commit_met_damage")


class Run:
    """Everybody who takes part in one run.

    Args:
        generator: Every choice follows from it.
    """

    def __init__(self, soaked: SoakedSuite, generator: random.Random, directory: Path) -> None:
        self.soaked, self.history, self.tally = soaked, History(), Tally()
        self.stop = threading.Event()
        document = httpx.get(f"{soaked.suite.url}/openapi.json", trust_env=False, timeout=30.0).json()
        self.caller = Caller(soaked, self.history, self.tally, ClosedShapes(document))
        seeds = (f"{generator.getrandbits(64):x}" for _ in iter(int, 1))
        markers: list[set[str]] = [set() for _ in soaked.companies]
        pairs = list(zip(soaked.companies, markers, strict=True))
        self.steady = [SteadyClients(self.caller, self.history, suite, next(seeds), found) for suite, found in pairs]
        self.rivals = [RivalPlaces(suite, next(seeds), found) for suite, found in pairs]
        self.jobs = JobPlace(soaked.suite, new_marker(random.Random(next(seeds))))
        markers[0].add(self.jobs.marker)
        self.administrators = [
            Administrator(suite, self.caller, self.history, found, self.stop) for suite, found in pairs
        ]
        self.breaker = Breaker(soaked, self.history, next(seeds), self.stop)
        powerless = soaked.suite.issue("stranger", ["memory_read"])
        doors = (Door(soaked.edge_port, trusting(soaked.certificate)), Door(soaked.suite.port))
        self.attackers = [
            Attacker(doors, powerless, self.history, self.tally, next(seeds), self.stop) for _ in range(ATTACKERS)
        ]
        maker = JobMaker(self.jobs, self.caller, self.history, next(seeds), self.stop)
        workers = [
            JobWorker(f"worker{number}", self.jobs, soaked, self.history, directory) for number in range(WORKERS)
        ]
        rivals = [
            Rival(f"rival{number}", places, self.caller, self.history, next(seeds), self.stop)
            for places in self.rivals
            for number in range(RIVALS_PER_COMPANY)
        ]
        turns: list[Callable[[], object]] = [
            *(rival.take_turn for rival in rivals), *(administrator.take_turn for administrator in self.administrators),
            *(attacker.take_turn for attacker in self.attackers), maker.take_turn,
            *(lambda at=worker: at.take_turn(self.stop) for worker in workers),
        ]  # fmt: skip
        self._threads = [threading.Thread(target=self._repeat, args=(turn,), daemon=True) for turn in turns]
        self._breaking = threading.Thread(target=self._repeat, args=(self.breaker.take_turn,), daemon=True)

    def go(self, duration_s: float, say: Callable[[str], object]) -> float:
        """Let everybody do their worst; seconds that it lasted."""
        began_s = said_s = time.monotonic()
        for thread in (*self._threads, self._breaking):
            thread.start()
        while time.monotonic() - began_s < duration_s and not self.stop.is_set():
            for clients in self.steady:
                self._guard(clients.go_on)
            if time.monotonic() - said_s >= _SAY_EVERY_S:
                said_s = time.monotonic()
                say(self._progress(said_s - began_s))
            self.stop.wait(_POLL_S)
        self.stop.set()
        lasted_s = time.monotonic() - began_s
        self._breaking.join(_END_S)
        for thread in self._threads:
            thread.join(_END_S)
            if thread.is_alive():
                self.history.fault("a client does not end")
        for clients in self.steady:
            self._guard(clients.end)
        return lasted_s

    def end(self, say: Callable[[str], object]) -> Ending:
        """Judge everything."""
        places = Places(
            [place for clients in self.steady for place in clients.places],
            [place for found in self.rivals for place in found.places],
            [self.jobs],
        )
        ending = Ending(self.soaked, self.caller, self.history, places)
        try:
            wait_until(self.breaker.is_well, "the suite is well at the end", timeout_s=_END_S)
            say("replaying and judging ...")
            ending.judge()
        except Exception:  # noqa: BLE001 - a run that cannot be judged is told, with whatever was found before
            ending.problems.append(traceback.format_exc())
        self.caller.close()
        ending.judge_stopped()
        for event in _FAILURES:
            ending.problems += [f"logged: {entry}" for entry in self.soaked.suite.events(event)]
        ending.checks["answers looked at"] += sum(self.tally.requests.values())
        for administrator in self.administrators:
            ending.checks.update(administrator.checks)
        ending.problems += self.history.faults
        return ending

    def load(self) -> dict[str, int]:
        """What was made."""
        return {
            "companies": len(self.soaked.companies),
            "workspaces": sum(len(found.places) for found in self.steady)
            + sum(len(at.places) for at in self.rivals)
            + 1,
            "commands": len(self.history.attempts),
            "reads by rivals": len(self.history.sightings),
            "jobs published": len({step.job_id for step in self.history.job_steps if step.action == "published"}),
        }

    def attacks(self) -> Counter[str]:
        """By name."""
        return sum((attacker.attacks for attacker in self.attackers), Counter())

    def _repeat(self, turn: Callable[[], object]) -> None:
        while not self.stop.is_set():
            self._guard(turn)

    def _guard(self, act: Callable[[], object]) -> None:
        try:
            act()
        except Exception:  # noqa: BLE001 - whatever goes wrong in a client is a problem of the run, and ends it
            self.history.fault(traceback.format_exc())
            self.stop.set()

    def _progress(self, elapsed_s: float) -> str:
        requests, deeds = sum(self.tally.requests.values()), sum(self.breaker.deeds.values())
        return f"{elapsed_s:5.0f} s  {requests:,} requests, {deeds} kills, {len(self.history.faults)} faults"


def soak(
    directory: Path, generator: random.Random, seed: int, duration_s: float, *, say: Callable[[str], object]
) -> Report:
    """Run a suite in a directory for so long, and judge what it has done."""
    with soaked_suite(directory) as soaked:
        run = Run(soaked, generator, directory)
        lasted_s = run.go(duration_s, say)
        requests, refusals = Counter(run.tally.requests), Counter(run.tally.refusals)
        load = run.load()
        ending = run.end(say)
    return Report(
        seed, lasted_s, requests, refusals, run.breaker.deeds, run.breaker.longest_recovery_s, run.attacks(), load,
        ending.checks, ending.problems,
    )  # fmt: skip

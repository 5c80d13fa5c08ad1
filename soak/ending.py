"""After the load: everything is answered, replayed, read again, and the store judged, running and stopped."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from services.domain import keys
from soak.caller import Caller, Exchange
from soak.history import Attempt, FinalPlace, History, JobRelation, Json
from soak.job_checker import check_jobs
from soak.jobs import COMMANDS, JobPlace, step_of
from soak.record_checker import check_records
from soak.rivals import RivalPlace
from soak.running import SoakedSuite
from soak.steady import SteadyPlace, digest_of, outcome_of
from soak.write_checker import check_attempts
from tests.harness import verdict
from tests.harness.partition_audit import PartitionRows
from tests.harness.suite import Suite, processes_of

_ROUTES = {
    b"m": "memory/commands",
    b"e": "memory/embeddings",
    b"v": "memory/reviews",
    b"r": "memory/relations/commands",
    b"j": COMMANDS,
}
_PATIENCE_S = 60.0
_REPLAYERS = 4
_VERIFY_S = 300.0


@dataclass(frozen=True, slots=True)
class Places:
    """All workspaces that were written to."""

    steady: Sequence[SteadyPlace]
    rivals: Sequence[RivalPlace]
    jobs: Sequence[JobPlace]

    def all(self) -> Sequence[SteadyPlace | RivalPlace | JobPlace]:
        """Every one."""
        return [*self.steady, *self.rivals, *self.jobs]


class Ending:
    """Judges a run whose clients have ended and whose suite is well.

    Attributes:
        checks: What was compared, and how often.
        problems: What does not hold.
    """

    def __init__(self, soaked: SoakedSuite, caller: Caller, history: History, places: Places) -> None:
        self._soaked, self._caller, self._history, self._places = soaked, caller, history, places
        self.checks: Counter[str] = Counter()
        self.problems: list[str] = []

    def judge(self) -> None:
        """Everything that can be judged while the suite runs."""
        before = self._read_places()
        for place in self._places.steady:
            check_bytes = partial(verdict.check_bytes, place.suite, place.load, place.scope)
            self._try(f"{place.marker} as bytes", check_bytes)
        with ThreadPoolExecutor(_REPLAYERS) as pool:
            list(pool.map(self._settle, self._places.steady))
            list(pool.map(self._replay, [*self._places.rivals, *self._places.jobs]))
        final = self._read_places()
        self._compare(before, final)
        self.problems += check_attempts(self._history.attempts, final, self.checks)
        for rivals in self._places.rivals:
            self._judge_rivals(rivals, final[rivals.marker])
        self.problems += check_jobs(self._history.job_steps, final, self.checks)
        self._verify([suite.admin_key for suite in self._soaked.companies])

    def judge_stopped(self) -> None:
        """Stop the suite and judge what it leaves."""
        suite = self._soaked.suite
        supervisor_id = 0 if suite.process is None else suite.process.pid
        code = suite.stop()
        if code != 0 or processes_of(supervisor_id):
            self.problems.append(f"the suite ended with {code}, and {processes_of(supervisor_id)} remain")
        self.checks["clean ends of the suite"] += 1
        self._verify([])

    def _read_places(self) -> dict[str, FinalPlace]:
        found = {}
        for place in self._places.all():
            # Audits the workspace on the way.
            rows = self._try(place.marker, partial(verdict.check_partition, place.suite, place.scope))
            if isinstance(rows, PartitionRows):
                found[place.marker] = final_place(place.marker, rows)
            self.checks["workspaces audited"] += 1
        return found

    def _settle(self, place: SteadyPlace) -> None:
        def settle() -> None:
            place.load.settle()
            verdict.check_bytes(place.suite, place.load, place.scope)
            verdict.check_gateway(place.suite, place.load, place.scope)
            self.checks["memories read as acknowledged"] += sum(
                len(client.memory.records) + len(client.memory.relations) for client in place.load.clients
            )

        self._try(place.marker, settle)

    def _replay(self, place: RivalPlace | JobPlace) -> None:
        """Send again whatever was acknowledged, or may have been done."""
        settled = {
            (attempt.family, attempt.key)
            for attempt in list(self._history.attempts)
            if attempt.place == place.marker and attempt.outcome in ("acknowledged", "unknown")
        }
        for route, key in settled:
            body = place.sent[route, key]
            answer = self._post(place.suite, place.marker, route, place.scope, body)
            text = answer.text if answer.is_success else ""
            self._history.add(Attempt(place.marker, route, key, digest_of(body), outcome_of(answer), text))
            self.checks["keys answered again"] += 1

    def _compare(self, before: dict[str, FinalPlace], final: dict[str, FinalPlace]) -> None:
        for marker, place in before.items():
            after = final[marker].receipts
            for key, receipt in place.receipts.items():
                self.checks["receipts kept"] += 1
                if after.get(key) != receipt:
                    self.problems.append(f"{marker}: the receipt of {key} has changed")

    def _judge_rivals(self, place: RivalPlace, final: FinalPlace) -> None:
        writes = [write for write in self._history.writes if write.place == place.marker]
        sightings = [sighting for sighting in self._history.sightings if sighting.place == place.marker]
        self.problems += check_records(place.marker, writes, sightings, final, self.checks)
        scope = {name: value for name, value in place.scope.items() if value is not None}
        for record_id, record in final.records.items():
            is_rejected = record["review"] is not None and record["review"]["disposition"] == "rejected"
            expected = None if record["payload"] is None or is_rejected else record
            answer = self._until_answered(
                partial(
                    self._caller.send,
                    "GET",
                    f"memory/records/{record_id}",
                    key=place.suite.writer_key,
                    own=frozenset({place.marker}),
                    query={"contract_version": 1, **scope},
                )
            )
            self.checks["canonical reads at the end"] += 1
            if (answer.json.get("record") if answer.is_success else None) != expected:
                self.problems.append(f"{place.marker}: record {record_id} is read otherwise than it is stored")

    def _post(self, suite: Suite, marker: str, route: str, scope: Json, body: Json) -> Exchange:
        version = {} if "command" in body else {"contract_version": 1}
        return self._until_answered(
            lambda: self._caller.send(
                "POST", route, {"scope": scope, **version, **body}, key=suite.writer_key, own=frozenset({marker})
            )
        )

    def _until_answered(self, send: Callable[[], Exchange]) -> Exchange:
        give_up_at_s = time.monotonic() + _PATIENCE_S
        while True:
            answer = send()
            if not (answer.is_unknown or answer.status == 503) or time.monotonic() > give_up_at_s:
                return answer
            time.sleep(0.05)

    def _verify(self, admin_keys: list[str]) -> None:
        """`waggle verify`, as an operator runs it; with keys, the replica is compared as well."""
        command = [sys.executable, "-m", "cli.main", "verify", "--data-dir", str(self._soaked.suite.data_directory)]
        for key in admin_keys:
            command += ["--key", key]
        ended = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=_VERIFY_S, check=False)
        if ended.returncode not in (0, 1):
            self.problems.append(f"verify ended with {ended.returncode}: {ended.stderr[-2000:]}")
            return
        report = json.loads(ended.stdout)
        self.problems += [f"verify: {finding}" for finding in report["findings"]]
        self.checks["keys of the store verified"] += report["key_count"]
        if admin_keys:
            self.checks["workspaces whose replica was compared"] += report["replica"]["compared"]
            self.problems += [f"verify left a replica out: {left}" for left in report["replica"]["left_out"].items()]

    def _try(self, what: str, judge: Callable[[], object]) -> object:
        try:
            return judge()
        except AssertionError as error:
            self.problems.append(f"{what}: {str(error)[:2000] or 'does not hold'}")
            return None


def final_place(marker: str, rows: PartitionRows) -> FinalPlace:
    """A workspace's rows as the checkers take them."""
    receipts = {
        (_ROUTES[key[1:2]], receipt["idempotency_key"]): receipt
        for key, receipt in rows.receipts.items()
        if key[:1] == keys.RECEIPT
    }
    relations = []
    for relation_id, relation in rows.relations.items():
        job_id, separator, fence = relation["input"]["provenance"]["evidence_ref"].partition(" ")
        if separator and job_id in rows.jobs:
            relations.append(JobRelation(job_id, fence, relation_id))
    steps = tuple(step_of(marker, receipt) for (route, _), receipt in receipts.items() if route == COMMANDS)
    return FinalPlace(receipts, rows.records, rows.jobs, tuple(relations), steps)

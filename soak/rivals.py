"""Clients that write to the same few records, each building on what it has last seen, and read them in every way.

What each answer may be is not known beforehand; whether one order of commits explains all of them is judged afterwards.
"""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable, Mapping
from typing import Any

from soak.caller import Caller, Exchange
from soak.history import Attempt, History, Json, Outcome, Seen, Sighting, Write, WriteKind
from soak.record_checker import seen_record
from soak.steady import digest_of, new_marker, outcome_of
from tests.harness import builders
from tests.harness.suite import Suite

COMMON_WORD = "quarrel"
VECTOR = [1.0, 2.0, 3.0]
# Pages and searches must have room for all records of a place: their limit is 100.
LIVING_MAX = 20
RECORDS_MAX = 80
_RESENDINGS_MAX = 30
_RESEND_AFTER_S = 0.5
_OVER_GRPC = 0.35


class RivalPlace:
    """One workspace that several rivals share.

    Attributes:
        scope, marker: Where and how it is told.
        known: Record -> what somebody last saw of it; a hint for the next command, nothing more.
        sent: Body of each command by route and key.
    """

    def __init__(self, suite: Suite, marker: str) -> None:
        self.suite, self.marker = suite, marker
        self.scope = builders.scope_json(f"project-{marker}")
        self.known: dict[str, Seen | None] = {}
        self.sent: dict[tuple[str, str], Json] = {}
        self.lock = threading.Lock()
        self.numbers = itertools.count(1)

    def note(self, record_id: str, seen: Seen | None) -> None:
        """Remember what was last seen of a record; None when it is gone for good."""
        with self.lock:
            former = self.known.get(record_id, seen)
            if former is not None and (seen is None or seen.revision >= former.revision):
                self.known[record_id] = seen

    def living(self) -> dict[str, Seen]:
        """Records that were not seen deleted."""
        with self.lock:
            return {record_id: seen for record_id, seen in self.known.items() if seen is not None}


class RivalPlaces:
    """The workspaces of one company's rivals, one after the other: a full one is left for a new one.

    Attributes:
        places: All of them, the current one last.
    """

    def __init__(self, suite: Suite, seed: str, company_markers: set[str]) -> None:
        self.places: list[RivalPlace] = []
        self._suite, self._random, self._markers = suite, random.Random(seed), company_markers
        self._lock = threading.Lock()

    def current(self) -> RivalPlace:
        """Where to go on."""
        with self._lock:
            if not self.places or len(self.places[-1].known) >= RECORDS_MAX:
                self.places.append(RivalPlace(self._suite, new_marker(self._random)))
                self._markers.add(self.places[-1].marker)
            return self.places[-1]


class Rival:
    """One of the clients. Used by one thread.

    Args:
        stop: Set when the client is to end.
    """

    def __init__(
        self, name: str, places: RivalPlaces, caller: Caller, history: History, seed: str, stop: threading.Event
    ) -> None:
        self._name, self._places, self._caller, self._history, self._stop = name, places, caller, history, stop
        self._place = places.current()
        self._random = random.Random(seed)
        self._own = frozenset({self._place.marker})
        self._turns: tuple[Callable[[], None], ...] = (
            self._create, self._update, self._update, self._update, self._delete, self._review, self._attach,
            self._relate, self._read, self._read, self._batch, self._page, self._ordered, self._lexical, self._semantic,
            self._hybrid, self._graph_search, self._walk,
        )  # fmt: skip

    def take_turn(self) -> None:
        """Do something."""
        self._place = self._places.current()
        self._own = frozenset({self._place.marker})
        self._random.choice(self._turns)()

    def _text(self) -> str:
        return f"{COMMON_WORD} {self._place.marker} nonce{next(self._place.numbers)}"

    def _key(self) -> str:
        return f"{self._place.marker}{self._name}k{next(self._place.numbers)}"

    def _pick(self) -> tuple[str, Seen] | None:
        living = self._place.living()
        return self._random.choice(sorted(living.items())) if living else None

    def _create(self) -> None:
        if len(self._place.living()) >= LIVING_MAX:
            return self._delete() if self._random.random() < 0.2 else self._read()
        text = self._text()
        operation = {"type": "create", "record": builders.record_json(text)}
        self._write("create", "", 0, text, None, "memory/commands", lambda key: _keyed(key, operation))
        return None

    def _update(self) -> None:
        picked = self._pick()
        if picked is not None:
            text = self._text()
            operation = {"type": "update", **_expecting(*picked), "record": builders.record_json(text)}
            self._change("update", picked, text, None, operation)

    def _delete(self) -> None:
        picked = self._pick()
        if picked is not None:
            self._change("delete", picked, "", None, {"type": "delete", **_expecting(*picked)})

    def _change(
        self, kind: WriteKind, picked: tuple[str, Seen], text: str, disposition: str | None, operation: Json
    ) -> None:
        body = lambda key: _keyed(key, operation)  # noqa: E731
        self._write(kind, picked[0], picked[1].revision, text, disposition, "memory/commands", body)

    def _review(self) -> None:
        picked = self._pick()
        if picked is None:
            return
        disposition = self._random.choice(("approved", "approved", "unreviewed", "rejected"))
        command = {**_expecting(*picked), "disposition": disposition, "evidence_ref": "soak:review"}

        def body(key: str) -> Json:
            return {"command": {"contract_version": 1, "idempotency_key": key, **command}}

        self._write("review", *(picked[0], picked[1].revision, "", disposition), "memory/reviews", body)

    def _attach(self) -> None:
        picked = self._pick()
        if picked is not None:
            members = {"record_id": picked[0], "record_revision": picked[1].revision}
            vector = [float(self._random.randint(1, 9)) for _ in VECTOR]
            bound = {**members, "space": builders.SPACE, "vector": vector}
            self._send_keyed("memory/embeddings", lambda key: {"idempotency_key": key, **bound})

    def _relate(self) -> None:
        living = sorted(self._place.living().items())
        if len(living) < 2:
            return
        ends = [builders.reference(found[0], found[1].revision) for found in self._random.sample(living, 2)]
        relation = {
            "source": ends[0], "target": ends[1], "kind": "supports",
            "provenance": builders.provenance_json(evidence_ref=f"soak:{self._place.marker}"),
        }  # fmt: skip
        operation = {"type": "assert", "relation": relation}
        self._send_keyed("memory/relations/commands", lambda key: _keyed(key, operation))

    def _write(
        self,
        kind: WriteKind,
        record_id: str,
        expected_revision: int,
        text: str,
        disposition: str | None,
        route: str,
        body: Callable[[str], Json],
    ) -> None:
        key, first, last, outcome = self._send_keyed(route, body)
        receipt = last.json.get("receipt", {}) if last.is_success else {}
        record_id = record_id or receipt.get("record_id", "")
        self._history.add(Write(
            self._place.marker, kind, key, record_id, expected_revision, text, disposition,
            first.began_ns, last.ended_ns, outcome,
        ))  # fmt: skip
        if outcome == "acknowledged":
            seen = Seen(expected_revision + 1, text, disposition)
            self._place.note(record_id, None if kind == "delete" else seen)
        elif last.code in ("record_not_found", "revision_conflict") and record_id:
            self._look_again(record_id)

    def _look_again(self, record_id: str) -> None:
        """The hint was stale: ask for the review state, which is told of rejected records as well."""
        exchange = self._post("memory/reviews/state", {"record_id": record_id})
        if exchange.is_success:
            state = exchange.json["state"]
            self._place.note(record_id, None if state["deleted"] else Seen(state["revision"], "", None))
        elif exchange.code == "review_not_found":
            self._place.note(record_id, None)

    def _send_keyed(self, route: str, make: Callable[[str], Json]) -> tuple[str, Exchange, Exchange, Outcome]:
        """Send under a new key until there is an answer, or for a while; key, first and last exchange, outcome."""
        key = self._key()
        body = make(key)
        self._place.sent[route, key] = body
        first = last = self._post(route, body)
        was_unknown = False
        for _ in range(_RESENDINGS_MAX):
            outcome = outcome_of(last)
            self._history.add(Attempt(
                self._place.marker, route, key, digest_of(body), outcome, last.text if last.is_success else ""
            ))  # fmt: skip
            was_unknown = was_unknown or outcome == "unknown"
            if outcome not in ("unknown", "busy") or self._stop.wait(_RESEND_AFTER_S):
                break
            last = self._post(route, body)
        if outcome == "busy":
            outcome = "unknown" if was_unknown else "refused"
        return key, first, last, outcome

    def _post(self, route: str, body: Json) -> Exchange:
        whole = {"scope": self._place.scope, **({} if "command" in body else {"contract_version": 1}), **body}
        return self._caller.send(
            "POST", route, whole, key=self._place.suite.writer_key, own=self._own,
            over_grpc=self._random.random() < _OVER_GRPC,
        )  # fmt: skip

    def _read(self) -> None:
        picked = self._pick()
        if picked is None:
            return
        scope = {name: value for name, value in self._place.scope.items() if value is not None}
        exchange = self._caller.send(
            "GET", f"memory/records/{picked[0]}", key=self._place.suite.writer_key, own=self._own,
            query={"contract_version": 1, **scope}, over_grpc=self._random.random() < _OVER_GRPC,
        )  # fmt: skip
        if exchange.is_success:
            self._saw("record", exchange)
        elif exchange.status == 404:
            self._saw("record", exchange, absent=frozenset({picked[0]}))

    def _batch(self) -> None:
        asked = sorted(self._place.living())[:16]
        if not asked:
            return
        exchange = self._post("memory/records/batch", {"record_ids": asked})
        if exchange.is_success:
            self._saw("batch", exchange, absent=frozenset(asked) - records_in(exchange.json).keys())

    def _page(self) -> None:
        self._ask("memory/query", {"filter": {"limit": 100}}, is_complete=True)

    def _ordered(self) -> None:
        self._ask("memory/query/ordered", {"query": {"limit": 100}}, is_complete=True)

    def _lexical(self) -> None:
        query = {"text": COMMON_WORD, "limit": 100}
        self._ask("memory/search/lexical", {"mode": "lexical", "query": query}, is_complete=True)

    def _semantic(self) -> None:
        self._ask("memory/search", {"query": {"space": builders.SPACE, "vector": VECTOR, "limit": 100}})

    def _hybrid(self) -> None:
        self._ask("memory/search/hybrid", {"mode": "hybrid", "query": {**self._seed(), "limit": 100}}, is_complete=True)

    def _graph_search(self) -> None:
        seed = {"mode": "hybrid", **self._seed()}
        query = {"ranking_version": "typed_path_balanced_v1", "seed": seed, "limit": 50}
        self._ask("memory/search/graph", {"query": query})

    def _walk(self) -> None:
        picked = self._pick()
        if picked is not None:
            route = self._random.choice(("memory/graph/typed", "memory/graph"))
            self._ask(route, {"query": {"root_record_ids": [picked[0]]}})

    def _seed(self) -> Json:
        both = {"text": COMMON_WORD, "space": builders.SPACE, "vector": VECTOR}
        return {**both, "ranking_version": "weighted_rrf_v2"}

    def _ask(self, route: str, body: Json, *, is_complete: bool = False) -> None:
        exchange = self._post(route, body)
        if exchange.is_success:
            self._saw(route, exchange, is_complete=is_complete)

    def _saw(
        self, route: str, exchange: Exchange, *, absent: frozenset[str] = frozenset(), is_complete: bool = False
    ) -> None:
        shown = records_in(exchange.json)
        for record_id, seen in shown.items():
            self._place.note(record_id, seen)
        self._history.add(Sighting(
            self._name, self._place.marker, route, exchange.began_ns, exchange.ended_ns, shown, absent, is_complete
        ))  # fmt: skip


def records_in(document: Any) -> Mapping[str, Seen]:
    """Every whole record in an answer, wherever it stands; the first showing of each."""
    found: dict[str, Seen] = {}
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if "record_id" in value and "payload" in value and value["payload"] is not None:
                found.setdefault(value["record_id"], seen_record(value))
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return found


def _keyed(key: str, operation: Json) -> Json:
    return {"idempotency_key": key, "operation": operation}


def _expecting(record_id: str, seen: Seen) -> Json:
    return {"record_id": record_id, "expected_revision": seen.revision}

"""Clients that each write to memories of their own and know beforehand what every answer has to be.

They are those of the kill tests, sent through the edge by both transports. When a workspace has seen enough, its
clients go on in a new one, so that answers stay small and there are many scopes.
"""

from __future__ import annotations

import hashlib
import json
import random

from soak.caller import Caller, Exchange
from soak.history import Attempt, History, Json, Outcome
from tests.harness import builders
from tests.harness.suite import Suite
from tests.harness.turn import Command, Turn, whole_body
from tests.harness.workload import Interruption, Workload

CLIENTS_PER_PLACE = 2
TURNS_PER_PLACE = 240
_GRANTED_AT_ONCE = 4
_OVER_GRPC = 0.35


def new_marker(generator: random.Random) -> str:
    """A word that stands in the texts of one place only."""
    return f"mk{generator.getrandbits(40):010x}"


def digest_of(body: Json) -> str:
    """Tells commands apart."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def outcome_of(exchange: Exchange) -> Outcome:
    """What is known of a command after one sending."""
    if exchange.is_unknown:
        return "unknown"
    if exchange.status == 503:
        return "busy"
    return "acknowledged" if exchange.is_success else "refused"


class EdgeSender:
    """Brings the turns of one place's clients through the edge; see `tests.harness.workload.Sender`.

    Args:
        caller: Sends.
        history: Takes each attempt.
        suite: The company's.
        marker: Of the place.
        company_markers: All places of the company, which answers to its administrator may show.
    """

    def __init__(
        self, caller: Caller, history: History, suite: Suite, scope: Json, marker: str, company_markers: set[str]
    ) -> None:
        self.interruptions: list[Interruption] = []
        self._caller, self._history, self._suite = caller, history, suite
        self._scope, self._marker, self._company_markers = scope, marker, company_markers
        self._random = random.Random(marker)

    def send(self, turn: Turn) -> tuple[int, Json] | None:
        """Send a turn once; None when it has no answer of its own, or was refused for want of room."""
        is_administrator = isinstance(turn, Command) and turn.by_administrator
        own = frozenset(self._company_markers) if is_administrator else frozenset({self._marker})
        key = self._suite.admin_key if is_administrator else self._suite.writer_key
        body = whole_body(turn, self._scope)
        exchange = self._caller.send(
            "GET" if body is None else "POST", turn.route, body, key=key, own=own, query=getattr(turn, "query", None),
            over_grpc=self._random.random() < _OVER_GRPC,
        )  # fmt: skip
        if isinstance(turn, Command) and turn.key and body is not None:
            text = exchange.text if exchange.is_success else ""
            self._history.add(Attempt(self._marker, turn.route, turn.key, digest_of(body), outcome_of(exchange), text))
        if exchange.is_unknown or exchange.status == 503:
            return None
        return exchange.status, exchange.json

    def close(self) -> None:
        """The caller is others' too."""


class SteadyPlace:
    """One workspace and its clients.

    Attributes:
        scope: Where they write.
        marker: Of their texts.
        load: The clients.
    """

    def __init__(self, caller: Caller, history: History, suite: Suite, seed: str, company_markers: set[str]) -> None:
        self.suite = suite
        self.marker = new_marker(random.Random(f"{seed}/marker"))
        company_markers.add(self.marker)
        self.scope = builders.scope_json(f"project-{self.marker}", mission_id=f"mission-{self.marker}")
        sender = EdgeSender(caller, history, suite, self.scope, self.marker, company_markers)
        self.load = Workload(
            suite, self.scope, seed, client_count=CLIENTS_PER_PLACE, name=f"{self.marker}c", sender=sender
        )
        self._granted = 0

    @property
    def is_full(self) -> bool:
        """It has seen enough."""
        return self._granted >= TURNS_PER_PLACE

    def go_on(self) -> None:
        """Let the clients take some more turns when they have come near to the end of those that they have."""
        self.load.check()
        if self.load.is_stuck():
            self.load.grant(_GRANTED_AT_ONCE)
            self._granted += _GRANTED_AT_ONCE


class SteadyClients:
    """The steady clients of one company, place after place.

    Attributes:
        places: All of them, the current one last.
    """

    def __init__(self, caller: Caller, history: History, suite: Suite, seed: str, company_markers: set[str]) -> None:
        self.places: list[SteadyPlace] = []
        self._caller, self._history, self._suite = caller, history, suite
        self._seed, self._markers = seed, company_markers

    def go_on(self) -> None:
        """Keep the clients busy. Raises what has gone wrong in one."""
        if not self.places or self.places[-1].is_full:
            if self.places:
                self.places[-1].load.end_clients()
            seed = f"{self._seed}/{len(self.places)}"
            self.places.append(SteadyPlace(self._caller, self._history, self._suite, seed, self._markers))
        self.places[-1].go_on()

    def end(self) -> None:
        """End the clients."""
        if self.places:
            self.places[-1].load.end_clients()

"""Clients that write and read through the gateway while processes die, and remember what was acknowledged.

Each client has memories of its own, so that the effect of each of its commands is known beforehand. A turn is taken
only after it was granted: whoever drives the workload decides how much happens before, during and after a failure, in
numbers of turns and never in seconds.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

import httpx

from tests.harness.known_memory import Json, KnownMemory
from tests.harness.suite import Suite, wait_until
from tests.harness.turn import Command, Question, Turn, whole_body
from tests.harness.workload_turns import TurnMaker

CLIENT_COUNT = 6
ANSWER_S = 60.0
"""Within this time every request is answered or its connection is closed; anything else hangs."""
RECOVERY_S = 120.0
NO_BUSY_SLOTS = {"QILBEE_MAX_CONCURRENT_RETRIEVALS": "64"}
"""Environment of a suite that never refuses a request of a workload for want of an admission slot."""


class WorkloadStopped(Exception):
    """Ends a client whose suite is not to come back."""


@dataclass(frozen=True, slots=True)
class Interruption:
    """A request that got no answer of its own: the connection was lost, or the status was of the 5xx.

    Attributes:
        status: None when the connection was lost.
        began_s, ended_s: By the monotonic clock.
    """

    what: str
    status: int | None
    began_s: float
    ended_s: float


@dataclass(slots=True)
class Client:
    """One client.

    Attributes:
        commands: All that it has sent, in order.
        left: Commands that were never answered.
    """

    turns: TurnMaker
    memory: KnownMemory
    commands: list[Command] = field(default_factory=list)
    left: list[Command] = field(default_factory=list)


class Sender(Protocol):
    """Brings turns to a suite."""

    interruptions: list[Interruption]

    def send(self, turn: Turn) -> tuple[int, Json] | None:
        """Status and JSON of one attempt; None when it has no answer of its own. Called by many threads at once."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...


class GatewaySender:
    """Sends JSON straight to the gateway.

    Attributes:
        interruptions: What went without an answer of its own.
    """

    def __init__(self, suite: Suite, scope: Json) -> None:
        self.interruptions: list[Interruption] = []
        self._suite, self._scope = suite, scope
        self._http = httpx.Client(timeout=ANSWER_S, trust_env=False)

    def send(self, turn: Turn) -> tuple[int, Json] | None:
        """See `Sender`."""
        is_administrator = isinstance(turn, Command) and turn.by_administrator
        key = self._suite.admin_key if is_administrator else self._suite.writer_key
        url, headers = f"{self._suite.url}/api/v1/{turn.route}", {"Authorization": f"Bearer {key}"}
        body = whole_body(turn, self._scope)
        began_s = time.monotonic()
        try:
            if body is None:
                response = self._http.get(url, params=getattr(turn, "query", {}), headers=headers)
            else:
                response = self._http.post(url, json=body, headers=headers)
        except httpx.TimeoutException as error:
            raise AssertionError(f"{turn.route} hangs: {error!r}\n{self._suite.tail_of_log()}") from error
        except httpx.TransportError as error:
            self.interruptions.append(Interruption(f"{turn.route} {error!r}", None, began_s, time.monotonic()))
            return None
        json: Json = response.json()
        if response.status_code >= 500:
            # A service that cannot be reached is one thing, a store that contradicts itself another.
            assert (500, "internal_error") == (response.status_code, json["error"]["code"]), json
            what = f"{turn.route} {response.text}"
            self.interruptions.append(Interruption(what, response.status_code, began_s, time.monotonic()))
            return None
        return response.status_code, json

    def close(self) -> None:
        """See `Sender`."""
        self._http.close()


class Workload:
    """See the module.

    Args:
        suite: What the clients talk to; it may be stopped and started meanwhile.
        scope: Where they write.
        seed: Every client's choices follow from it.
        name: Begins the name of each client, and so every key and every text that it writes.
        sender: Brings their turns to the suite; straight to its gateway without one.

    Attributes:
        interruptions: What went without an answer of its own.
    """

    def __init__(
        self,
        suite: Suite,
        scope: Json,
        seed: str,
        *,
        client_count: int = CLIENT_COUNT,
        name: str = "client",
        sender: Sender | None = None,
    ) -> None:
        self._suite = suite
        self._sender = sender or GatewaySender(suite, scope)
        self.interruptions = self._sender.interruptions
        self.clients = []
        for number in range(client_count):
            memory = KnownMemory()
            turns = TurnMaker(f"{name}{number}", f"{seed}/{number}", memory, scope)
            self.clients.append(Client(turns, memory))
        self._changed = threading.Condition()
        self._granted = self._begun = self._finished = self._writing = 0
        self._is_ending = self._is_stopping = False
        self._failure: BaseException | None = None
        self._pool = ThreadPoolExecutor(client_count)
        for client in self.clients:
            self._pool.submit(self._run, client)

    def grant(self, turn_count: int) -> None:
        """Let the clients take that many further turns."""
        with self._changed:
            self._granted += turn_count
            self._changed.notify_all()

    def await_finished(self, turn_count: int) -> None:
        """Wait until all but that many of the granted turns are finished."""
        self._wait(lambda: self._granted - self._finished <= turn_count, "turns are finished")

    def await_waiting_writes(self) -> None:
        """Wait until two writes are under way, or nothing more is going to happen."""
        self._wait(lambda: self._writing >= 2 or self.is_stuck(), "two writes are under way")

    def is_stuck(self) -> bool:
        """Every granted turn has begun."""
        return self._begun == self._granted

    def stop_when_unanswered(self) -> None:
        """From now on a client that gets no answer ends: the suite is being stopped."""
        self._is_stopping = True

    def settle(self) -> None:
        """Send what was left unanswered again, until all is answered. No turn may be under way."""
        for client in self.clients:
            for command in client.left:
                command.take(*self.answer(command), is_repeated=True)
                for known in command.touches:
                    known.in_doubt = False
            client.left.clear()

    def repeat_all(self) -> None:
        """Send every acknowledged command again: each answers its own receipt, whatever has happened since."""
        for client in self.clients:
            for command in client.commands:
                if command.receipt is not None and command.is_repeatable:
                    status, answer = self.answer(command)
                    assert (200, command.receipt) == (status, answer.get("receipt")), command.route

    def answer(self, turn: Command | Question) -> tuple[int, Json]:
        """Status and JSON; sent again, with the same key, for as long as the suite has none of its own."""
        give_up_at_s = time.monotonic() + RECOVERY_S
        while time.monotonic() < give_up_at_s:
            answer = self._ask(turn)
            if answer is not None:
                return answer
            if self._is_stopping:
                raise WorkloadStopped
            wait_until(self._suite.is_healthy, "the gateway is healthy again", timeout_s=RECOVERY_S)
        raise AssertionError(f"{turn.route} was not answered within {RECOVERY_S:.0f} s\n{self._suite.tail_of_log()}")

    def question(self, question: Question) -> None:
        """Ask, and let the question judge the answer."""
        question.judge(*self.answer(question))

    def end_clients(self) -> None:
        """End the clients; turns that were granted and have not begun are not taken. Raises what went wrong in them."""
        with self._changed:
            self._is_ending = True
            self._changed.notify_all()
        self._pool.shutdown()
        self._is_stopping = False
        self.check()

    def close(self) -> None:
        """End everything. Safe to repeat."""
        try:
            self.end_clients()
        finally:
            self._sender.close()

    def check(self) -> None:
        """Raise what has gone wrong in a client, if anything."""
        if self._failure is not None:
            raise self._failure

    def _wait(self, condition: Any, what: str) -> None:
        with self._changed:
            came = self._changed.wait_for(lambda: self._failure is not None or condition(), RECOVERY_S)
        self.check()
        if not came:
            raise AssertionError(f"waited {RECOVERY_S:.0f} s in vain until {what}\n{self._suite.tail_of_log()}")

    def _run(self, client: Client) -> None:
        while self._begin_turn():
            try:
                self._take_turn(client)
            except WorkloadStopped:
                return
            except BaseException as error:  # noqa: BLE001 - raised in the thread of the test
                self._failure = self._failure or error
                return
            finally:
                with self._changed:
                    self._finished += 1
                    self._changed.notify_all()

    def _begin_turn(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._is_ending or self._begun < self._granted)
            if self._is_ending:
                return False
            self._begun += 1
            return True

    def _take_turn(self, client: Client) -> None:
        turn = client.turns.next_turn()
        if isinstance(turn, Question):
            turn.judge(*self.answer(turn))
            return
        client.commands.append(turn)
        answer = self._ask(turn)
        is_repeated = answer is None
        if answer is None:
            if not turn.can_be_sent_again:
                return
            if self._is_stopping or client.turns.gives_up():
                for known in turn.touches:
                    known.in_doubt = True
                client.left.append(turn)
                return
            answer = self.answer(turn)
        turn.take(*answer, is_repeated=is_repeated)

    def _ask(self, turn: Command | Question) -> tuple[int, Json] | None:
        """Status and JSON of one attempt; None when it has no answer of its own."""
        if isinstance(turn, Question):
            return self._sender.send(turn)
        self._count_writing(1)
        try:
            return self._sender.send(turn)
        finally:
            self._count_writing(-1)

    def _count_writing(self, change: int) -> None:
        with self._changed:
            self._writing += change
            self._changed.notify_all()

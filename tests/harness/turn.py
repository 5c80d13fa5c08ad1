"""One thing that a client of the workload does: a command whose effect is known beforehand, or a question."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.harness.known_memory import Json, Known


@dataclass(slots=True)
class Command:
    """One write under its own idempotency key.

    Attributes:
        route: Below /api/v1.
        body: As sent, each time.
        apply: Takes the receipt into what the client knows.
        touches: What is in doubt while the command is unanswered.
        refusal: Status and code with which it must be refused; None when it must succeed.
        receipt: What was acknowledged.
        is_repeatable: Sending it again answers the same; false for credentials, which have no idempotency keys.
        done_already: Status and code that a repetition may answer as well, since it tells that the first was done.
        by_administrator: Sent with the administrator's key.
    """

    route: str
    body: Json
    apply: Callable[[Json], None] = lambda _receipt: None
    touches: Sequence[Known] = ()
    refusal: tuple[int, str] | None = None
    receipt: Json | None = None
    is_repeatable: bool = True
    done_already: tuple[int, str] | None = None
    by_administrator: bool = False

    @property
    def can_be_sent_again(self) -> bool:
        """Sending it again tells what became of it."""
        return self.is_repeatable or self.done_already is not None

    @property
    def key(self) -> str:
        """The idempotency key; empty when it has none."""
        found = self.body.get("idempotency_key") or self.body.get("command", {}).get("idempotency_key", "")
        key: str = found
        return key

    def take(self, status: int, answer: Json, *, is_repeated: bool = False) -> None:
        """Take an answer of the suite's own: what was expected is applied, anything else is an AssertionError.

        Args:
            is_repeated: The command was sent before, and nobody knows what became of it.
        """
        code = answer["error"]["code"] if "error" in answer else None
        if self.refusal is not None:
            assert self.refusal == (status, code), (self.route, self.body, answer)
        elif is_repeated and self.done_already == (status, code):
            self.apply({})
        else:
            assert status in (200, 201), (self.route, self.body, status, answer)
            receipt = answer.get("receipt", answer)
            self.apply(receipt)
            self.receipt = receipt


@dataclass(slots=True)
class Question:
    """One read. `judge` is given status and JSON, and asserts."""

    route: str
    judge: Callable[[int, Json], None]
    body: Json | None = None
    query: Json = field(default_factory=dict)


Turn = Command | Question


def whole_body(turn: Turn, scope: Json) -> Json | None:
    """The body as it is sent; None for a GET."""
    if turn.body is None:
        return None
    scoped = {} if isinstance(turn, Command) and turn.by_administrator else {"scope": scope}
    version = {} if "command" in turn.body else {"contract_version": 1}
    return {**version, **scoped, **turn.body}

"""What the clients and the worker raise."""

from __future__ import annotations

from typing import NoReturn, Optional

NOT_ATTEMPTED = "not_attempted"
REJECTED = "rejected"
UNKNOWN = "unknown"


class ConsumerError(Exception):
    """An operation of a client failed.

    Attributes:
        code: Short stable name of the reason; for refusals the server's own code.
        status: HTTP status of a refusal, otherwise None.
        checkpoint_outcome: What became of a command: `rejected`, `unknown` (it may have been carried out; repeat it
            unchanged), or `not_attempted`.
        detail: For people only: the server's own sentence, or which member is at fault and why. May be empty; it never
            holds a value, a key or the text of a memory.
    """

    def __init__(self, code: str, *, status: Optional[int] = None, checkpoint_outcome: str = NOT_ATTEMPTED) -> None:
        super().__init__(code)
        self.code = code
        self.status = status
        self.checkpoint_outcome = checkpoint_outcome
        self.detail = ""

    def __str__(self) -> str:
        name = self.code if self.status is None else f"{self.code} (HTTP {self.status})"
        return f"{name}: {self.detail}" if self.detail else name

    def place(self, member: str) -> None:
        """Put the name of the member that holds the fault before its detail."""
        # A fault of the member itself is a sentence, which has blanks; one further down begins with its own path.
        head = self.detail.partition(": ")[0]
        if head:
            member += ": " if " " in head else "" if head.startswith("[") else "."
        self.detail = member + self.detail


class ConsumerAPIError(ConsumerError):
    """The server refused, with the documented envelope."""


class ConsumerProtocolError(ConsumerError):
    """An answer is not the documented one, or an argument cannot be part of a documented request."""


class ConsumerTransportError(ConsumerError):
    """The server could not be reached, or the connection failed before an answer was complete."""


class ReconciliationRequired(ConsumerError):
    """Going on could act for somebody else or repeat something: a person or a policy has to look first."""


class ConsolidationStopped(Exception):
    """A worker stopped before or after calling the extractor. Says nothing about what the extractor has cost.

    Attributes:
        code: `job_not_ready`, `claim_no_longer_current`, `provider_outcome_unknown`, `invalid_provider_result`,
            `journal_in_use` or `journal_symlink_rejected`.
    """

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


INVALID_RESPONSE = "invalid_response"


def refuse(code: str = INVALID_RESPONSE, *, detail: str = "") -> NoReturn:
    """Raise the error of an answer or argument that is not as documented."""
    error = ConsumerProtocolError(code)
    error.detail = detail
    raise error

"""When the memory client tries again, and what it says when it gives up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from qilbeedb import ConsumerAPIError, ConsumerProtocolError, ConsumerTransportError, MemoryClient, _memory_routes
from tests.harness import scripted_jobs as jobs
from tests.harness.plain_http import PlainRequest, PlainServer, json_reply, plain_server, raw_reply

RECORD_ID = jobs.SOURCES[0]["record_id"]


def refusal(status: int, code: str) -> bytes:
    return json_reply({"contract_version": 1, "error": {"code": code, "message": ""}}, status=status)


LOST = b""
BUSY = refusal(503, "retrieval_busy")
CONFLICT = refusal(409, "revision_conflict")
RECEIPT = {
    "contract_version": 1, "idempotency_key": "k", "record_id": RECORD_ID, "revision": 2, "action": "deleted",
    "committed_at_millis": 0, "author": jobs.AUTHOR,
}  # fmt: skip
DONE = json_reply({"contract_version": 1, "receipt": RECEIPT})


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What would have been waited, in order; nothing is."""
    found: list[float] = []
    monkeypatch.setattr(_memory_routes.time, "sleep", found.append)
    return found


class Script:
    """Answers the commands that arrive from a list, and the identity always."""

    def __init__(self) -> None:
        self.replies: list[bytes] = []
        self.bodies: list[Any] = []

    def answer(self, request: PlainRequest) -> bytes:
        if request.path == "/api/v1/identity":
            return json_reply(jobs.identity())
        self.bodies.append(json.loads(request.body))
        return self.replies[len(self.bodies) - 1]


@pytest.fixture
def served() -> Iterator[tuple[Script, PlainServer]]:
    script = Script()
    with plain_server(script.answer) as server:
        yield script, server


def delete(server: PlainServer, retries: int = 2) -> dict[str, Any]:
    client = MemoryClient(
        server.url, "k", tenant_id=jobs.COMPANY, subject_id=jobs.SUBJECT, scope=jobs.SCOPE, timeout=20, retries=retries
    )
    return client.delete(RECORD_ID, 1, idempotency_key="k")


@pytest.mark.parametrize("replies", [[DONE], [LOST, DONE], [BUSY, LOST, DONE]])
def test_passing_faults(served: tuple[Script, PlainServer], waits: list[float], replies: list[bytes]) -> None:
    """A lost answer or a busy server is met with the same body and key, after growing waits."""
    script, server = served
    script.replies = replies
    assert RECEIPT == delete(server)
    assert len(replies) == len(script.bodies)
    assert all(script.bodies[0] == body for body in script.bodies)
    assert len(replies) - 1 == len(waits)
    assert all(0.025 * 2**index <= wait <= 0.05 * 2**index for index, wait in enumerate(waits))


@pytest.mark.parametrize(
    ("kind", "outcome", "replies"),
    [
        (ConsumerTransportError, "unknown", [LOST, LOST, LOST]),
        (ConsumerAPIError, "unknown", [BUSY, BUSY, BUSY]),
        (ConsumerAPIError, "rejected", [CONFLICT]),
        (ConsumerAPIError, "rejected", [BUSY, CONFLICT]),
        (ConsumerAPIError, "unknown", [LOST, CONFLICT]),
        (ConsumerAPIError, "unknown", [refusal(500, "internal_error")]),
        (ConsumerProtocolError, "unknown", [raw_reply(b"<", content_type="text/html")]),
    ],
)
def test_giving_up(
    served: tuple[Script, PlainServer], waits: list[float], kind: type[Exception], outcome: str, replies: list[bytes]
) -> None:
    """Refusals and nonsense are final; so is the last try. A refusal after a lost answer does not make that undone."""
    script, server = served
    script.replies = replies
    with pytest.raises(kind) as caught:
        delete(server)
    assert (outcome, len(replies)) == (caught.value.checkpoint_outcome, len(script.bodies))  # type: ignore[attr-defined]


def test_no_retries(served: tuple[Script, PlainServer], waits: list[float]) -> None:
    """Zero repetitions mean one try."""
    served[0].replies = [LOST]
    with pytest.raises(ConsumerTransportError):
        delete(served[1], retries=0)
    assert [] == waits


def test_answers_are_bounded(served: tuple[Script, PlainServer]) -> None:
    """A longer answer than the caller wants is not read."""
    served[0].replies = [json_reply({"contract_version": 1, "receipt": {**RECEIPT, "idempotency_key": "k" * 2000}})]
    client = MemoryClient(
        served[1].url, "k", tenant_id=jobs.COMPANY, subject_id=jobs.SUBJECT, scope=jobs.SCOPE, response_bytes_max=1024
    )
    with pytest.raises(ConsumerProtocolError) as caught:
        client.delete(RECORD_ID, 1, idempotency_key="k")
    assert "response_too_large" == caught.value.code


@pytest.mark.parametrize(
    "members",
    [
        {"idempotency_key": "other"},
        {"record_id": jobs.FENCE},
        {"revision": 1},
        {"action": "updated"},
        {"author": {**jobs.AUTHOR, "subject_id": "other"}},
    ],
)
def test_receipts_of_other_commands(served: tuple[Script, PlainServer], members: dict[str, Any]) -> None:
    """A receipt has to be that of the command."""
    served[0].replies = [json_reply({"contract_version": 1, "receipt": {**RECEIPT, **members}})]
    with pytest.raises(ConsumerProtocolError):
        delete(served[1])

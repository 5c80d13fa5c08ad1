"""Every member of every answer that a worker reads before it may call its extractor, spoiled one at a time."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qilbeedb import (
    ConsolidationClient,
    ConsolidationInput,
    ConsolidationResult,
    ConsolidationStopped,
    ConsumerError,
    ExternalConsolidationWorker,
    SQLiteConsolidationJournal,
)
from qilbeedb._transport import Response
from tests.harness import scripted_jobs as jobs
from tests.harness.plain_http import PlainRequest
from tests.harness.scripted_jobs import ScriptedJobs
from tests.harness.spoiling import spoiled, without

# Of an identity only the members are looked at that `test_sdk_transport.test_somebody_else` spoils.
ROUTES = ("inspect", "claim", "context")
# What may hold anything, or be left out, by the documentation.
FREE = ("data", "metadata", "embedding")
OPTIONAL = (
    *("secondary", "data", "embedding", "valid_until_millis", "tags", "metadata", "review", "derivation"),
    "mission_id",
)
KINDS = (" replaced", " with another member", " as an array", " as text", " as a float")


class InProcess:
    """The scripted server without a socket, for very many runs."""

    def __init__(self, scripted: ScriptedJobs, endpoint: Any) -> None:
        self.scripted = scripted
        self.endpoint = endpoint

    def exchange(self, method: str, path: str, body: bytes | None = None) -> Response:
        reply = self.scripted.answer(PlainRequest(method, path, {}, body or b""))
        assert isinstance(reply, bytes)
        return Response(200, json.loads(reply.partition(b"\r\n\r\n")[2]))


def comes_to_the_extractor(directory: Path, route: str, spoil: Callable[[Any], Any]) -> bool:
    """Run a worker that gets the route's first answer spoiled, and tell whether it called its extractor."""
    scripted, calls = ScriptedJobs(), 0

    def once(document: Any) -> Any:
        del scripted.spoils[route]
        return spoil(document)

    def extract(_: ConsolidationInput) -> ConsolidationResult:
        nonlocal calls
        calls += 1
        raise OSError

    scripted.spoils[route] = once
    client = ConsolidationClient(
        "http://127.0.0.1:1", "secret", tenant_id=jobs.COMPANY, subject_id=jobs.SUBJECT, scope=jobs.SCOPE
    )
    client._session.transport = InProcess(scripted, client._session.transport.endpoint)  # type: ignore[assignment]
    worker = ExternalConsolidationWorker(client, SQLiteConsolidationJournal(directory), worker_id="w")
    with pytest.raises((ConsumerError, ConsolidationStopped)) as raised:
        worker.run_once(jobs.JOB_ID, extract)
    # Without a call, it is the answer that stopped it.
    assert calls == 1 or isinstance(raised.value, ConsumerError)
    return calls == 1


@pytest.mark.parametrize("route", ROUTES)
def test_every_member_on_the_way_to_the_extractor(tmp_path: Path, route: str) -> None:
    """Whichever member is missing, added or of another type: a typed error, and the extractor is not called."""
    whole: list[Any] = []

    def keep(document: Any) -> Any:
        whole.append(document)
        return document

    assert comes_to_the_extractor(tmp_path / "whole", route, keep)
    changes = [change for change in spoiled(whole[0], free=FREE) if change[0].endswith(KINDS)]
    changes += [change for change in without(whole[0], free=FREE) if change[0].rpartition("/")[2] not in OPTIONAL]
    assert len(changes) > 20
    assert [] == [
        what
        for number, (what, document) in enumerate(changes)
        if comes_to_the_extractor(tmp_path / str(number), route, lambda _, document=document: document)  # type: ignore[misc]
    ]

"""The SDK against servers that answer wrongly: it stops with its typed error and never runs the extractor."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from qilbeedb import (
    ConsolidationClient,
    ConsolidationInput,
    ConsolidationResult,
    ConsumerAPIError,
    ConsumerError,
    ConsumerProtocolError,
    ConsumerTransportError,
    ExternalConsolidationWorker,
    ReconciliationRequired,
    SQLiteConsolidationJournal,
)
from tests.harness import scripted_jobs as jobs
from tests.harness.plain_http import Pieces, PlainRequest, PlainServer, json_reply, plain_server, raw_reply
from tests.harness.scripted_jobs import ScriptedJobs, scripted_jobs

ROUTES = ("identity", "inspect", "claim", "context")
"""What a worker reads before it may call its extractor."""

MIB = 1024 * 1024


@pytest.fixture
def world() -> Iterator[tuple[ScriptedJobs, PlainServer]]:
    """One ready job on a scripted server."""
    with scripted_jobs() as running:
        yield running


def client_of(server: PlainServer, key: Any = "secret", timeout: float = 20.0) -> ConsolidationClient:
    return ConsolidationClient(
        server.url, key, tenant_id=jobs.COMPANY, subject_id=jobs.SUBJECT, scope=jobs.SCOPE, timeout=timeout
    )


def forbidden(_: ConsolidationInput) -> ConsolidationResult:
    raise AssertionError("the extractor was called")


def stage_of(worker: ExternalConsolidationWorker) -> str | None:
    with worker.journal.transaction() as transaction:
        state = transaction.load(worker.binding_id, jobs.JOB_ID)
    return None if state is None else str(state["stage"])


def run(server: PlainServer, directory: Path, timeout: float = 20.0) -> tuple[ConsumerError, str | None]:
    """Run a worker that must stop before its extractor; return the error and the stage it left."""
    worker = ExternalConsolidationWorker(
        client_of(server, timeout=timeout), SQLiteConsolidationJournal(directory), worker_id="w"
    )
    with pytest.raises(ConsumerError) as caught:
        worker.run_once(jobs.JOB_ID, forbidden)
    return caught.value, stage_of(worker)


def as_text(document: Any) -> bytes:
    return json.dumps(document).encode()


def inserted(old: str, new: str) -> Callable[[Any], bytes]:
    """Send the answer with a piece of its JSON text replaced."""

    def spoil(document: Any) -> bytes:
        text = json.dumps(document)
        assert old in text
        return json_reply(text.replace(old, new, 1))

    return spoil


VERSION = '"contract_version": 1'

WRONG_BYTES: dict[str, tuple[str, Callable[[Any], bytes]]] = {
    "duplicate member": ("duplicate_response_field", inserted(VERSION, f"{VERSION}, {VERSION}")),
    "NaN": ("nonfinite_response_number", inserted(VERSION, '"contract_version": NaN')),
    "beyond float": ("nonfinite_response_number", inserted(VERSION, '"contract_version": 1e400')),
    "2^64": ("response_integer_out_of_range", inserted(VERSION, f'"contract_version": {2**64}')),
    "below -2^63": ("response_integer_out_of_range", inserted(VERSION, f'"contract_version": {-(2**63) - 1}')),
    "a million digits": ("response_integer_out_of_range", inserted(VERSION, f'"contract_version": {"9" * 1_000_000}')),
    "cut JSON": ("invalid_json_response", lambda document: raw_reply(as_text(document)[:-1])),
    "no body": ("invalid_json_response", lambda _: raw_reply(b"")),
    "another encoding": ("invalid_json_response", lambda d: raw_reply(as_text(d).decode().encode("utf-16"))),
    "no object": ("invalid_response", lambda document: json_reply([document])),
    "another version": ("invalid_response", inserted(VERSION, '"contract_version": 2')),
    "version as a float": ("invalid_response", inserted(VERSION, '"contract_version": 1.0')),
    "version as a boolean": ("invalid_response", inserted(VERSION, '"contract_version": true')),
    "extra member": ("invalid_response", lambda document: json_reply({**document, "extra": None})),
    "no member": ("invalid_response", lambda _: json_reply({"contract_version": 1})),
    "redirect": (
        "redirect_rejected",
        lambda d: raw_reply(as_text(d), "Location: http://127.0.0.1:1/", status=307),
    ),
    "not modified": ("redirect_rejected", lambda _: raw_reply(b"", status=304)),
    "HTML": ("non_json_response", lambda _: raw_reply(b"<html>", content_type="text/html")),
    "no content type": ("non_json_response", lambda document: raw_reply(as_text(document), content_type=None)),
    "JSON lines": (
        "non_json_response",
        lambda document: raw_reply(as_text(document), content_type="application/json-seq"),
    ),
    "cacheable": (
        "cacheable_response_rejected",
        lambda document: raw_reply(as_text(document), cache_control="no-store, max-age=1"),
    ),
    "no cache control": (
        "cacheable_response_rejected",
        lambda document: raw_reply(as_text(document), cache_control=None),
    ),
    "compressed": ("encoded_response_rejected", lambda d: raw_reply(as_text(d), "Content-Encoding: gzip")),
    "transfer coding": (
        "encoded_response_rejected",
        lambda d: raw_reply(as_text(d), "Transfer-Encoding: gzip", length=None),
    ),
    "two content types": (
        "duplicate_response_header",
        lambda document: raw_reply(as_text(document), "Content-Type: application/json"),
    ),
    "two lengths": ("duplicate_response_header", lambda d: raw_reply(as_text(d), f"Content-Length: {len(as_text(d))}")),
    "two cache controls": (
        "duplicate_response_header",
        lambda document: raw_reply(as_text(document), "cache-control: no-store"),
    ),
    "length and chunks": (
        "ambiguous_response_length",
        lambda _: raw_reply(b"2\r\n{}\r\n0\r\n\r\n", "Transfer-Encoding: chunked"),
    ),
    "length in words": (
        "ambiguous_response_length",
        lambda d: raw_reply(as_text(d), "Content-Length: many", length=None),
    ),
    "negative length": (
        "ambiguous_response_length",
        lambda d: raw_reply(as_text(d), "Content-Length: -1", length=None),
    ),
    "cut body": ("truncated_response", lambda d: raw_reply(as_text(d), length=len(as_text(d)) + 1)),
    "declared too large": ("response_too_large", lambda d: raw_reply(as_text(d), length=16 * MIB + 1)),
    "too large": ("response_too_large", lambda _: raw_reply(b" " * (16 * MIB + 1), length=None)),
    "success without content": ("non_json_response", lambda _: raw_reply(b"", status=204, content_type=None)),
    "created": ("invalid_response", lambda document: json_reply(document, status=201)),
    "error without envelope": ("invalid_response", lambda _: json_reply({"error": "no"}, status=404)),
    "error with a code of no shape": (
        "invalid_response",
        lambda _: json_reply({"contract_version": 1, "error": {"code": "Not-Found", "message": ""}}, status=404),
    ),
}


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("fault", WRONG_BYTES)
def test_wrong_answers(world: tuple[ScriptedJobs, PlainServer], tmp_path: Path, route: str, fault: str) -> None:
    """Every fault in every answer on the way to the extractor has its code, and the extractor is not called."""
    scripted, server = world
    code, spoil = WRONG_BYTES[fault]
    scripted.spoils[route] = spoil
    error, stage = run(server, tmp_path / "journal")
    assert (ConsumerProtocolError, code) == (type(error), error.code)
    assert {"identity": None, "inspect": None, "claim": "claiming", "context": "claimed"}[route] == stage


@pytest.mark.parametrize("route", ROUTES)
def test_silence(world: tuple[ScriptedJobs, PlainServer], tmp_path: Path, route: str) -> None:
    """A server that stops talking is left after the timeout."""
    scripted, server = world
    scripted.spoils[route] = lambda _: None
    error, _ = run(server, tmp_path / "journal", timeout=0.2)
    assert (ConsumerTransportError, "transport_failure") == (type(error), error.code)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("cut", [10, -1])
def test_a_body_that_stalls(world: tuple[ScriptedJobs, PlainServer], tmp_path: Path, route: str, cut: int) -> None:
    """A server that stops within the headers, or before the last byte of the body, is left after the timeout."""
    scripted, server = world
    scripted.spoils[route] = lambda document: Pieces((json_reply(document)[:cut],), is_whole=False)
    error, _ = run(server, tmp_path / "journal", timeout=0.2)
    assert (ConsumerTransportError, "transport_failure") == (type(error), error.code)


def test_a_body_in_single_bytes(world: tuple[ScriptedJobs, PlainServer]) -> None:
    """The timeout is that of one read: however slowly an answer comes, it counts when it is whole, and only then."""
    scripted, server = world

    def by_bytes(document: Any) -> Pieces:
        reply = json_reply(document)
        return Pieces(tuple(reply[index : index + 1] for index in range(len(reply))), is_whole=True)

    scripted.spoils["inspect"] = by_bytes
    assert "ready" == client_of(server).inspect(jobs.JOB_ID)["job"]["status"]
    scripted.spoils["inspect"] = lambda document: Pieces(by_bytes(document).parts[:-1], is_whole=True)
    with pytest.raises(ConsumerProtocolError) as caught:
        client_of(server).inspect(jobs.JOB_ID)
    assert "truncated_response" == caught.value.code


def test_a_body_without_end(world: tuple[ScriptedJobs, PlainServer]) -> None:
    """An answer in chunks that never ends is left as soon as it is longer than any answer may be."""
    scripted, server = world
    head = raw_reply(b"", "Transfer-Encoding: chunked", length=None)
    chunk = b"100000\r\n" + b" " * MIB + b"\r\n"
    scripted.spoils["inspect"] = lambda _: Pieces((head, *(chunk,) * 17), is_whole=False)
    with pytest.raises(ConsumerProtocolError) as caught:
        client_of(server).inspect(jobs.JOB_ID)
    assert "response_too_large" == caught.value.code


@pytest.mark.parametrize(
    "reply",
    [b"", b"HTTP/1.1 ", b"SMTP ready\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n",
     b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000 + b"\r\n\r\n",
     (b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nCache-Control: no-store\r\n"
     b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n")],
)  # fmt: skip
def test_no_http(tmp_path: Path, reply: bytes) -> None:
    """What is not HTTP, or ends inside of it, is a transport failure."""
    with plain_server(lambda _: reply) as server:
        error, stage = run(server, tmp_path / "journal")
    assert (ConsumerTransportError, "transport_failure", None) == (type(error), error.code, stage)


def test_nobody_listens(tmp_path: Path) -> None:
    """A refused connection is a transport failure."""
    with plain_server(lambda _: b"") as server:
        url = server.url
    error, _ = run(PlainServer(lambda _: b"", url=url), tmp_path / "journal")
    assert ConsumerTransportError is type(error)


@pytest.mark.parametrize(
    ("kind", "code", "answer"),
    [
        (ReconciliationRequired, "credential_identity_mismatch", jobs.identity(tenant_id="other")),
        (ReconciliationRequired, "credential_identity_mismatch", jobs.identity(spec={"subject_id": "other"})),
        (ConsumerProtocolError, "invalid_response", jobs.identity(revoked_at_millis=1)),
        (ConsumerProtocolError, "invalid_response", jobs.identity(tenant_id=None)),
        (ConsumerProtocolError, "invalid_response", jobs.identity(spec=None)),
        (ConsumerProtocolError, "invalid_response", {"contract_version": 1, "credential": []}),
    ],
)
def test_somebody_else(tmp_path: Path, kind: type[ConsumerError], code: str, answer: Any) -> None:
    """A credential of another company or subject sends nothing but the question who it is."""
    with plain_server(lambda _: json_reply(answer)) as server:
        error, _ = run(server, tmp_path / "journal")
    assert (kind, code) == (type(error), error.code)
    assert ["/api/v1/identity"] == [request.path for request in server.requests]


@pytest.mark.parametrize("key", ["", "a b", "a\n", "\u00e9", lambda: "", lambda: None])
def test_credentials_that_cannot_travel(world: tuple[ScriptedJobs, PlainServer], key: Any) -> None:
    """Blank, white space and non-ASCII are refused before anything is sent."""
    with pytest.raises(ConsumerError) as caught:
        client_of(world[1], key).inspect(jobs.JOB_ID)
    assert "invalid_credential" == caught.value.code
    assert [] == world[1].requests


def test_requests(world: tuple[ScriptedJobs, PlainServer]) -> None:
    """Two requests for each operation, with the documented headers, compact bodies and the whole scope."""
    keys = iter(["one", "two"])
    client_of(world[1], lambda: next(keys)).query()
    identity, query = world[1].requests
    assert ("GET", "/api/v1/identity", "Bearer one") == (
        identity.method, identity.path, identity.headers["authorization"],
    )  # fmt: skip
    assert ("POST", "/api/v1/memory/consolidation/query", "Bearer two") == (
        query.method, query.path, query.headers["authorization"],
    )  # fmt: skip
    for request in (identity, query):
        assert "application/json" == request.headers["accept"]
        assert "application/json" == request.headers["content-type"]
        assert "identity" == request.headers["accept-encoding"]
    assert b"" == identity.body
    assert {
        "contract_version": 1,
        "scope": jobs.SCOPE,
        "query": {"limit": 25, "scan_limit": 100, "after": None, "status": None},
    } == query.json
    assert b" " not in query.body


def test_path_of_the_base_url(world: tuple[ScriptedJobs, PlainServer]) -> None:
    """A path in the base URL stands before every route."""
    world[1].url += "/gate/way/"
    client_of(world[1]).query()
    assert ["/gate/way/api/v1/identity", "/gate/way/api/v1/memory/consolidation/query"] == [
        request.path for request in world[1].requests
    ]


def test_arguments_are_checked_first(world: tuple[ScriptedJobs, PlainServer]) -> None:
    """What cannot be a documented request is not sent."""
    client = client_of(world[1])
    calls: list[tuple[str, Callable[[], Any]]] = [
        ("invalid_response", lambda: client.inspect("no uuid")),
        ("invalid_response", lambda: client.inspect(jobs.JOB_ID.upper())),
        ("invalid_response", lambda: client.revision(jobs.JOB_ID, 0)),
        ("invalid_response", lambda: client.context(jobs.JOB_ID, 2**64, jobs.FENCE)),
        ("invalid_response", lambda: client.query(limit=101)),
        ("invalid_response", lambda: client.query(scan_limit=0)),
        ("invalid_response", lambda: client.query(status="open")),
        ("invalid_response", lambda: client.query(after="x")),
        ("invalid_response", lambda: client.command({"type": "cancel"}, idempotency_key=" ")),
        ("invalid_response", lambda: client.command({"type": float("inf")}, idempotency_key="k")),
        ("consolidation_value_too_large", lambda: client.command({"type": "x" * 65_536}, idempotency_key="k")),
        ("request_too_large", lambda: client.command({"type": "x" * 65_400}, idempotency_key="k")),
    ]
    for code, call in calls:
        with pytest.raises(ConsumerProtocolError) as caught:
            call()
        assert (code, "not_attempted") == (caught.value.code, caught.value.checkpoint_outcome)
    assert [] == world[1].requests


ENVELOPE = {"contract_version": 1, "error": {"code": "revision_conflict", "message": "m"}}


@pytest.mark.parametrize(
    ("kind", "outcome", "spoil"),
    [
        (ConsumerAPIError, "rejected", lambda _: json_reply(ENVELOPE, status=409)),
        (ConsumerAPIError, "unknown", lambda _: json_reply(ENVELOPE, status=500)),
        (ConsumerTransportError, "unknown", lambda _: b""),
        (ConsumerProtocolError, "unknown", lambda d: raw_reply(as_text(d), content_type="text/plain")),
        (ConsumerProtocolError, "not_attempted", lambda d: json_reply({**d, "receipt": {**d["receipt"], "x": 1}})),
    ],
)
def test_what_became_of_a_command(
    world: tuple[ScriptedJobs, PlainServer], kind: type[ConsumerError], outcome: str, spoil: Callable[[Any], bytes]
) -> None:
    """The outcome says whether the same command may still have been carried out."""
    scripted, server = world
    scripted.spoils["claim"] = spoil
    operation = {"type": "claim", "job_id": jobs.JOB_ID, "expected_revision": 1, "worker_id": "w"}
    with pytest.raises(kind) as caught:
        client_of(server).command(operation, idempotency_key="k")
    assert outcome == caught.value.checkpoint_outcome
    scripted.spoils = {"inspect": spoil} if kind is not ConsumerProtocolError else {"inspect": lambda _: b""}
    with pytest.raises(ConsumerError) as caught:
        client_of(server).inspect(jobs.JOB_ID)
    assert "not_attempted" == caught.value.checkpoint_outcome


def test_refusals_keep_their_code(world: tuple[ScriptedJobs, PlainServer]) -> None:
    """The server's own code and status."""
    world[0].spoils["inspect"] = lambda _: json_reply(ENVELOPE, status=409)
    with pytest.raises(ConsumerAPIError) as caught:
        client_of(world[1]).inspect(jobs.JOB_ID)
    assert ("revision_conflict", 409) == (caught.value.code, caught.value.status)


def test_another_scope_is_refused(world: tuple[ScriptedJobs, PlainServer]) -> None:
    """An answer about another scope is no answer; one that leaves a null mission out is."""
    scripted, server = world
    scripted.spoils["inspect"] = lambda document: {**document, "scope": {**jobs.SCOPE, "project_id": "q"}}
    with pytest.raises(ConsumerProtocolError):
        client_of(server).inspect(jobs.JOB_ID)
    missionless = {name: value for name, value in jobs.SCOPE.items() if name != "mission_id"}
    scripted.spoils["inspect"] = lambda document: {**document, "scope": missionless}
    assert "ready" == client_of(server).inspect(jobs.JOB_ID)["job"]["status"]


def test_an_unknown_operation_is_sent_and_fails(world: tuple[ScriptedJobs, PlainServer]) -> None:
    """The server judges operations; an answer to one that the client does not know is not believed."""

    def answer(request: PlainRequest) -> bytes:
        if request.method == "GET":
            return json_reply(jobs.identity())
        receipt = {
            "contract_version": 1, "idempotency_key": "k", "job_id": jobs.JOB_ID, "revision": 1, "action": "created",
            "author": jobs.AUTHOR, "committed_at_millis": 0, "job_digest": jobs.DIGEST, "command_digest": jobs.DIGEST,
            "receipt_digest": jobs.DIGEST,
        }  # fmt: skip
        return json_reply({"contract_version": 1, "receipt": receipt})

    with plain_server(answer) as server:
        assert "created" == client_of(server).command({"type": "create"}, idempotency_key="k")["action"]
        with pytest.raises(ConsumerProtocolError):
            client_of(server).command({"type": "invent"}, idempotency_key="k")
    assert 4 == len(server.requests)


def test_one_operation_at_a_time() -> None:
    """A client that is used while it works refuses at once, and works again afterwards."""
    clients: list[ConsolidationClient] = []
    codes: list[str] = []
    scripted = ScriptedJobs()

    def answer(request: PlainRequest) -> Any:
        if not codes:
            with pytest.raises(ConsumerError) as caught:
                clients[0].inspect(jobs.JOB_ID)
            codes.append(caught.value.code)
        return scripted.answer(request)

    with plain_server(answer) as server:
        clients.append(client_of(server))
        clients[0].inspect(jobs.JOB_ID)
        clients[0].inspect(jobs.JOB_ID)
    assert ["consumer_already_running"] == codes

"""G1 and G5: refusals say nothing of the inside, and logs nothing of what was sent, whatever was sent."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from services.runtime.channel import open_channel
from tests.harness import builders, verdict
from tests.harness.api import Api
from tests.harness.both_ways import BothWays
from tests.harness.documented_requests import SCOPED, Documented, Known, by_name, make_known
from tests.harness.raw_http import RawConnection
from tests.harness.suite import Suite, running_suite

MARK = "marmalade"
INSIDE = re.compile(r"Traceback|File \"|\.py\b|/tmp/|/data/|grpc|Exception|leveldb|unix:|object at 0x", re.IGNORECASE)


@pytest.fixture(scope="module")
def talkative(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Suite]:
    """A suite that logs as much as it can."""
    with running_suite(tmp_path_factory.mktemp("talkative"), {"WAGGLE_LOG_LEVEL": "debug"}) as suite:
        yield suite


@pytest.fixture(scope="module")
def both(talkative: Suite) -> Iterator[BothWays]:
    with BothWays(talkative) as caller:
        yield caller


@pytest.fixture(scope="module")
def known(talkative: Suite) -> Iterator[Known]:
    """A memory in which every name and text holds the mark."""
    scope = builders.scope_json(f"{MARK} project {uuid.uuid4()}", agent_id=f"{MARK} agent")
    with talkative.client() as client:
        api = Api(client, scope)
        api.create(f"a {MARK} text", tags=[f"{MARK} tag"], metadata={MARK: MARK}, content_data={"of": MARK})
        yield make_known(api)


def marked(value: Any) -> Any:
    """A body with the mark in every free text."""
    text = json.dumps(value)
    for word in ("alpha", "hive", "changed", '"ref"', '"m"', "made of"):
        text = text.replace(
            word, f'"{MARK} ref"' if word == '"ref"' else f'"{MARK}"' if word == '"m"' else f"{MARK} {word}"
        )
    return json.loads(text)


def spoilt(body: Any) -> Iterator[Any]:
    """Bodies that are refused, each for another reason, with the mark where it hurts."""
    yield {**body, MARK: MARK}
    yield {**body, "contract_version": MARK}
    yield {**body, "scope": {**body.get("scope", {}), "visibility": MARK}}
    yield {**body, "scope": {**body.get("scope", {}), "project_id": f"{MARK}\u0000"}}
    yield {**body, "idempotency_key": MARK * 100}
    yield {**body, "query": MARK}
    yield {**body, "operation": {"type": MARK, MARK: [MARK]}}
    yield {**body, "operation": [{MARK: MARK}]}
    yield json.dumps(body)[:-1] + f', "{MARK}'
    yield json.dumps(body)[:-1] + f', "{MARK}": {MARK}}}'
    yield f'"{MARK}"'


def assert_silent(text: str) -> None:
    assert not INSIDE.search(text), text


@pytest.mark.parametrize("route", SCOPED, ids=by_name)
def test_refusals_tell_the_rule_and_nothing_else(both: BothWays, known: Known, route: Documented) -> None:
    """No trace, path or type of the inside in any answer; 400 with the envelope for every spoilt body."""
    path, body, query = route.path_for(known), route.body_for(known), route.query_for(known)
    if body is None:
        for name in query or {}:
            outcome = both.send("GET", path, query={**(query or {}), name: f"{MARK}\u0000"})
            assert 400 == outcome.status
            assert_silent(outcome.text)
        return
    for wrong in spoilt(marked(body)):
        outcome = both.send(route.method, path, wrong)
        assert (400, "invalid_request") == outcome.verdict, outcome.text
        assert_silent(outcome.text)
    assert 500 > both.send(route.method, path, marked(body)).status


def test_what_is_no_request_at_all(talkative: Suite) -> None:
    """Bytes that are neither HTTP nor a message are refused and never shown."""
    for data in (
        f"{MARK} / HTTP/1.1\r\n\r\n".encode(),
        f"GET /{MARK} HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer qdb1_{MARK}\r\n\r\n".encode(),
        f"POST /api/v1/memory/query HTTP/1.1\r\nHost: g\r\nAuthorization: {MARK}\r\nContent-Length: x\r\n\r\n".encode(),
    ):
        with RawConnection(talkative.door) as connection:
            connection.send(data)
            response = connection.receive()
        assert response.status in (400, 404)
        assert_silent(response.body.decode())
    for name, method in (
        ("memory", "/waggle.memory.v1.MemoryService/ExecuteCommand"),
        ("retrieval", "/waggle.retrieval.v1.RetrievalService/SearchLexical"),
        ("identity", "/waggle.identity.v1.IdentityService/GetIdentity"),
        ("consolidation", "/waggle.consolidation.v1.ConsolidationService/QueryJobs"),
        ("storage", "/waggle.storage.v1.StorageService/Commit"),
    ):
        with open_channel(talkative.address(name)) as channel:
            call = channel.unary_unary(method)
            with pytest.raises(grpc.RpcError) as refused:
                call(MARK.encode(), metadata=(("authorization", f"Bearer qdb1_{MARK}"),), timeout=20.0)
            error: Any = refused.value
            assert grpc.StatusCode.INTERNAL != error.code()
            assert_silent(error.details())


def test_the_log_knows_none_of_it(talkative: Suite, known: Known) -> None:
    """After all that, at the level of debugging: no text, name, key or credential, and no unexpected failure."""
    log = talkative.log.read_text(encoding="utf-8")
    assert talkative.events("started")
    assert MARK not in log
    for secret in (talkative.writer_key, talkative.admin_key, talkative.writer_key.split("_", 2)[-1]):
        assert secret not in log
    assert "Traceback" not in log
    verdict.check_partition(talkative, known.scope)
    verdict.check_ordinary(talkative, known.scope)

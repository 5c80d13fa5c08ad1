"""C07: members that stand twice, are misspelt, or belong to nobody, on every documented route."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness import builders
from tests.harness.api import Api
from tests.harness.both_ways import BothWays
from tests.harness.documented_requests import DATA, MEMORY, SCOPED, Documented, Known, by_name, make_known
from tests.harness.raw_http import RawConnection, request_bytes
from tests.harness.suite import Suite
from tests.harness.untouched import untouched

pytestmark = pytest.mark.both_entrances(edge_in_depth=True)

POSTS = [route for route in SCOPED if route.method == "POST"]
SNAKE = re.compile(r'"([a-z]+)_([a-z]+)')
CLIENT_CHOICES = {
    "hybrid": ("query", ["lexical_weight", "semantic_weight", "weights", "candidate_limit", "rank_constant", "method"]),
    "graph-search": ("query", ["relation_kinds", "anchor_limit", "weights", "cursor", "after", "hop_decay"]),
    "semantic": ("query", ["scan_bytes_limit", "ranking_version", "mode", "text"]),
    "assert": ("operation.relation", ["confidence", "weight", "embedding", "tenant_id"]),
    "attach": ("", ["tenant_id", "subject_id", "author", "vector_digest"]),
    "create": ("operation.record", ["record_id", "author", "review", "derivation", "revision", "provenance"]),
}
BY_NAME = {route.name: route for route in DATA}


@pytest.fixture(scope="module")
def settled(suite: Suite) -> Iterator[Known]:
    """A memory that the tests of this module share; nothing of it changes."""
    with suite.client() as client:
        yield make_known(Api(client, builders.scope_json(builders.new_key("members"))))


def body_text(route: Documented, known: Known) -> str:
    return json.dumps(route.body_for(known))


def objects(text: str) -> Iterator[int]:
    """Positions behind the brace of every object in a JSON text that has members."""
    for match in re.finditer(r'\{(?=")', text):
        yield match.end()


def first_member(text: str, at: int) -> str:
    """The member that begins at a position, name and value."""
    name, end = json.JSONDecoder().raw_decode(text, at)
    value_at = text.index(":", end) + 1
    while text[value_at] == " ":
        value_at += 1
    _, end = json.JSONDecoder().raw_decode(text, value_at)
    assert isinstance(name, str)
    return text[at:end]


def escaped(member: str) -> str:
    """The same member with the first letter of its name spelled as an escape."""
    return f'"\\u{ord(member[1]):04x}{member[2:]}'


@pytest.mark.parametrize("route", POSTS, ids=by_name)
def test_a_member_that_stands_twice_is_refused(both: BothWays, settled: Known, route: Documented) -> None:
    """In every object of the body, with the same value, also when the names are equal only after escapes."""
    text = body_text(route, settled)
    with untouched(both.suite, settled.scope):
        for at in objects(text):
            member = first_member(text, at)
            for twin in (member, escaped(member)):
                spoilt = f"{text[:at]}{twin}, {text[at:]}"
                assert (400, "invalid_request") == both.send("POST", route.path, spoilt).verdict, spoilt


@pytest.mark.parametrize("route", POSTS, ids=by_name)
def test_other_spellings_of_names_are_unknown(both: BothWays, settled: Known, route: Documented) -> None:
    """Camel case, capitals, a missing letter: never the member that was meant, and never left out in silence."""
    text = body_text(route, settled)
    names = {match.group(0)[1:] for match in SNAKE.finditer(re.sub(r': "[^"]*"', ": 0", text))}
    spellings = {
        name: {re.sub("_(.)", lambda found: found[1].upper(), name), name.upper(), name.replace("i", "", 1), f" {name}"}
        for name in names
    }
    with untouched(both.suite, settled.scope):
        for name, others in spellings.items():
            for other in others - {name}:
                spoilt = text.replace(f'"{name}', f'"{other}', 1)
                assert 400 == both.send("POST", route.path, spoilt).status, other


@pytest.mark.parametrize("name", CLIENT_CHOICES)
def test_what_the_server_decides_is_no_member(both: BothWays, settled: Known, name: str) -> None:
    """Weights, caps, authors and companies are not the client's to send; null does not make them welcome."""
    route, (place, members) = BY_NAME[name], CLIENT_CHOICES[name]
    text = body_text(route, settled)
    with untouched(both.suite, settled.scope):
        for member in members:
            for value in (1, None):
                body = json.loads(text)
                target: Any = body
                for step in filter(None, place.split(".")):
                    target = target[step]
                target[member] = value
                outcome = both.send("POST", route.path, body)
                assert (400, "invalid_request") == outcome.verdict, member
                assert member in outcome.document["error"]["message"]


@pytest.mark.parametrize(
    "free_form",
    [
        '"metadata": {"a": 1, "a": 1}',
        '"metadata": {"deep": [{"a": 1, "\\u0061": 2}]}',
        '"metadata": {"": 1, "": 2}',
        '"content": {"primary": "x", "data": {"id": 1, "\\u0069d": 2}}',
        '"content": {"primary": "x", "data": [1, {"k": {"a": 1, "b": 2, "a": 3}}]}',
        '"content": {"primary": "x", "data": {"\\ud83d\\udc1d": 1, "\U0001f41d": 2}}',
    ],
)
def test_free_form_json_is_no_exception(both: BothWays, settled: Known, free_form: str) -> None:
    """What the suite does not interpret is held to the same: a reader could see either of the two."""
    text = body_text(BY_NAME["create"], settled)
    if free_form.startswith('"content"'):
        text = re.sub(r'"content": \{[^}]*\}', lambda _: free_form, text)
    else:
        text = text.replace('"content"', f'{free_form}, "content"')
    with untouched(both.suite, settled.scope):
        assert (400, "invalid_request") == both.send("POST", "memory/commands", text).verdict


def test_parameters_are_known_and_stand_once(both: BothWays, suite: Suite, settled: Known) -> None:
    """On every GET, unknown, repeated and camel-case parameters are 400, whatever they say."""
    with suite.client() as writer, suite.client(suite.admin_key) as admin:
        scope = {name: value for name, value in settled.scope.items() if value is not None}
        record = f"memory/records/{settled.first['record_id']}"
        for client, path, good in (
            (writer, record, {"contract_version": 1, **scope}),
            (admin, "credentials", {"contract_version": 1}),
            (admin, "agents", {"contract_version": 1}),
            (admin, "company/memory/workspaces", {"contract_version": 1}),
        ):
            url = f"/api/v1/{path}"
            assert 200 == client.get(url, params=good).status_code
            for name in good:
                twice = [*good.items(), (name, good[name])]
                assert 400 == client.get(url, params=twice).status_code, (path, name)  # type: ignore[arg-type]
            for surprise in ("verbose", "contractVersion", "contract_version ", "", "limit[]", "scope"):
                assert 400 == client.get(url, params={**good, surprise: "1"}).status_code, (path, surprise)


@pytest.mark.parametrize("names", [("Authorization", "authorization"), ("Authorization", "Authorization")])
def test_two_credentials_are_none(suite: Suite, settled: Known, names: tuple[str, str]) -> None:
    """Two Authorization headers are 401 on every route that writes, also when they are equal."""
    headers = tuple(f"{name}: Bearer {suite.writer_key}" for name in names)
    bodies = [(route.path, body_text(route, settled).encode()) for route in MEMORY if route.is_write]
    with untouched(suite, settled.scope):
        for path, body in bodies:
            with RawConnection(suite.door) as connection:
                connection.send(request_bytes("POST", f"/api/v1/{path}", body, headers=headers))
                response = connection.receive()
            assert (401, "unauthorized") == (response.status, response.code)

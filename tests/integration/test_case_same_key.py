"""C15: one key and another request: what is the same command, what is another, and who has keys of their own."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.harness import builders
from tests.harness.api import Api
from tests.harness.both_ways import BothWays
from tests.harness.documented_requests import WRITES, Documented, Known, by_name
from tests.harness.suite import EVERY_SCOPE, Suite
from tests.harness.untouched import untouched

pytestmark = [pytest.mark.usefixtures("left_sound"), pytest.mark.both_entrances(edge_in_depth=True)]

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
Json = dict[str, Any]


def spec(known: Known, **members: Any) -> Json:
    return {
        "sources": [known.first, known.second],
        "objective": "link", "policy_ref": "p", "extractor": builders.provenance_json(),
        "max_relations": 2, "max_attempts": 2, "lease_millis": 900_000, "max_attempt_millis": 900_000, **members,
    }  # fmt: skip


def create_job(known: Known) -> Json:
    return {"idempotency_key": builders.new_key(), "operation": {"type": "create", "spec": spec(known)}}


def cancel_job(known: Known) -> Json:
    job_id = known.api.expect("memory/consolidation/commands", create_job(known))["receipt"]["job_id"]
    operation = {"type": "cancel", "job_id": job_id, "expected_revision": 1, "evidence_ref": "e"}
    return {"idempotency_key": builders.new_key(), "operation": operation}


JOBS = "memory/consolidation/commands"
NEEDS = ("memory_read", "memory_write")
EVERY = [
    *WRITES,
    Documented("create-job", "POST", JOBS, NEEDS, create_job, is_write=True),
    Documented("cancel-job", "POST", JOBS, NEEDS, cancel_job, is_write=True),
]
# Optional members that a body does not have, written out as their defaults.
DEFAULTS: dict[str, dict[str, Any]] = {
    "record": {"valid_until_millis": None, "tags": [], "metadata": {}},
    "content": {"secondary": None, "context": None, "data": None, "embedding": None},
    "relation": {"valid_from_millis": None, "valid_until_millis": None, "evidence_sources": []},
    "provenance": {"model": None},
    "extractor": {"model": None},
}
# Where each command can be made another one, and how.
CHANGES: dict[str, tuple[str, Any]] = {
    "create": ("operation.record.content.primary", "Another text."),
    "update": ("operation.record.content.primary", "changeD"),
    "delete": ("operation.expected_revision", 2),
    "derive": ("operation.derivation.evidence_ref", "ref2"),
    "attach": ("vector", [1.0, 2.0, 3.0000005]),
    "review": ("command.disposition", "unreviewed"),
    "assert": ("operation.relation.valid_until_millis", 9_999_999_999_999),
    "retire": ("operation.evidence_ref", "Ref"),
    "restore": ("operation.evidence_ref", "ref "),
    "review-relation": ("operation.disposition", "rejected"),
    "create-job": ("operation.spec.lease_millis", 899_999),
    "cancel-job": ("operation.evidence_ref", "f"),
}


def reordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: reordered(inner) for name, inner in reversed(value.items())}
    return [reordered(inner) for inner in value] if isinstance(value, list) else value


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
    return [without_nulls(inner) for inner in value] if isinstance(value, list) else value


def with_defaults(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return DEFAULTS.get(name, {}) | {inner: with_defaults(value[inner], inner) for inner in value}
    return [with_defaults(inner) for inner in value] if isinstance(value, list) else value


def shouted(value: Any) -> Any:
    """Every UUID in capitals."""
    return json.loads(re.sub(f'"{UUID.pattern}"', lambda match: match[0].upper(), json.dumps(value)))


def as_integers(value: Any, name: str = "") -> Any:
    """Whole numbers of a vector without their fraction, as any JSON library may write them."""
    if isinstance(value, dict):
        return {inner: as_integers(value[inner], inner) for inner in value}
    return [int(number) for number in value] if name == "vector" else value


RESPELLINGS: list[Callable[[Any], Any]] = [reordered, without_nulls, with_defaults, shouted, as_integers]


def changed(body: Json, path: str, value: Any) -> Json:
    copy: Json = json.loads(json.dumps(body))
    *places, last = path.split(".")
    target = copy
    for place in places:
        target = target[place]
    assert value != target.get(last)
    target[last] = value
    return copy


@pytest.mark.parametrize("route", EVERY, ids=by_name)
def test_spelling_makes_no_other_command(both: BothWays, known: Known, route: Documented) -> None:
    """Order, blanks, null, defaults, capitals of UUIDs, 1 for 1.0: the first receipt again, and nothing is written."""
    body = route.body_for(known)
    assert body is not None
    first = both.send("POST", route.path, body)
    assert (200, "") == first.verdict, first.text
    with untouched(both.suite, known.scope):
        for respell in RESPELLINGS:
            text = json.dumps(respell(body), indent=1, ensure_ascii=False)
            again = both.send("POST", route.path, text)
            assert (200, first.text) == (again.status, again.text), respell.__name__


@pytest.mark.parametrize("route", EVERY, ids=by_name)
def test_a_changed_command_is_a_conflict(both: BothWays, known: Known, route: Documented) -> None:
    """409, nothing written, and nothing told of what the key has done before."""
    body = route.body_for(known)
    assert body is not None
    receipt = both.send("POST", route.path, body).document["receipt"]
    with untouched(both.suite, known.scope):
        refused = both.send("POST", route.path, changed(body, *CHANGES[route.name]))
        assert (409, "idempotency_conflict") == refused.verdict
    made = {receipt[name] for name in receipt if name.endswith(("_id", "_digest"))} - set(
        UUID.findall(json.dumps(body))
    )
    assert not any(value in refused.text for value in made)
    assert receipt == both.send("POST", route.path, body).document["receipt"]


@pytest.mark.parametrize("route", EVERY, ids=by_name)
def test_a_refused_command_leaves_its_key_free(both: BothWays, known: Known, route: Documented) -> None:
    """After a refusal for its shape, and for its state where it has one, the corrected command takes the key."""
    body = route.body_for(known)
    assert body is not None
    text = json.dumps(body)
    revision = next((name for name in ("expected_revision", "record_revision") if f'"{name}"' in text), '"revision"')
    stale = re.sub(rf'("?{revision.strip(chr(34))}"?: )\d+', r"\g<1>77", text, count=1)
    with untouched(both.suite, known.scope):
        assert (400, "invalid_request") == both.send("POST", route.path, text[:-1] + ', "surprise": 1}').verdict
        if stale != text:
            assert both.send("POST", route.path, stale).status in (404, 409)
    assert (200, "") == both.send("POST", route.path, body).verdict


def test_free_form_numbers(both: BothWays, known: Known) -> None:
    """In free-form data 1.0 and 1e0 are one value; 1 is another, because it comes back without a fraction."""
    key = builders.new_key()

    def send(number: str) -> tuple[int, str, str]:
        body = json.dumps(builders.create_body(known.scope, key=key, metadata={"n": "N"})).replace('"N"', number)
        outcome = both.send("POST", "memory/commands", body)
        return outcome.status, outcome.code, outcome.text

    first = send("1.0")
    assert 200 == first[0]
    assert first == send("1e0") == send("10e-1")
    for other in ("1", "1.5", '"1.0"', "true"):
        assert (409, "idempotency_conflict") == send(other)[:2]


@pytest.fixture
def other_company(suite: Suite) -> Iterator[Callable[[Json], Api]]:
    """A writer of the same name in another company."""
    key = suite.issue("writer", ["memory_read", "memory_write", "memory_review"], admin_key=suite.other_admin_key)
    with suite.client(key) as client:
        yield lambda scope: Api(client, scope)


def test_families_scopes_and_companies_have_keys_of_their_own(
    both: BothWays, known: Known, other_company: Callable[[Json], Api]
) -> None:
    """One key makes a record, a binding, a decision, a relation and a job; elsewhere it is as if never used."""
    scope, key = known.scope, "the one key"
    record = known.api.create("for the decision")
    command = {
        "contract_version": 1, "idempotency_key": key, "record_id": record["record_id"], "expected_revision": 1,
        "disposition": "approved", "evidence_ref": "e",
    }  # fmt: skip
    create = builders.create_body(scope, "for the key", key=key)
    requests: list[tuple[str, Json]] = [
        ("memory/commands", create),
        ("memory/embeddings", builders.attach_body(scope, record["record_id"], [1.0, 2.0, 3.0], key=key)),
        ("memory/reviews", {"scope": scope, "command": command}),
        ("memory/relations/commands", builders.assert_body(scope, known.first, known.second, key=key)),
        (
            JOBS,
            {
                "contract_version": 1,
                "scope": scope,
                "idempotency_key": key,
                "operation": {"type": "create", "spec": spec(known)},
            },
        ),
    ]
    for path, body in requests:
        assert (200, "") == both.send("POST", path, body).verdict, path
    ids = {both.send("POST", "memory/commands", create).document["receipt"]["record_id"]}
    for members in ({"agent_id": "another"}, {"mission_id": "m"}, {"visibility": "private"}):
        receipt = both.send("POST", "memory/commands", {**create, "scope": {**scope, **members}}).document["receipt"]
        ids.add(receipt["record_id"])
    stranger = other_company(scope)
    answer = stranger.expect("memory/commands", {"idempotency_key": key, "operation": create["operation"]})["receipt"]
    ids.add(answer["record_id"])
    assert 5 == len(ids)
    changed_there = {**create["operation"], "record": builders.record_json("quite another text")}
    other = stranger.post("memory/commands", {"idempotency_key": key, "operation": changed_there})
    assert (409, "idempotency_conflict") == (other.status_code, other.json()["error"]["code"])


@pytest.mark.parametrize("route", EVERY, ids=by_name)
def test_the_key_belongs_to_the_subject(suite: Suite, both: BothWays, known: Known, route: Documented) -> None:
    """Another credential of the subject gets the first receipt, with its author; another subject's key is another."""
    body = route.body_for(known)
    assert body is not None
    first = both.send("POST", route.path, body)
    capabilities = ["memory_read", "memory_write", "memory_review"]
    sibling = suite.issue("writer", capabilities, scope_policy=EVERY_SCOPE)
    assert first.text == both.send("POST", route.path, body, key=sibling).text
    stranger = suite.issue("a stranger", capabilities, scope_policy=EVERY_SCOPE)
    with suite.client(stranger) as client:
        other = client.post(f"/api/v1/{route.path}", json=body)
    if other.status_code == 200:
        assert first.document["receipt"] != other.json()["receipt"]
        assert "a stranger" == other.json()["receipt"]["author"]["subject_id"]
    else:
        assert other.json()["error"]["code"] in {"revision_conflict", "record_not_found", "invalid_request"}

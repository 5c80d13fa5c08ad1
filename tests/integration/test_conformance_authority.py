"""Who may do what: each route against each key, scope and company that must not reach it, and each that just may."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.harness import builders
from tests.harness.api import Api
from tests.harness.both_ways import BothWays, Outcome
from tests.harness.documented_requests import DATA, SCOPED, Documented, Known, by_name, make_known
from tests.harness.suite import EVERY_SCOPE, Suite, wait_until

pytestmark = pytest.mark.both_entrances

CAPABILITIES = [
    "memory_read",
    "memory_write",
    "procedure_propose",
    "procedure_evaluate",
    "policy_admin",
    "tool_read",
    "tool_develop",
    "tool_report",
    "tool_admin",
    "experience_read",
    "experience_write",
    "experience_report",
    "memory_review",
    "memory_checkpoint",
    "learning_metadata_read",
]
ALL = frozenset(CAPABILITIES)
OTHER_SCOPES = {
    "project": {"project_id": "another project"},
    "mission": {"mission_id": "a mission"},
    "agent": {"agent_id": "another agent"},
    "visibility": {"visibility": "private"},
}
# What each route says of identifiers that lie in another partition: the same as of identifiers that never were.
ELSEWHERE = {
    "create": (200, ""),
    "update": (404, "record_not_found"),
    "delete": (404, "record_not_found"),
    "derive": (404, "record_not_found"),
    "read": (404, "record_not_found"),
    "attach": (404, "record_not_found"),
    "review": (404, "record_not_found"),
    "review-state": (404, "review_not_found"),
    "review-read": (404, "review_not_found"),
    "eligibility": (404, "record_not_found"),
    "assert": (409, "revision_conflict"),
    "retire": (404, "record_not_found"),
    "restore": (404, "record_not_found"),
    "review-relation": (404, "record_not_found"),
    "relation": (404, "record_not_found"),
    "inspect": (404, "record_not_found"),
    "revision": (404, "record_not_found"),
}


class Keyring:
    """Keys of both companies, each issued once."""

    def __init__(self, suite: Suite) -> None:
        self._suite = suite
        self._keys: dict[tuple[frozenset[str], str, bool], str] = {}

    def __call__(self, capabilities: frozenset[str], subject: str = "somebody", *, foreign: bool = False) -> str:
        """A key for every scope of its company."""
        name = (capabilities, subject, foreign)
        if name not in self._keys:
            admin = self._suite.other_admin_key if foreign else self._suite.admin_key
            self._keys[name] = self._suite.issue(subject, sorted(capabilities), admin_key=admin)
        return self._keys[name]


@pytest.fixture(scope="module")
def keyring(suite: Suite) -> Keyring:
    return Keyring(suite)


@pytest.fixture(scope="module")
def settled(suite: Suite) -> Any:
    """A memory that the tests of this module share; they add to it, and nothing of it changes."""
    with suite.client() as client:
        yield make_known(Api(client, builders.scope_json(builders.new_key("authority"))))


@pytest.fixture(scope="module")
def private(suite: Suite) -> Any:
    """The same in the writer's own private scope."""
    with suite.client() as client:
        yield make_known(Api(client, builders.scope_json(builders.new_key("authority"), visibility="private")))


def ask(both: BothWays, known: Known, route: Documented, key: str, scope: dict[str, Any] | None = None) -> Outcome:
    """Send the route's good request with a key, in another scope if one is given."""
    return both.send(
        route.method,
        route.path_for(known),
        route.body_for(known, scope),
        key=key,
        query=route.query_for(known, scope),
    )


@pytest.mark.parametrize("route", DATA, ids=by_name)
def test_exactly_the_documented_capabilities(
    both: BothWays, settled: Known, keyring: Keyring, route: Documented
) -> None:
    """What the contract names suffices, and nothing else makes up for any part of it."""
    assert (200, "") == ask(both, settled, route, keyring(frozenset(route.needs))).verdict
    for needed in route.needs:
        assert (403, "forbidden") == ask(both, settled, route, keyring(ALL - {needed})).verdict


@pytest.mark.parametrize("route", DATA, ids=by_name)
def test_an_administrator_reaches_no_memory(both: BothWays, settled: Known, route: Documented) -> None:
    """`credential_admin` opens no data."""
    assert (403, "forbidden") == ask(both, settled, route, both.suite.admin_key).verdict


@pytest.mark.parametrize("route", SCOPED, ids=by_name)
def test_a_grant_opens_one_exact_scope(both: BothWays, settled: Known, route: Documented, granted: str) -> None:
    """The granted tuple is allowed; another project, mission, agent or visibility is not."""
    assert (200, "") == ask(both, settled, route, granted).verdict
    for other in OTHER_SCOPES.values():
        assert (403, "forbidden") == ask(both, settled, route, granted, settled.scope | other).verdict


@pytest.fixture(scope="module")
def granted(suite: Suite, settled: Known) -> str:
    return suite.issue("granted", CAPABILITIES, grants=[settled.scope])


REFUSING = {
    "project": {"projects": {"mode": "only", "ids": ["another project"]}},
    "agent": {"agents": {"mode": "only", "ids": []}},
    "mission": {"allow_unassigned_mission": False},
    "visibility": {"visibilities": ["private"]},
}


@pytest.mark.parametrize("member", REFUSING)
def test_each_selector_of_a_policy_can_refuse(both: BothWays, settled: Known, member: str) -> None:
    """A scope must pass every selector; the missionless scope is governed by its own member."""
    key = both.suite.issue("limited", CAPABILITIES, scope_policy=EVERY_SCOPE | REFUSING[member])
    for route in SCOPED:
        assert (403, "forbidden") == ask(both, settled, route, key).verdict
    allowed = settled.scope | OTHER_SCOPES[member]
    (read,) = [route for route in SCOPED if route.name == "query"]
    assert (403 if member == "agent" else 200) == ask(both, settled, read, key, allowed).status


def without(_: Suite) -> str:
    """No key at all."""
    return ""


def malformed(_: Suite) -> str:
    """Text that is no key."""
    return "qdb1_nobody"


def unknown(_: Suite) -> str:
    """A well-formed key that was never issued."""
    return f"qdb1_{'0' * 32}_{'A' * 43}"


def of_another_kind(_: Suite) -> str:
    """A well-formed key for global administration."""
    return f"qdbg1_{'0' * 32}_{'A' * 43}"


def altered(suite: Suite) -> str:
    """A living key with another secret."""
    return suite.writer_key[:-1] + ("A" if suite.writer_key[-1] != "A" else "B")


def revoked(suite: Suite) -> str:
    """A key that was ended."""
    return _changed(suite, "revoke")


def rotated(suite: Suite) -> str:
    """A key whose secret was replaced."""
    return _changed(suite, "rotate")


def expired(suite: Suite) -> str:
    """A key whose time has passed."""
    key = suite.issue("short-lived", CAPABILITIES, expires_at_millis=time.time_ns() // 1_000_000 + 300)
    with suite.client(key) as client:
        wait_until(lambda: client.get("/api/v1/identity").status_code == 401, "the key has expired")
    return key


def _changed(suite: Suite, change: str) -> str:
    key = suite.issue("changed", CAPABILITIES)
    with suite.client(key) as own, suite.client(suite.admin_key) as admin:
        credential = own.get("/api/v1/identity").json()["credential"]
        body = {"contract_version": 1, "expected_revision": credential["revision"]}
        assert 200 == admin.post(f"/api/v1/credentials/{credential['id']}/{change}", json=body).status_code
    return key


@pytest.mark.parametrize("make", [without, malformed, unknown, of_another_kind, altered, revoked, rotated, expired])
def test_a_key_that_is_none_reaches_nothing(both: BothWays, settled: Known, make: Callable[[Suite], str]) -> None:
    """Missing, malformed, unknown, revoked, rotated away and expired keys are one and the same 401 on every route."""
    key = make(both.suite)
    for route in DATA:
        assert (401, "unauthorized") == ask(both, settled, route, key).verdict
    assert (401, "unauthorized") == both.send("GET", "identity", key=key).verdict
    assert (401, "unauthorized") == both.send("GET", "credentials", query={"contract_version": 1}, key=key).verdict


@pytest.mark.parametrize("place", OTHER_SCOPES)
@pytest.mark.parametrize("route", SCOPED, ids=by_name)
def test_nothing_shows_in_another_partition(both: BothWays, settled: Known, route: Documented, place: str) -> None:
    """One who may use every scope still finds each record and relation in its own partition only."""
    scope = settled.scope | OTHER_SCOPES[place]
    shows_nothing(route, ask(both, settled, route, both.suite.writer_key, scope), settled)


@pytest.mark.parametrize("route", SCOPED, ids=by_name)
def test_nothing_shows_in_another_company(both: BothWays, settled: Known, keyring: Keyring, route: Documented) -> None:
    """The same scope in another company is another partition, and its identifiers are unknown there."""
    shows_nothing(route, ask(both, settled, route, keyring(ALL, foreign=True)), settled)


@pytest.mark.parametrize("route", SCOPED, ids=by_name)
def test_private_memory_shows_to_its_subject_only(
    both: BothWays, private: Known, keyring: Keyring, route: Documented
) -> None:
    """The same private scope of another subject is another partition, also for reviewers; the own subject is served."""
    shows_nothing(route, ask(both, private, route, keyring(ALL, "another subject")), private)
    assert (200, "") == ask(both, private, route, keyring(ALL, "writer")).verdict


def shows_nothing(route: Documented, outcome: Outcome, known: Known) -> None:
    """The route answers as if what its request names did not exist, and none of its content is in the answer."""
    assert ELSEWHERE.get(route.name, (200, "")) == outcome.verdict
    for content in ("alpha", "beta", "gamma", "to be changed"):
        assert content not in outcome.text
    if not route.is_write:
        assert known.relation_id not in outcome.text

"""Who may do what with jobs: each route against each key, scope and company that must not reach it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.harness import builders
from tests.harness.api import Api
from tests.harness.both_ways import BothWays, Outcome
from tests.harness.documented_jobs import JOBS
from tests.harness.documented_requests import READ, REVIEW, WRITE, Documented, Known, by_name, make_known
from tests.harness.suite import Suite

EVERYTHING = (READ, WRITE, REVIEW, "memory_checkpoint", "learning_metadata_read")
OTHER_SCOPES: dict[str, dict[str, Any]] = {
    "project": {"project_id": "another project"},
    "mission": {"mission_id": "a mission"},
    "agent": {"agent_id": "another agent"},
    "visibility": {"visibility": "private"},
}
# A list of somebody who has no jobs is empty, sources that are elsewhere are not current, and all else is unknown.
ELSEWHERE: dict[str, tuple[int, str]] = {
    "job-create": (409, "revision_conflict"),
    "job-create-inference": (409, "revision_conflict"),
    "job-query": (200, ""),
}


@pytest.fixture(scope="module")
def settled(suite: Suite) -> Iterator[Known]:
    """The memory and the jobs of a subject that may only read and write."""
    with suite.client() as writer, suite.client(suite.issue("owner", [READ, WRITE])) as owner:
        known = make_known(Api(writer, builders.scope_json(builders.new_key("jobs"))))
        yield Known(Api(owner, known.scope), known.first, known.second, known.derived, known.relation_id)


@pytest.fixture(scope="module")
def owner_key(settled: Known) -> str:
    return key_of(settled.api.client)


def key_of(client: httpx.Client) -> str:
    return str(client.headers["authorization"]).removeprefix("Bearer ")


def ask(both: BothWays, known: Known, route: Documented, key: str, **scope: Any) -> Outcome:
    """Send a good request of the owner's with a key, in another scope if one is given."""
    return both.send(route.method, route.path, route.body_for(known, known.scope | scope), key=key)


def shows_nothing(route: Documented, outcome: Outcome) -> None:
    """As if nothing that the request names existed."""
    assert ELSEWHERE.get(route.name, (404, "record_not_found")) == outcome.verdict
    if route.name == "job-query":
        page = outcome.document["page"]
        assert ([], 0, 0) == (page["jobs"], page["records_examined"], page["record_bytes"])


@pytest.mark.parametrize("route", JOBS, ids=by_name)
def test_exactly_the_documented_capabilities(
    both: BothWays, suite: Suite, settled: Known, owner_key: str, route: Documented
) -> None:
    """Reading and writing suffice; without either of those that a route needs, nothing else makes up for it."""
    assert (200, "") == ask(both, settled, route, owner_key).verdict
    for needed in route.needs:
        key = suite.issue("owner", [name for name in EVERYTHING if name != needed])
        assert (403, "forbidden") == ask(both, settled, route, key).verdict
    if route.needs == (READ,):
        assert (200, "") == ask(both, settled, route, suite.issue("owner", [READ])).verdict


@pytest.mark.parametrize("route", JOBS, ids=by_name)
def test_grants_and_administrators(both: BothWays, suite: Suite, settled: Known, route: Documented) -> None:
    """A grant opens one exact scope, for jobs too; `credential_admin` opens none of the owner's routes."""
    key = suite.issue("owner", list(EVERYTHING), grants=[settled.scope])
    for other in OTHER_SCOPES.values():
        assert (403, "forbidden") == ask(both, settled, route, key, **other).verdict
    assert (403, "forbidden") == ask(both, settled, route, suite.admin_key).verdict


@pytest.mark.parametrize("route", JOBS, ids=by_name)
def test_nothing_shows_elsewhere(
    both: BothWays, suite: Suite, settled: Known, owner_key: str, route: Documented
) -> None:
    """In another scope, to another subject and in another company there is no such job, source or fence."""
    for other in OTHER_SCOPES.values():
        shows_nothing(route, ask(both, settled, route, owner_key, **other))
    foreign = suite.issue("owner", list(EVERYTHING), admin_key=suite.other_admin_key)
    shows_nothing(route, ask(both, settled, route, foreign))
    stranger = ask(both, settled, route, suite.issue(f"stranger to {route.name}", list(EVERYTHING)))
    if route.name.startswith("job-create"):
        # The memory is shared; only jobs are their owners'.
        assert (200, "") == stranger.verdict
    else:
        shows_nothing(route, stranger)


def test_a_key_that_is_none_reaches_nothing(both: BothWays, suite: Suite, settled: Known) -> None:
    """Missing, malformed, unknown, of another kind, altered and revoked keys are one and the same 401."""
    revoked = suite.issue("owner", list(EVERYTHING))
    with suite.client(revoked) as own, suite.client(suite.admin_key) as admin:
        credential = own.get("/api/v1/identity").json()["credential"]
        body = {"contract_version": 1, "expected_revision": credential["revision"]}
        assert 200 == admin.post(f"/api/v1/credentials/{credential['id']}/revoke", json=body).status_code
    keys = ("", "qdb1_nobody", f"qdb1_{'0' * 32}_{'A' * 43}", f"qdbg1_{'0' * 32}_{'A' * 43}", revoked[:-1], revoked)
    for route in JOBS:
        body = route.body_for(settled)
        for key in keys:
            assert (401, "unauthorized") == both.send("POST", route.path, body, key=key).verdict, (route.name, key)

"""The credential routes: whole answers as files, both ways, and bodies that are not what they should be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness import builders
from tests.harness.both_ways import BothWays
from tests.harness.golden import assert_golden, settled
from tests.harness.suite import EVERY_SCOPE, Suite
from tests.harness.untouched import untouched

pytestmark = pytest.mark.both_entrances

Json = dict[str, Any]
ABSENT = "00000000-0000-4000-8000-00000000dead"
GRANT = builders.scope_json("credentials")
SPEC = {"subject_id": "the bearer", "capabilities": ["memory_read", "memory_write"], "grants": [GRANT]}


class Keyring:
    """The administrator's calls on one credential."""

    def __init__(self, both: BothWays) -> None:
        self.both = both
        self.suite = both.suite

    def send(self, method: str, path: str, body: Json | None = None, *, key: str | None = None, **query: Any) -> Json:
        """The answer of a success. What is read is read both ways."""
        whole = None if body is None else {"contract_version": 1, **body}
        outcome = self.both.send(
            method, path, whole, key=key or self.suite.admin_key, query=query or None, repeatable=method == "GET"
        )
        assert "" == outcome.code, outcome.text
        assert {} == outcome.headers
        return outcome.document

    def issue(self, **members: Any) -> Json:
        return self.send("POST", "credentials", {"spec": {**SPEC, **members}})


@pytest.fixture
def keyring(both: BothWays) -> Keyring:
    return Keyring(both)


def golden(keyring: Keyring, name: str, answer: Json, issued: Json) -> None:
    admin = keyring.send("GET", "identity")["credential"]["id"]
    assert_golden(f"credential-{name}", settled(answer, {issued["credential"]["id"]: "<issued>", admin: "<admin>"}))


def test_issued_and_inspected(keyring: Keyring) -> None:
    """Issuance shows the secret once; inspection and the bearer's own identity show the same without it."""
    issued = keyring.issue()
    golden(keyring, "issue", issued, issued)
    inspected = keyring.send("GET", f"credentials/{issued['credential']['id']}")
    golden(keyring, "inspect", inspected, issued)
    assert inspected == keyring.send("GET", f"credentials/{issued['credential']['id'].upper()}")
    assert inspected == keyring.send("GET", "identity", key=issued["secret"])


def test_issued_with_a_policy(keyring: Keyring) -> None:
    """A policy is told with all its selectors, and is left out where there never was one."""
    missions = {"mode": "only", "ids": ["m1", "m2"]}
    issued = keyring.issue(grants=[], scope_policy={**EVERY_SCOPE, "missions": missions}, expires_at_millis=2**62)
    golden(keyring, "issue-policy", issued, issued)
    assert 2**62 == issued["credential"]["spec"]["expires_at_millis"]


def test_changed_step_by_step(keyring: Keyring) -> None:
    """Rotation, another authority, and revocation each add one event; only rotation has a secret to show."""
    issued = keyring.issue()
    path = f"credentials/{issued['credential']['id']}"
    golden(keyring, "rotate", keyring.send("POST", f"{path}/rotate", {"expected_revision": 1}), issued)
    authority = {"grants": [], "scope_policy": EVERY_SCOPE}
    changed = keyring.send("POST", f"{path}/scope-authority", {"expected_revision": 2, "authority": authority})
    golden(keyring, "scope-authority", changed, issued)
    golden(keyring, "revoke", keyring.send("POST", f"{path}/revoke", {"expected_revision": 3}), issued)


def test_listed(keyring: Keyring) -> None:
    """The list shows each credential as inspection does, revoked ones too, with a cursor while there is more."""
    issued = keyring.issue()
    path = f"credentials/{issued['credential']['id']}"
    revoked = keyring.send("POST", f"{path}/revoke", {"expected_revision": 1})["credential"]
    keyring.issue()
    found: list[Json] = []
    cursor = None
    while not found:
        page = keyring.send("GET", "credentials", contract_version=1, limit=1, cursor=cursor)
        found = [item for item in page["page"]["items"] if item["id"] == revoked["id"]]
        assert 1 == len(page["page"]["items"])
        cursor = page["page"]["next_cursor"]
        assert found or cursor is not None
    assert [revoked] == found
    page["page"]["next_cursor"] = "a cursor, or null at the end"
    golden(keyring, "list", page, issued)


BODIES: dict[str, Json] = {
    "": {"contract_version": 1, "spec": {**SPEC, "expires_at_millis": None}},
    f"/{ABSENT}/rotate": {"contract_version": 1, "expected_revision": 1},
    f"/{ABSENT}/revoke": {"contract_version": 1, "expected_revision": 1},
    f"/{ABSENT}/scope-authority": {
        "contract_version": 1,
        "expected_revision": 1,
        "authority": {"grants": [], "scope_policy": EVERY_SCOPE},
    },
}


def objects(value: Any) -> Iterator[Json]:
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from objects(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from objects(inner)


@pytest.mark.parametrize("path", BODIES)
def test_objects_are_closed_and_members_stand_once(both: BothWays, suite: Suite, path: str) -> None:
    """At every level a member that is unknown, twice there or missing is 400, and no credential is touched."""
    text = json.dumps(BODIES[path])
    optional = {"expires_at_millis", "scope_policy"}

    def send(body: Any) -> tuple[int, str]:
        return both.send("POST", f"credentials{path}", body, key=suite.admin_key, repeatable=False).verdict

    with untouched(suite, None):
        for number in range(len(list(objects(BODIES[path])))):
            for act in ("unknown", "missing", "null"):
                body = json.loads(text)
                place = list(objects(body))[number]
                for name in [*place] if act != "unknown" else ["surprise"]:
                    spoilt = json.loads(text)
                    target = list(objects(spoilt))[number]
                    if act == "unknown":
                        target[name] = 1
                    elif act == "missing":
                        del target[name]
                    else:
                        target[name] = None
                    if act != "unknown" and (name in optional or name == "mission_id"):
                        continue
                    assert 400 == send(spoilt)[0], (act, name)
        for name in ("contract_version", "expected_revision", "grants", "mode", "subject_id"):
            if f'"{name}"' in text:
                twice = text.replace(f'"{name}"', f'"{name}": 1, "{name}"', 1)
                assert (400, "invalid_request") == send(twice), name
        assert (400, "unsupported_contract_version") == send({**BODIES[path], "contract_version": 2})


BAD_SPECS: list[Json] = [
    {"subject_id": ""},
    {"subject_id": " "},
    {"subject_id": "é" * 129},
    {"subject_id": "a\u0007"},
    {"capabilities": []},
    {"capabilities": ["memory_reads"]},
    {"capabilities": ["MEMORY_READ"]},
    {"capabilities": "memory_read"},
    {"grants": {}},
    {"grants": [{**GRANT, "visibility": "public"}]},
    {"grants": [{**GRANT, "project_id": ""}]},
    {"grants": [GRANT], "scope_policy": EVERY_SCOPE},
    {"grants": [], "scope_policy": EVERY_SCOPE, "capabilities": ["credential_admin", "memory_read"]},
    {"grants": [], "scope_policy": {**EVERY_SCOPE, "version": "company_scopes_v2"}},
    {"grants": [], "scope_policy": {**EVERY_SCOPE, "visibilities": []}},
    {"grants": [], "scope_policy": {**EVERY_SCOPE, "visibilities": ["shared", "shared"]}},
    {"grants": [], "scope_policy": {**EVERY_SCOPE, "agents": {"mode": "some"}}},
    {"grants": [], "scope_policy": {**EVERY_SCOPE, "agents": {"mode": "only"}}},
    {"grants": [], "scope_policy": {**EVERY_SCOPE, "agents": {"mode": "all", "ids": []}}},
    {"grants": [], "scope_policy": {**EVERY_SCOPE, "agents": {"mode": "only", "ids": ["a", "a"]}}},
    {"grants": [], "scope_policy": {**EVERY_SCOPE, "agents": {"mode": "only", "ids": ["a"] * 2}}},
    {"grants": [], "scope_policy": {**EVERY_SCOPE, "agents": {"mode": "only", "ids": [str(n) for n in range(257)]}}},
    {"grants": [], "scope_policy": {**EVERY_SCOPE, "allow_unassigned_mission": "yes"}},
    {"is_master": True},
    {"tenant_id": "globex"},
]


@pytest.mark.parametrize("members", BAD_SPECS, ids=lambda members: json.dumps(members)[:60])
def test_specifications_that_are_refused(both: BothWays, suite: Suite, members: Json) -> None:
    """400 both ways, and nothing is issued."""
    with untouched(suite, None):
        body = {"contract_version": 1, "spec": {**SPEC, **members}}
        assert (400, "invalid_request") == both.send("POST", "credentials", body, key=suite.admin_key).verdict


def test_policies_at_their_bounds(keyring: Keyring) -> None:
    """256 names, or none, are a selector."""
    for ids in ([], [str(number) for number in range(256)], ["é" * 128]):
        policy = {**EVERY_SCOPE, "projects": {"mode": "only", "ids": ids}}
        issued = keyring.issue(grants=[], scope_policy=policy)
        assert policy == issued["credential"]["spec"]["scope_policy"]

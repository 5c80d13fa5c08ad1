"""Global administration and the directory of agents, member by member, through the gateway of a running suite."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest

from tests.harness import builders
from tests.harness.api import Api
from tests.harness.suite import EVERY_SCOPE, Suite, make_suite

ABSENT = "00000000-0000-4000-8000-00000000dead"
EVERYTHING = ["tenant_create", "tenant_inspect", "tenant_admin", "global_credential_admin"]
EVENT = {"revision", "action", "actor_id", "at_millis"}


def admin_command(suite: Suite, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Run `waggle admin`; its exit code and what it printed."""
    command = [sys.executable, "-m", "cli.main", "admin", arguments[0], str(suite.data_directory), *arguments[1:]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, json.loads(done.stdout) if done.returncode == 0 else {}


@dataclass
class World:
    """A running suite and the key of its master."""

    suite: Suite
    master: str

    def call(self, method: str, path: str, key: str | None = None, **members: Any) -> tuple[int, dict[str, Any]]:
        """Call a route below /api/v1 as the master, or with another key; status and document."""
        with self.suite.client(self.master if key is None else key) as client:
            if method == "GET":
                response = client.get(f"/api/v1/{path}", params=members)
            else:
                response = client.post(f"/api/v1/{path}", json={"contract_version": 1, **members})
        assert response.headers["cache-control"] == "no-store"
        document: dict[str, Any] = response.json()
        assert document["contract_version"] == 1
        return response.status_code, document

    def refusal(self, method: str, path: str, key: str | None = None, **members: Any) -> tuple[int, str]:
        """Status and code of a refused call."""
        status, document = self.call(method, path, key, **members)
        return status, document["error"]["code"]

    def issue(self, *capabilities: str, key: str | None = None) -> dict[str, Any]:
        """Issue a global credential; the answer."""
        spec = {"subject_id": "svc", "capabilities": list(capabilities)}
        status, answer = self.call("POST", "admin/credentials", key, spec=spec)
        assert status == 201, answer
        return answer

    def tenant(self, name: str) -> dict[str, Any]:
        """Create a company; the answer."""
        status, answer = self.call("POST", "admin/tenants", tenant_id=name, subject_id="root")
        assert status == 201, answer
        return answer


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    suite = make_suite(tmp_path_factory.mktemp("administration"))
    code, made = admin_command(suite, "bootstrap-master", "operator")
    assert code == 0
    assert admin_command(suite, "bootstrap-master", "operator")[0] != 0
    suite.start()
    try:
        suite.writer_key = suite.issue("writer", ["memory_read", "memory_write"])
        yield World(suite, made["secret"])
    finally:
        suite.stop()


def test_the_master_learns_who_it_is(world: World) -> None:
    """Every documented member of a global credential, and no other."""
    status, answer = world.call("GET", "admin/identity")
    credential = answer["credential"]
    assert (status, set(answer)) == (200, {"contract_version", "credential"})
    assert set(credential) == {"id", "spec", "revision", "revoked_at_millis", "history", "is_master"}
    assert credential["spec"] == {"subject_id": "operator", "capabilities": EVERYTHING, "expires_at_millis": None}
    assert (credential["is_master"], credential["revision"], credential["revoked_at_millis"]) == (True, 1, None)
    assert [set(event) for event in credential["history"]] == [EVENT]
    assert world.master.startswith("qdbg1_")


def test_global_keys_reach_no_company_and_company_keys_nothing_above(world: World) -> None:
    """403 for a valid key of the wrong authority, 401 for one that is not valid."""
    company_routes = [
        ("GET", "identity", {}),
        ("GET", "credentials", {"contract_version": 1}),
        ("GET", "agents", {"contract_version": 1}),
        ("GET", "memory/ranking-profiles", {}),
        ("POST", "memory/query", {"scope": builders.scope_json("p"), "filter": {"limit": 1}}),
        (
            "POST",
            "memory/search/lexical",
            {"scope": builders.scope_json("p"), "mode": "lexical", "query": {"text": "x", "limit": 1}},
        ),
        (
            "POST",
            "memory/consolidation/query",
            {"scope": builders.scope_json("p"), "query": {"limit": 1, "scan_limit": 1}},
        ),
    ]
    global_routes: list[tuple[str, str, dict[str, Any]]] = [
        ("GET", "admin/identity", {}),
        ("GET", "admin/credentials", {"contract_version": 1}),
        ("GET", f"admin/credentials/{ABSENT}", {}),
        ("POST", f"admin/credentials/{ABSENT}/rotate", {"expected_revision": 1}),
        ("POST", f"admin/credentials/{ABSENT}/revoke", {"expected_revision": 1}),
        ("POST", "admin/credentials", {"spec": {"subject_id": "x", "capabilities": ["tenant_inspect"]}}),
        ("POST", "admin/tenants", {"tenant_id": "x", "subject_id": "x"}),
        ("GET", "admin/tenants", {"contract_version": 1}),
        ("GET", "admin/tenants/acme", {}),
        ("POST", "admin/tenants/acme/admin-credentials", {"subject_id": "x"}),
    ]
    for method, path, members in company_routes:
        assert (403, "forbidden") == world.refusal(method, path, **members), path
    for method, path, members in global_routes:
        assert (403, "forbidden") == world.refusal(method, path, world.suite.admin_key, **members), path
        assert (401, "unauthorized") == world.refusal(method, path, "", **members), path
        assert (401, "unauthorized") == world.refusal(method, path, world.master[:-1] + "~", **members), path


def test_a_company_is_created_and_its_administrator_works(world: World) -> None:
    """Registration, credential and secret as documented; the key administers that company alone."""
    name = f"Café/{uuid.uuid4()}"
    status, answer = world.call("POST", "admin/tenants", tenant_id=name, subject_id="root", display_name="Café")
    assert (status, set(answer)) == (201, {"contract_version", "tenant", "credential", "secret"})
    tenant, credential = answer["tenant"], answer["credential"]
    master_id = world.call("GET", "admin/identity")[1]["credential"]["id"]
    assert tenant == {
        "schema_version": 1,
        "tenant_id": name,
        "display_name": "Café",
        "created_at_millis": credential["history"][0]["at_millis"],
        "created_by": master_id,
        "initial_admin_id": credential["id"],
    }
    assert (credential["tenant_id"], credential["spec"]["grants"]) == (name, [])
    assert [event["action"] for event in credential["history"]] == ["tenant_registered_by_global_authority"]
    assert world.call("GET", "identity", answer["secret"]) == (200, {"contract_version": 1, "credential": credential})
    found = world.call("GET", f"admin/tenants/{quote(name, safe='')}")
    assert found == (200, {"contract_version": 1, "tenant_id": name, "registration": tenant})
    assert (409, "revision_conflict") == world.refusal("POST", "admin/tenants", tenant_id=name, subject_id="other")
    status, second = world.call("POST", f"admin/tenants/{quote(name, safe='')}/admin-credentials", subject_id="two")
    assert (status, set(second)) == (201, {"contract_version", "credential", "secret"})
    assert [event["action"] for event in second["credential"]["history"]] == ["admin_issued_by_global_authority"]
    listed = world.call("GET", "credentials", answer["secret"], contract_version=1)[1]["page"]["items"]
    assert {item["id"] for item in listed} == {credential["id"], second["credential"]["id"]}


def test_a_company_without_a_name_has_no_member_for_it(world: World) -> None:
    """display_name is left out, whether it was null or absent."""
    assert "display_name" not in world.tenant(f"t-{uuid.uuid4()}")["tenant"]
    name = f"t-{uuid.uuid4()}"
    answer = world.call("POST", "admin/tenants", tenant_id=name, subject_id="root", display_name=None)[1]
    assert "display_name" not in answer["tenant"]


def test_companies_are_listed_page_by_page(world: World) -> None:
    """In order, each once; the one made on the host has a null registration."""
    names = {f"t-{uuid.uuid4()}" for _ in range(3)}
    for name in names:
        world.tenant(name)
    seen: list[dict[str, Any]] = []
    query: dict[str, Any] = {"contract_version": 1, "limit": 2}
    while True:
        page = world.call("GET", "admin/tenants", **query)[1]["page"]
        assert set(page) == {"items", "next_cursor"}
        seen += page["items"]
        if page["next_cursor"] is None:
            break
        query["cursor"] = page["next_cursor"]
    ids = [item["tenant_id"] for item in seen]
    assert ids == sorted(set(ids), key=str.encode)
    assert names < set(ids)
    assert {"tenant_id": "acme", "registration": None} in seen
    bad = {"contract_version": 1, "cursor": "bm8"}
    assert (400, "invalid_request") == world.refusal("GET", "admin/tenants", **bad)
    wrong = world.refusal("GET", "admin/tenants", contract_version=2)
    assert wrong == (400, "unsupported_contract_version")


def test_an_unknown_company_is_found_out_after_the_authority(world: World) -> None:
    """404 for who may look, 403 for who may not, whether it exists or not."""
    creator = world.issue("tenant_create")["secret"]
    post = ("POST", "admin/tenants/nowhere/admin-credentials")
    assert (404, "tenant_not_found") == world.refusal("GET", "admin/tenants/nowhere")
    assert (404, "tenant_not_found") == world.refusal(*post, subject_id="x")
    for name in ("nowhere", "acme"):
        assert (403, "forbidden") == world.refusal("GET", f"admin/tenants/{name}", creator)
    assert (403, "forbidden") == world.refusal(*post, creator, subject_id="x")


def test_rights_do_not_grow_by_delegation(world: World) -> None:
    """A delegate issues, sees and changes only what it holds itself; lists and the master are out of reach."""
    delegate = world.issue("global_credential_admin", "tenant_inspect")
    key = delegate["secret"]
    below = world.issue("tenant_inspect", key=key)
    above = world.issue("tenant_create")
    assert delegate["credential"]["is_master"] is False
    spec = {"subject_id": "x", "capabilities": ["tenant_create"]}
    assert (403, "forbidden") == world.refusal("POST", "admin/credentials", key, spec=spec)
    assert (403, "forbidden") == world.refusal("GET", "admin/credentials", key, contract_version=1)
    master_id = world.call("GET", "admin/identity")[1]["credential"]["id"]
    for credential_id in (above["credential"]["id"], master_id, ABSENT):
        path = f"admin/credentials/{credential_id}"
        assert (403, "forbidden") == world.refusal("GET", path, key)
        assert (403, "forbidden") == world.refusal("POST", f"{path}/rotate", key, expected_revision=1)
        assert (403, "forbidden") == world.refusal("POST", f"{path}/revoke", key, expected_revision=1)
    path = f"admin/credentials/{below['credential']['id']}"
    assert world.call("GET", path, key)[1]["credential"] == below["credential"]
    status, rotated = world.call("POST", f"{path}/rotate", key, expected_revision=1)
    assert (status, set(rotated)) == (200, {"contract_version", "credential", "secret"})
    assert (401, "unauthorized") == world.refusal("GET", "admin/identity", below["secret"])
    assert (409, "revision_conflict") == world.refusal("POST", f"{path}/revoke", key, expected_revision=1)
    status, revoked = world.call("POST", f"{path}/revoke", rotated["secret"], expected_revision=2)
    assert (status, set(revoked)) == (200, {"contract_version", "credential"})
    assert [event["action"] for event in revoked["credential"]["history"]] == ["issued", "rotated", "revoked"]
    assert (401, "unauthorized") == world.refusal("GET", "admin/identity", rotated["secret"])
    listed = world.call("GET", "admin/credentials", contract_version=1, limit=100)[1]["page"]["items"]
    assert revoked["credential"] in listed


def test_bounds_of_global_requests(world: World) -> None:
    """400 for empty and unknown capabilities, expiries that have come, and names out of bounds."""
    base = {"subject_id": "x", "capabilities": ["tenant_inspect"]}
    for change in (
        {"capabilities": []},
        {"capabilities": ["memory_read"]},
        {"expires_at_millis": 1},
        {"subject_id": " "},
        {"grants": []},
    ):
        assert (400, "invalid_request") == world.refusal("POST", "admin/credentials", spec={**base, **change})
    for members in (
        {"tenant_id": "", "subject_id": "x"},
        {"tenant_id": "é" * 129, "subject_id": "x"},
        {"tenant_id": "x", "subject_id": "x", "display_name": ""},
        {"tenant_id": "x", "subject_id": "x", "display_name": "a\nb"},
    ):
        assert (400, "invalid_request") == world.refusal("POST", "admin/tenants", **members)


def test_agents_are_registered_by_their_first_success(world: World) -> None:
    """Reads with empty results count, refusals do not; a command tells its record. Order is that of UTF-8 bytes."""
    company = world.tenant(f"t-{uuid.uuid4()}")
    key = company["secret"]
    spec = {"subject_id": "w", "capabilities": ["memory_read", "memory_write"], "grants": []}
    issued = world.call("POST", "credentials", key, spec={**spec, "scope_policy": EVERY_SCOPE})[1]
    assert world.call("GET", "agents", key, contract_version=1)[1]["page"] == {
        "agents": [],
        "next_after_agent_id": None,
    }
    scopes = {name: {**builders.scope_json("p"), "agent_id": name} for name in ("Z", "a", "é", "refused", "searched")}
    scopes["é"]["visibility"] = "private"
    with world.suite.client(issued["secret"]) as client:
        record = Api(client, scopes["a"]).create("Bees dance.")
        Api(client, scopes["a"]).update(record, "Bees dance at noon.")
        Api(client, scopes["é"]).expect("memory/query", {"filter": {"limit": 1}})
        search = {"mode": "lexical", "query": {"text": "x", "limit": 1}}
        Api(client, scopes["searched"]).expect("memory/search/lexical", search)
        Api(client, scopes["Z"]).expect("memory/consolidation/query", {"query": {"limit": 1, "scan_limit": 1}})
        assert Api(client, scopes["refused"]).get(ABSENT).status_code == 404
    status, answer = world.call("GET", "agents", key, contract_version=1)
    agents = answer["page"]["agents"]
    assert (status, set(answer)) == (200, {"contract_version", "company_id", "page"})
    assert answer["company_id"] == company["tenant"]["tenant_id"]
    assert [agent["agent_id"] for agent in agents] == ["Z", "a", "searched", "é"]
    members = {"agent_id", "registered_at_millis", "registered_by", "first_scope", "private_subject_id", "trigger"}
    assert all(set(agent) == members for agent in agents)
    resource = {"kind": "successful_resource_request"}
    command = {"kind": "memory_command", "record_id": record["record_id"], "revision": 1, "action": "created"}
    assert [agent["trigger"] for agent in agents] == [resource, command, resource, resource]
    assert [agent["private_subject_id"] for agent in agents] == [None, None, None, "w"]
    assert [agent["first_scope"] for agent in agents] == [
        {"mission_id": None, **scopes[name]} for name in ("Z", "a", "searched", "é")
    ]
    assert {agent["registered_by"]["credential_id"] for agent in agents} == {issued["credential"]["id"]}
    page = world.call("GET", "agents", key, contract_version=1, limit=2, after_agent_id="Z")[1]["page"]
    assert ([agent["agent_id"] for agent in page["agents"]], page["next_after_agent_id"]) == (
        ["a", "searched"],
        "searched",
    )
    assert (403, "forbidden") == world.refusal("GET", "agents", issued["secret"], contract_version=1)
    for query in ({}, {"contract_version": 1, "limit": 0}, {"contract_version": 1, "limit": 101}):
        assert (400, "invalid_request") == world.refusal("GET", "agents", key, **query)


def test_a_recovered_master_goes_on(world: World) -> None:
    """With a stopped suite; a stale revision is refused. The former secret ends."""
    revision = world.call("GET", "admin/identity")[1]["credential"]["revision"]
    world.suite.stop()
    assert admin_command(world.suite, "recover-master", str(revision + 1))[0] != 0
    code, recovered = admin_command(world.suite, "recover-master", str(revision))
    assert code == 0
    world.suite.start()
    assert (401, "unauthorized") == world.refusal("GET", "admin/identity")
    world.master = recovered["secret"]
    credential = world.call("GET", "admin/identity")[1]["credential"]
    assert credential == recovered["credential"]
    assert credential["history"][-1]["action"] == "recovered_by_local_operator"

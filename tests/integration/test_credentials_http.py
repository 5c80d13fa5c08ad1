"""The credential routes through the gateway of a running suite: shapes, codes, and that a change holds at once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.suite import Suite

READ = {"subject_id": "reader", "capabilities": ["memory_read"]}
CREDENTIAL = {"id", "tenant_id", "spec", "revision", "revoked_at_millis", "history"}


def call(suite: Suite, method: str, path: str, body: dict[str, Any] | None = None, key: str | None = None) -> Any:
    """One request as the administrator, unless a key is named; the response."""
    with suite.client(suite.admin_key if key is None else key) as client:
        document = None if body is None else {"contract_version": 1, **body}
        response = client.request(method, f"/api/v1/{path}", json=document)
    assert response.headers["cache-control"] == "no-store"
    return response


def issue(suite: Suite, **members: Any) -> dict[str, Any]:
    """Issue a credential that may read; the answer."""
    response = call(suite, "POST", "credentials", {"spec": {**READ, "grants": [], **members}})
    assert response.status_code == 201
    answer: dict[str, Any] = response.json()
    assert set(answer) == {"contract_version", "credential", "secret"}
    return answer


def test_a_credential_is_issued_once_and_seen_without_its_secret(suite: Suite) -> None:
    """Issue answers 201 with the secret; inspect, identity and list show the same view, closed and without it."""
    issued = issue(suite)
    credential = issued["credential"]
    assert set(credential) == CREDENTIAL
    assert set(credential["spec"]) == {"subject_id", "capabilities", "grants", "expires_at_millis"}
    assert [event["action"] for event in credential["history"]] == ["issued"]
    inspected = call(suite, "GET", f"credentials/{credential['id']}")
    assert inspected.json() == {"contract_version": 1, "credential": credential}
    assert call(suite, "GET", "identity", key=issued["secret"]).json() == inspected.json()
    assert issued["secret"].split("_", 2)[-1] not in inspected.text


def test_rotation_and_revocation_hold_on_the_next_request(suite: Suite) -> None:
    """The old secret ends with the rotation, the new one with the revocation; a stale revision changes nothing."""
    issued = issue(suite)
    path = f"credentials/{issued['credential']['id']}"
    rotated = call(suite, "POST", f"{path}/rotate", {"expected_revision": 1})
    assert rotated.status_code == 200
    assert call(suite, "GET", "identity", key=issued["secret"]).status_code == 401
    secret = rotated.json()["secret"]
    assert call(suite, "GET", "identity", key=secret).json()["credential"]["revision"] == 2
    stale = call(suite, "POST", f"{path}/revoke", {"expected_revision": 1})
    assert (stale.status_code, stale.json()["error"]["code"]) == (409, "revision_conflict")
    revoked = call(suite, "POST", f"{path}/revoke", {"expected_revision": 2})
    assert set(revoked.json()) == {"contract_version", "credential"}
    assert revoked.json()["credential"]["revoked_at_millis"] is not None
    assert call(suite, "GET", "identity", key=secret).status_code == 401


def test_scope_authority_is_replaced_as_a_whole(suite: Suite, scope: dict[str, Any]) -> None:
    """A grant opens the exact scope and no other; the change is told in the history."""
    issued = issue(suite)
    body = {"contract_version": 1, "scope": scope, "filter": {"limit": 1}}
    with suite.client(issued["secret"]) as client:
        assert client.post("/api/v1/memory/query", json=body).status_code == 403
    path = f"credentials/{issued['credential']['id']}/scope-authority"
    changed = call(suite, "POST", path, {"expected_revision": 1, "authority": {"grants": [scope]}})
    assert changed.status_code == 200
    event = changed.json()["credential"]["history"][-1]
    assert event["action"] == "scope_authority_changed"
    assert event["scope_authority_change"] == {"previous": {"grants": []}, "current": {"grants": [scope]}}
    with suite.client(issued["secret"]) as client:
        assert client.post("/api/v1/memory/query", json=body).status_code == 200
        for member, other in (("agent_id", "other"), ("mission_id", "m"), ("visibility", "private")):
            foreign = {**body, "scope": {**scope, member: other}}
            assert client.post("/api/v1/memory/query", json=foreign).status_code == 403


def test_the_directory_is_walked_to_its_end(suite: Suite) -> None:
    """Pages of two hold every credential once; a cursor that was touched is refused."""
    wanted = {issue(suite)["credential"]["id"] for _ in range(3)}
    seen: list[str] = []
    cursor = ""
    while True:
        page = call(suite, "GET", f"credentials?contract_version=1&limit=2{cursor}").json()["page"]
        assert set(page) == {"items", "next_cursor"}
        seen += [item["id"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
        touched = cursor[:-1] + ("A" if cursor[-1] != "A" else "B")
        assert call(suite, "GET", f"credentials?contract_version=1&limit=2{touched}").status_code == 400
    assert len(seen) == len(set(seen))
    assert wanted <= set(seen)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "credentials", {"spec": {**READ, "grants": []}}),
        ("GET", "credentials?contract_version=1", None),
        ("GET", "credentials/00000000-0000-4000-8000-000000000001", None),
        ("POST", "credentials/00000000-0000-4000-8000-000000000001/rotate", {"expected_revision": 1}),
        ("POST", "credentials/00000000-0000-4000-8000-000000000001/revoke", {"expected_revision": 1}),
        (
            "POST",
            "credentials/00000000-0000-4000-8000-000000000001/scope-authority",
            {"expected_revision": 1, "authority": {"grants": []}},
        ),
    ],
)
def test_only_an_administrator_reaches_the_credential_routes(
    suite: Suite, method: str, path: str, body: dict[str, Any] | None
) -> None:
    """No key is 401, a key without credential_admin 403; an absent target is 403 too, so nothing is told of it."""
    nobody = call(suite, method, path, body, key="")
    assert (nobody.status_code, nobody.json()["error"]["code"]) == (401, "unauthorized")
    writer = call(suite, method, path, body, key=suite.writer_key)
    assert (writer.status_code, writer.json()["error"]["code"]) == (403, "forbidden")
    if "0001" in path:
        assert call(suite, method, path, body).status_code == 403

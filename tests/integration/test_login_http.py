"""Human login, member by member, through the gateway of a running suite."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.people import ADMIN, COMPANY, PASSWORD, People, code_of, new_account, running_people
from tests.harness.raw_http import RawConnection, chunked_bytes, request_bytes

ACCOUNT = {"id", "username", "authority", "credential_id", "revision", "disabled_at_millis", "history"}
OWNERS = pytest.mark.parametrize("owner", [COMPANY, ADMIN], ids=["company", "global"])


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[People]:
    with running_people(tmp_path_factory.mktemp("login")) as running:
        yield running


@OWNERS
def test_an_account_is_created_and_read(people: People, owner: str) -> None:
    """Every documented member, the same on creation, read and list; no trace of the password."""
    issued = people.credential(owner)
    name = f"Zoë / {uuid.uuid4()}"
    account = people.create(owner, name, issued["credential"]["id"].upper())
    actor_id = people.who(owner, people.key(owner))[1]["credential"]["id"]
    authority = {"kind": "global"} if owner == ADMIN else {"kind": "tenant", "tenant_id": "acme"}
    assert set(account) == ACCOUNT
    assert account["history"] == [
        {
            "revision": 1,
            "action": "login_account_created",
            "actor_id": actor_id,
            "at_millis": account["history"][0]["at_millis"],
        }
    ]
    assert (account["username"], account["authority"], account["credential_id"]) == (
        name,
        authority,
        issued["credential"]["id"],
    )
    assert (account["revision"], account["disabled_at_millis"]) == (1, None)
    found = people.call("GET", f"{owner}login-accounts/{account['id']}", people.key(owner))
    assert found == (200, {"contract_version": 1, "account": account})
    page = people.call("GET", f"{owner}login-accounts", people.key(owner), contract_version=1, limit=100)[1]["page"]
    assert account in page["items"]
    assert "argon2" not in json.dumps([found, page])


@OWNERS
def test_a_login_opens_a_session(people: People, owner: str) -> None:
    """The documented session; it acts with the bound credential, for fifteen minutes."""
    account = people.person(owner)
    before_ms = time.time_ns() // 1_000_000
    status, answer = people.try_login(owner, account["username"])
    session = answer["session"]
    assert (status, set(answer), set(session)) == (
        200,
        {"contract_version", "session"},
        {"token", "token_type", "expires_at_millis", "account"},
    )
    kind = "qdbsg1" if owner == ADMIN else "qdbst1"
    assert re.fullmatch(kind + r"_[0-9a-f]{32}_[0-9a-f]{32}_[A-Za-z0-9_-]{43}", session["token"])
    assert (session["token_type"], session["account"]) == ("Bearer", account)
    assert before_ms + 900_000 <= session["expires_at_millis"] <= time.time_ns() // 1_000_000 + 900_000
    assert people.who(owner, session["token"])[1]["credential"]["id"] == account["credential_id"]
    assert people.refusal("GET", f"{ADMIN if owner == COMPANY else COMPANY}identity", session["token"])[0] == 403


@OWNERS
def test_a_session_ends_with_its_credential(people: People, owner: str) -> None:
    """It never outlives the bound credential."""
    expires_at = time.time_ns() // 1_000_000 + 800_000
    account = people.person(owner, expires_at_millis=expires_at)
    assert people.try_login(owner, account["username"])[1]["session"]["expires_at_millis"] == expires_at


@OWNERS
def test_logging_out(people: People, owner: str) -> None:
    """Without a body, an empty object or the version; once. Other sessions of the account live on."""
    account = people.person(owner)
    kept = people.login(owner, account["username"])
    for body in (None, {}, {"contract_version": 1}):
        token = people.login(owner, account["username"])
        assert people.call("POST", "logout", token, body) == (200, {"contract_version": 1, "logged_out": True})
        assert (401, "unauthorized") == people.refusal("POST", "logout", token, body)
        assert (401, "unauthorized") == people.refusal("GET", f"{owner}identity", token)
    for body, code in (
        ({"contract_version": 2}, "unsupported_contract_version"),
        ({"everywhere": True}, "invalid_request"),
        ([], "invalid_request"),
    ):
        assert (400, code) == people.refusal("POST", "logout", kept, body)
    assert 200 == people.who(owner, kept)[0]
    for key in (people.key(owner), "", kept[:-1] + "~"):
        assert (401, "unauthorized") == people.refusal("POST", "logout", key)
    assert 200 == people.who(owner, people.key(owner))[0]


BEARER = "Authorization: Bearer TOKEN"
CHUNKED = ("Transfer-Encoding: chunked", "Content-Type: application/json")
NO_BODY = {
    "no length": request_bytes("POST", "/api/v1/logout", headers=(BEARER,)),
    "length 0": request_bytes("POST", "/api/v1/logout", b"", headers=(BEARER,), content_type=None),
    "no chunk": request_bytes("POST", "/api/v1/logout", headers=(BEARER, *CHUNKED)) + chunked_bytes(b"", 1),
}


@pytest.mark.parametrize("request_text", NO_BODY.values(), ids=NO_BODY)
def test_logging_out_without_a_body(people: People, request_text: bytes) -> None:
    """However nothing is framed, it is no body; the connection goes on."""
    account = people.person(COMPANY)
    with RawConnection(people.suite.port) as connection:
        token = people.login(COMPANY, account["username"]).encode()
        for status in (200, 401):
            connection.send(request_text.replace(b"TOKEN", token))
            assert connection.receive().status == status


@OWNERS
def test_a_changed_password(people: People, owner: str) -> None:
    """Ends the sessions and the former password at once; a stale revision changes nothing."""
    account = people.person(owner)
    token = people.login(owner, account["username"])
    status, answer = people.change(owner, account, "password", password="another password")
    changed = answer["account"]
    assert (status, set(answer), changed["revision"]) == (200, {"contract_version", "account"}, 2)
    assert [event["action"] for event in changed["history"]] == ["login_account_created", "login_password_changed"]
    assert (401, "unauthorized") == people.refusal("GET", f"{owner}identity", token)
    assert 401 == people.try_login(owner, account["username"])[0]
    people.login(owner, account["username"], "another password")
    people.secrets.add("another password")
    for change, members in (("password", {"password": PASSWORD}), ("disable", {})):
        status, answer = people.change(owner, account, change, **members)
        assert (status, answer["error"]["code"]) == (409, "revision_conflict")
        assert answer["error"]["message"].startswith("expected_revision")
    people.login(owner, account["username"], "another password")


@OWNERS
def test_a_disabled_account(people: People, owner: str) -> None:
    """Nobody logs in any more, its sessions have ended, it is listed, and its name stays taken."""
    account = people.person(owner)
    token = people.login(owner, account["username"])
    status, answer = people.change(owner, account, "disable")
    disabled = answer["account"]
    assert (status, set(answer), disabled["revision"]) == (200, {"contract_version", "account"}, 2)
    assert disabled["disabled_at_millis"] == disabled["history"][-1]["at_millis"]
    assert [event["action"] for event in disabled["history"]] == ["login_account_created", "login_account_disabled"]
    assert (401, "unauthorized") == people.refusal("GET", f"{owner}identity", token)
    assert (401, "invalid_login") == code_of(people.try_login(owner, account["username"]))
    for change, members in (("password", {"password": PASSWORD}), ("disable", {})):
        assert (403, "forbidden") == code_of(people.change(owner, disabled, change, **members))
    page = people.call("GET", f"{owner}login-accounts", people.key(owner), contract_version=1, limit=100)[1]["page"]
    assert disabled in page["items"]
    body = new_account(account["credential_id"], username=account["username"])
    assert (409, "revision_conflict") == people.refusal("POST", f"{owner}login-accounts", people.key(owner), body)


def test_a_session_administers_as_its_credential_does(people: People) -> None:
    """Sessions of an administrator create, list and change accounts; the actor is the bound credential."""
    administrator = people.person(COMPANY)
    token = people.login(COMPANY, administrator["username"])
    body = new_account(administrator["credential_id"])
    status, answer = people.call("POST", "login-accounts", token, body)
    assert status == 201
    assert answer["account"]["history"][0]["actor_id"] == administrator["credential_id"]
    assert 200 == people.call("GET", "login-accounts", token, contract_version=1)[0]
    own = {"contract_version": 1, "expected_revision": 1, "password": "another password"}
    assert 200 == people.call("POST", f"login-accounts/{administrator['id']}/password", token, own)[0]
    assert (401, "unauthorized") == people.refusal("GET", "login-accounts", token, contract_version=1)
    root = people.create(ADMIN, str(uuid.uuid4()), people.who(ADMIN, people.master)[1]["credential"]["id"])
    master_session = people.login(ADMIN, root["username"])
    assert 200 == people.call("GET", "admin/login-accounts", master_session, contract_version=1)[0]


@OWNERS
def test_accounts_are_listed_page_by_page(people: People, owner: str) -> None:
    """In the order of their names' UTF-8 bytes, each once; cursors are of this list alone."""
    credential_id = people.credential(owner)["credential"]["id"]
    prefix = str(uuid.uuid4())
    names = [f"{prefix} {name}" for name in ("Z", "a", "é")]
    for name in reversed(names):
        people.create(owner, name, credential_id)
    seen: list[str] = []
    query: dict[str, Any] = {"contract_version": 1, "limit": 2}
    while True:
        page = people.call("GET", f"{owner}login-accounts", people.key(owner), **query)[1]["page"]
        assert set(page) == {"items", "next_cursor"}
        seen += [item["username"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        query["cursor"] = page["next_cursor"]
    assert seen == sorted(set(seen), key=str.encode)
    assert [name for name in seen if name.startswith(prefix)] == names
    other = ADMIN if owner == COMPANY else COMPANY
    cursor = {"contract_version": 1, "cursor": query["cursor"]}
    assert (400, "invalid_request") == people.refusal("GET", f"{other}login-accounts", people.key(other), **cursor)
    assert (400, "invalid_request") == people.refusal("GET", f"{owner}credentials", people.key(owner), **cursor)
    for bad in ({}, {"contract_version": 1, "limit": 0}, {"contract_version": 1, "limit": 101}):
        assert (400, "invalid_request") == people.refusal("GET", f"{owner}login-accounts", people.key(owner), **bad)
    wrong = people.refusal("GET", f"{owner}login-accounts", people.key(owner), contract_version=2)
    assert wrong == (400, "unsupported_contract_version")


def test_sessions_survive_a_restart_of_identity(people: People) -> None:
    """They are stored, not remembered; accounts too."""
    account = people.person(COMPANY)
    token, ended = people.login(COMPANY, account["username"]), people.login(COMPANY, account["username"])
    assert 200 == people.call("POST", "logout", ended)[0]
    people.suite.kill("identity")
    people.suite.wait_healthy()
    assert people.who(COMPANY, token)[1]["credential"]["id"] == account["credential_id"]
    assert (401, "unauthorized") == people.refusal("GET", "identity", ended)
    people.login(COMPANY, account["username"])


def test_a_session_works_wherever_a_key_does(people: People) -> None:
    """Memory is written and searched with it, by its credential's subject."""
    scope = {"project_id": str(uuid.uuid4()), "mission_id": None, "agent_id": "a", "visibility": "private"}
    account = people.person(COMPANY, capabilities=["memory_read", "memory_write"], grants=[scope])
    token = people.login(COMPANY, account["username"])
    body: dict[str, Any] = {"contract_version": 1, "scope": scope}
    search = {**body, "mode": "lexical", "query": {"text": "x", "limit": 1}}
    assert 200 == people.call("POST", "memory/query", token, {**body, "filter": {"limit": 1}})[0]
    assert 200 == people.call("POST", "memory/search/lexical", token, search)[0]
    assert 200 == people.call("POST", "logout", token)[0]
    assert (401, "unauthorized") == people.refusal("POST", "memory/search/lexical", token, search)


def test_the_description_shows_the_routes(people: People) -> None:
    """Login needs no key, logout no body, and the refusals are declared."""
    paths = people.client.get("/openapi.json").json()["paths"]
    for path in ("/api/v1/login", "/api/v1/admin/login"):
        login = paths[path]["post"]
        assert login["security"] == []
        assert {"200", "400", "401", "413", "429", "500", "503"} == set(login["responses"])
    assert paths["/api/v1/logout"]["post"]["requestBody"]["required"] is False
    assert paths["/api/v1/login"]["post"]["requestBody"]["required"] is True
    for prefix in ("/api/v1/", "/api/v1/admin/"):
        assert {"post", "get"} == set(paths[f"{prefix}login-accounts"])
        assert "201" in paths[f"{prefix}login-accounts"]["post"]["responses"]


def test_nothing_secret_was_logged(people: People) -> None:
    """After all of the above, at the finest level: no password, no token, no hash, in no process."""
    people.assert_nothing_secret_was_logged()

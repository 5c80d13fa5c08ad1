"""Every documented refusal of human login, through the gateway of a running suite."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.people import (
    ABSENT,
    ADMIN,
    COMPANY,
    PASSWORD,
    WRONG,
    People,
    code_of,
    key_without_authority,
    new_account,
    running_people,
)
from tests.harness.raw_http import RawConnection, chunked_bytes, request_bytes

LIMIT = 8192
CHUNKED = ("Transfer-Encoding: chunked", "Content-Type: application/json")
OWNERS = pytest.mark.parametrize("owner", [COMPANY, ADMIN], ids=["company", "global"])


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[People]:
    with running_people(tmp_path_factory.mktemp("login")) as running:
        yield running


@OWNERS
def test_failed_logins_are_all_alike(people: People, owner: str) -> None:
    """The same words for an unknown name and company, a wrong password, and an ended credential."""
    account = people.person(owner)
    ended = people.person(owner)
    revoke = {"contract_version": 1, "expected_revision": 1}
    path = f"{owner}credentials/{ended['credential_id']}/revoke"
    assert 200 == people.call("POST", path, people.key(owner), revoke)[0]
    answers = [
        people.try_login(owner, account["username"], WRONG),
        people.try_login(owner, str(uuid.uuid4())),
        people.try_login(owner, account["username"].upper()),
        people.try_login(owner, ended["username"]),
        people.try_login(COMPANY if owner == ADMIN else ADMIN, account["username"]),
    ]
    if owner == COMPANY:
        body = {"contract_version": 1, "tenant_id": "nowhere", "username": account["username"], "password": PASSWORD}
        answers.append(people.call("POST", "login", body=body))
    assert {code_of(answer) for answer in answers} == {(401, "invalid_login")}
    assert len({json.dumps(answer) for answer in answers}) == 1


@OWNERS
def test_too_many_failures(people: People, owner: str) -> None:
    """429 for that name, right password or not, known or not; another person still logs in."""
    account, other = people.person(owner), people.person(owner)
    names = [account["username"]] if owner == ADMIN else [account["username"], str(uuid.uuid4())]
    for name in names:
        for _ in range(10):
            assert (401, "invalid_login") == code_of(people.try_login(owner, name, WRONG))
        assert (429, "login_rate_limited") == code_of(people.try_login(owner, name))
    people.login(owner, other["username"])


def test_only_administrators_reach_accounts(people: People) -> None:
    """401 without a valid key, 403 for one without the authority, whether the account exists or not."""
    delegate = people.credential(ADMIN, capabilities=["tenant_create", "global_credential_admin"])["secret"]
    for owner, outsiders in (
        (COMPANY, [key_without_authority(people), people.master, delegate]),
        (ADMIN, [people.suite.admin_key, delegate, key_without_authority(people)]),
    ):
        account = people.person(owner)
        requests: list[tuple[str, str, Any, dict[str, Any]]] = [
            ("POST", "login-accounts", new_account(account["credential_id"]), {}),
            ("GET", "login-accounts", None, {"contract_version": 1}),
        ]
        for account_id in (account["id"], ABSENT):
            changed = {"contract_version": 1, "expected_revision": 1}
            requests += [
                ("GET", f"login-accounts/{account_id}", None, {}),
                ("POST", f"login-accounts/{account_id}/disable", changed, {}),
                ("POST", f"login-accounts/{account_id}/password", {**changed, "password": PASSWORD}, {}),
            ]
        for method, path, body, query in requests:
            for key in outsiders:
                assert (403, "forbidden") == people.refusal(method, owner + path, key, body, **query), path
            for key in ("", people.key(owner)[:-1] + "~"):
                assert (401, "unauthorized") == people.refusal(method, owner + path, key, body, **query), path
            if ABSENT in path:
                assert (403, "forbidden") == people.refusal(method, owner + path, people.key(owner), body, **query)
        people.login(owner, account["username"])


def test_accounts_of_another_company_are_out_of_reach(people: People) -> None:
    """As if they did not exist, and its credentials cannot be bound."""
    account = people.person(COMPANY)
    foreign = people.suite.other_admin_key
    changed = {"contract_version": 1, "expected_revision": 1}
    path = f"login-accounts/{account['id']}"
    assert (403, "forbidden") == people.refusal("GET", path, foreign)
    assert (403, "forbidden") == people.refusal("POST", f"{path}/disable", foreign, changed)
    assert (403, "forbidden") == people.refusal("POST", f"{path}/password", foreign, {**changed, "password": PASSWORD})
    body = new_account(account["credential_id"])
    assert (403, "forbidden") == people.refusal("POST", "login-accounts", foreign, body)
    listed = people.call("GET", "login-accounts", foreign, contract_version=1)[1]["page"]
    assert listed == {"items": [], "next_cursor": None}


@OWNERS
def test_credentials_out_of_reach_are_not_bound(people: People, owner: str) -> None:
    """403 for an unknown one, one of the other authority and a revoked one."""
    other = people.credential(ADMIN if owner == COMPANY else COMPANY)["credential"]["id"]
    revoked = people.credential(owner)["credential"]["id"]
    revoke = {"contract_version": 1, "expected_revision": 1}
    assert 200 == people.call("POST", f"{owner}credentials/{revoked}/revoke", people.key(owner), revoke)[0]
    for credential_id in (ABSENT, other, revoked):
        body = new_account(credential_id)
        assert (403, "forbidden") == people.refusal("POST", f"{owner}login-accounts", people.key(owner), body)


BAD_NAMES = ["", " \t", "é" * 129, "a\nb", 7, None]
BAD_PASSWORDS = ["1234567", "ééé1", "é" * 513, 12345678, None]


@OWNERS
def test_bounds(people: People, owner: str) -> None:
    """Names of 1 to 256 bytes, passwords of 8 to 1,024, versions, ids, unknown members: 400 that names the member."""
    credential_id = people.credential(owner)["credential"]["id"]
    for password in ("12345678", "éééé", "é" * 512):
        name = "é" * 100 + str(uuid.uuid4()) + "x" * 20
        people.create(owner, name, credential_id, password)
        people.login(owner, name, password)
    create, login = new_account(credential_id), {"contract_version": 1, "username": "x", "password": PASSWORD}
    if owner == COMPANY:
        login["tenant_id"] = "acme"
    bad: dict[str, list[Any]] = {"username": BAD_NAMES, "password": BAD_PASSWORDS, "contract_version": [None, "1"]}
    for path, body, members in (
        (f"{owner}login-accounts", create, {**bad, "credential_id": ["", "x", None]}),
        (f"{owner}login", login, {**bad, "tenant_id": BAD_NAMES} if owner == COMPANY else bad),
        (
            f"{owner}login-accounts/{ABSENT}/password",
            {"contract_version": 1, "expected_revision": 1, "password": PASSWORD},
            {"password": BAD_PASSWORDS, "expected_revision": [0, -1, "1", None]},
        ),
        (
            f"{owner}login-accounts/{ABSENT}/disable",
            {"contract_version": 1, "expected_revision": 1},
            {"expected_revision": [0, 1.5, None]},
        ),
    ):
        key = "" if path.endswith("/login") or path == "login" else people.key(owner)
        for member, values in members.items():
            left_out = {name: value for name, value in body.items() if name != member}
            for changed in (left_out, *({**body, member: value} for value in values)):
                status, answer = people.call("POST", path, key, changed)
                assert (status, answer["error"]["code"]) == (400, "invalid_request"), changed
                assert answer["error"]["message"].startswith(member), answer
        assert (400, "invalid_request") == people.refusal("POST", path, key, {**body, "remember_me": True})
        wrong = people.refusal("POST", path, key, {**body, "contract_version": 2})
        assert (400, "unsupported_contract_version") == wrong
    for path in ("login-accounts/x", "login-accounts/x/disable"):
        method, body = (
            ("GET", None) if path.endswith("/x") else ("POST", {"contract_version": 1, "expected_revision": 1})
        )
        assert (400, "invalid_request") == people.refusal(method, owner + path, people.key(owner), body)


BODIES = {
    "login": {"contract_version": 1, "tenant_id": "acme", "username": "nobody", "password": PASSWORD},
    "admin/login": {"contract_version": 1, "username": "nobody", "password": PASSWORD},
    "logout": {"contract_version": 1},
    "login-accounts": new_account(ABSENT),
    "admin/login-accounts": new_account(ABSENT),
    f"login-accounts/{ABSENT}/password": {"contract_version": 1, "expected_revision": 1, "password": PASSWORD},
    f"admin/login-accounts/{ABSENT}/password": {"contract_version": 1, "expected_revision": 1, "password": PASSWORD},
    f"login-accounts/{ABSENT}/disable": {"contract_version": 1, "expected_revision": 1},
    f"admin/login-accounts/{ABSENT}/disable": {"contract_version": 1, "expected_revision": 1},
}


@pytest.mark.parametrize("path", BODIES)
def test_the_body_limit(people: People, path: str) -> None:
    """8,192 bytes are read, whole or in chunks; one more is 413, before anything else is looked at."""
    body = json.dumps(BODIES[path]).encode()
    for size, expected in ((LIMIT, {401, 429}), (LIMIT + 1, {413})):
        padded = body.ljust(size)
        for data in (
            request_bytes("POST", f"/api/v1/{path}", padded),
            request_bytes("POST", f"/api/v1/{path}", headers=CHUNKED) + chunked_bytes(padded, 1000),
        ):
            with RawConnection(people.suite.port) as connection:
                connection.send(data)
                response = connection.receive()
            assert response.status in expected
            if response.status == 413:
                assert response.code == "invalid_request"


def test_nothing_secret_was_logged(people: People) -> None:
    """After all of the above, at the finest level: no password, no token, no hash, in no process."""
    people.assert_nothing_secret_was_logged()

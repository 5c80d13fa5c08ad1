"""People with accounts in a running suite, and everything secret that they and their administrators have sent."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from cli.suite import VERIFIER_KEY_FILE
from services.gateway.descriptors import Descriptors
from services.gateway.error_envelope import ErrorEnvelope
from services.gateway.message_shape import MessageShapes
from services.gateway.openapi import openapi_document
from services.gateway.route_table import compile_routes
from services.identity.bootstrap import bootstrap_master
from services.identity.verifier_key import load_verifier_key
from services.storage.directory import open_store
from tests.harness.closed_shapes import ClosedShapes
from tests.harness.suite import Suite, make_suite

ABSENT = "00000000-0000-4000-8000-00000000dead"
PASSWORD = "correct horse battery"
WRONG = "wrong horse battery"
ADMIN, COMPANY = "admin/", ""


@dataclass
class People:
    """A running suite with a master, and everything secret that was ever sent or answered."""

    suite: Suite
    client: httpx.Client
    master: str
    shapes: ClosedShapes
    secrets: set[str]

    def call(self, method: str, path: str, key: str = "", body: Any = None, **query: Any) -> tuple[int, dict[str, Any]]:
        """Call a route below /api/v1; status and document, which openapi.json must describe for those of login."""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        response = self.client.request(method, f"/api/v1/{path}", json=body, params=query or None, headers=headers)
        assert response.headers["cache-control"] == "no-store"
        assert "retry-after" not in response.headers
        document: dict[str, Any] = response.json()
        if "log" in path:
            template = re.sub(r"(?<=login-accounts/)[^/]+", "{account_id}", f"/api/v1/{path}")
            assert [] == self.shapes.faults(method, template, response.status_code, document)
        return response.status_code, document

    def refusal(self, method: str, path: str, key: str = "", body: Any = None, **query: Any) -> tuple[int, str]:
        """Status and code of a refused call."""
        status, document = self.call(method, path, key, body, **query)
        return status, document["error"]["code"]

    def key(self, owner: str) -> str:
        """Who administers the accounts of an owner."""
        return self.master if owner == ADMIN else self.suite.admin_key

    def credential(self, owner: str, **spec: Any) -> dict[str, Any]:
        """Issue a credential that accounts of an owner can be bound to; what is answered."""
        capability = "tenant_inspect" if owner == ADMIN else "credential_admin"
        base: dict[str, Any] = {"subject_id": "person", "capabilities": [capability]}
        if owner == COMPANY:
            base["grants"] = []
        status, answer = self.call(
            "POST", f"{owner}credentials", self.key(owner), {"contract_version": 1, "spec": {**base, **spec}}
        )
        assert status == 201, answer
        self.secrets.add(answer["secret"])
        return answer

    def create(self, owner: str, username: str, credential_id: str, password: str = PASSWORD) -> dict[str, Any]:
        """Make an account."""
        body = {
            "contract_version": 1,
            "username": username,
            "password": password,
            "credential_id": credential_id,
        }
        status, answer = self.call("POST", f"{owner}login-accounts", self.key(owner), body)
        assert (status, set(answer)) == (201, {"contract_version", "account"}), answer
        account: dict[str, Any] = answer["account"]
        return account

    def person(self, owner: str, **spec: Any) -> dict[str, Any]:
        """Make an account with a name of its own and a credential of its own."""
        issued = self.credential(owner, **spec)
        return self.create(owner, f"person {uuid.uuid4()}", issued["credential"]["id"])

    def try_login(self, owner: str, username: str, password: str = PASSWORD) -> tuple[int, dict[str, Any]]:
        """Log in; status and document."""
        body = {"contract_version": 1, "username": username, "password": password}
        if owner == COMPANY:
            body["tenant_id"] = "acme"
        status, document = self.call("POST", f"{owner}login", body=body)
        if status == 200:
            self.secrets.add(document["session"]["token"])
        return status, document

    def login(self, owner: str, username: str, password: str = PASSWORD) -> str:
        """Log in; the token."""
        status, document = self.try_login(owner, username, password)
        assert status == 200, document
        token: str = document["session"]["token"]
        return token

    def change(self, owner: str, account: dict[str, Any], change: str, **members: Any) -> tuple[int, dict[str, Any]]:
        """Change an account."""
        body = {"contract_version": 1, "expected_revision": account["revision"], **members}
        return self.call("POST", f"{owner}login-accounts/{account['id']}/{change}", self.key(owner), body)

    def who(self, owner: str, token: str) -> tuple[int, dict[str, Any]]:
        """What the identity route says of a token."""
        return self.call("GET", f"{owner}identity", token)

    def assert_nothing_secret_was_logged(self) -> None:
        """No password, no token, no hash, at whatever level the suite logs."""
        log = self.suite.log.read_text(encoding="utf-8")
        assert "/waggle.identity.v1.LoginService/Login" in log
        for secret in self.secrets:
            assert secret not in log
            assert secret[-20:] not in log
        assert "argon2" not in log
        assert not re.search(r"qdb[a-z]*1_[0-9a-f]{32}", log)


@contextmanager
def running_people(directory: Path) -> Iterator[People]:
    """Run a suite with a master, which logs everything that it ever logs."""
    suite = make_suite(directory)
    verifier_key = load_verifier_key(suite.data_directory / VERIFIER_KEY_FILE)
    with open_store(suite.data_directory) as store:
        master = bootstrap_master(store, verifier_key, subject_id="operator")["secret"]
    suite.environment = {"WAGGLE_LOG_LEVEL": "debug"}
    suite.start()
    try:
        with suite.client("") as client:
            yield People(suite, client, master, shapes_of_the_checkout(), {PASSWORD, WRONG, suite.admin_key, master})
    finally:
        suite.stop()


def shapes_of_the_checkout() -> ClosedShapes:
    """openapi.json."""
    descriptors = Descriptors.load()
    shapes = MessageShapes(descriptors)
    document = openapi_document(
        descriptors, shapes, compile_routes(descriptors, shapes), dict(ErrorEnvelope(descriptors).status_by_reason)
    )
    return ClosedShapes(json.loads(document))


def code_of(answer: tuple[int, dict[str, Any]]) -> tuple[int, str]:
    """Status and code of a refusal."""
    return answer[0], answer[1]["error"]["code"]


def new_account(credential_id: str, **members: Any) -> dict[str, Any]:
    """A good body of a creation, but for some members."""
    base = {"contract_version": 1, "username": str(uuid.uuid4()), "password": PASSWORD, "credential_id": credential_id}
    return {**base, **members}


def key_without_authority(people: People) -> str:
    """A key of the company without `credential_admin`."""
    secret: str = people.credential(COMPANY, capabilities=["memory_read"])["secret"]
    return secret

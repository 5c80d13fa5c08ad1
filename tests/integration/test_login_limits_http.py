"""Human login through a gateway and an identity service whose clocks and workers the test holds in its hand."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from services.gateway.settings import HttpLimits
from services.identity.attempt_window import TOTAL_FAILURES_MAX, WINDOW_MS
from services.identity.identity_calls import IdentityCalls
from services.identity.password_workers import WORKER_COUNT
from services.identity.servicer import IdentityServicer
from services.identity.servicer_login import LoginServicer
from services.identity.servicer_login_accounts import LoginAccountServicer
from services.identity.sessions import SESSION_MILLIS
from services.runtime.server import Registry, RunningServer
from tests.harness.running_gateway import running_gateway
from tests.unit.identity.builders import KEY
from tests.unit.identity.login_world import PASSWORD, LoginWorld
from waggle.identity.v1 import identity_service_pb2_grpc, login_account_service_pb2_grpc, login_service_pb2_grpc

WAIT_S = 20.0


class Served:
    """A world of logins behind a gateway."""

    def __init__(self, world: LoginWorld, client: httpx.Client) -> None:
        self.world = world
        self.client = client

    def post(self, path: str, key: str = "", **members: Any) -> tuple[int, dict[str, Any]]:
        """POST below /api/v1; status and document."""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        response = self.client.post(f"/api/v1/{path}", json={"contract_version": 1, **members}, headers=headers)
        return response.status_code, response.json()

    def refusal(self, path: str, key: str = "", **members: Any) -> tuple[int, str]:
        """Status and code of a refused call."""
        status, document = self.post(path, key, **members)
        return status, document["error"]["code"]

    def who(self, key: str) -> int:
        """Status of the identity route."""
        return self.client.get("/api/v1/identity", headers={"Authorization": f"Bearer {key}"}).status_code


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    world = LoginWorld()
    calls = IdentityCalls(world.store, KEY, world.authority)  # type: ignore[arg-type]
    registry = Registry()
    registry.on_close(world.close)
    registry.add(
        identity_service_pb2_grpc.add_IdentityServiceServicer_to_server,
        IdentityServicer(world.store, KEY, version="1"),  # type: ignore[arg-type]
    )
    registry.add(login_service_pb2_grpc.add_LoginServiceServicer_to_server, LoginServicer(world.logins))
    registry.add(
        login_account_service_pb2_grpc.add_LoginAccountServiceServicer_to_server,
        LoginAccountServicer(calls, world.passwords, world.workers),
    )
    address = f"unix:{tmp_path}/i.sock"
    server = RunningServer(registry, address)
    try:
        with (
            running_gateway(address, HttpLimits()) as port,
            httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=WAIT_S) as client,
        ):
            yield Served(world, client)
    finally:
        server.drain(0)


@contextmanager
def taken_workers(world: LoginWorld) -> Iterator[None]:
    """Keep every password worker at work for the length of the block."""
    gate, begun = threading.Event(), threading.Barrier(WORKER_COUNT + 1)

    def work() -> None:
        begun.wait(WAIT_S)
        gate.wait(WAIT_S)

    callers = [threading.Thread(target=world.workers.run, args=(work,)) for _ in range(WORKER_COUNT)]
    for caller in callers:
        caller.start()
    begun.wait(WAIT_S)
    try:
        yield
    finally:
        gate.set()
        for caller in callers:
            caller.join()


def test_nobody_waits_for_a_worker(served: Served) -> None:
    """503 on every route that needs one, behind 400, 401 and 403 and ahead of the state; all other routes go on."""
    world = served.world
    credential_id = world.issue().credential_id
    account = world.create("ada", credential_id)
    root = world.create("ada", world.master.credential_id, None)
    admin, master = world.admins["acme"].text, world.master.text
    session = world.login("ada").token.text
    login = {"username": "ada", "password": PASSWORD}
    made = {**login, "username": "new"}
    busy = (503, "login_busy")
    with taken_workers(world):
        assert busy == served.refusal("login", tenant_id="acme", **login)
        assert busy == served.refusal("login", tenant_id="nowhere", **login)
        assert busy == served.refusal("admin/login", **login)
        for prefix, key, outsider, bound, account_id in (
            ("", admin, master, credential_id, account.account_id),
            ("admin/", master, admin, world.master.credential_id, root.account_id),
        ):
            create, change = f"{prefix}login-accounts", f"{prefix}login-accounts/{account_id}/password"
            for path, members in (
                (create, {**made, "credential_id": bound}),
                (create, {**login, "credential_id": bound}),
                (change, {"expected_revision": 1, "password": PASSWORD}),
                (change, {"expected_revision": 9, "password": PASSWORD}),
            ):
                assert busy == served.refusal(path, key, **members)
                assert (403, "forbidden") == served.refusal(path, outsider, **members)
                assert (401, "unauthorized") == served.refusal(path, **members)
                assert (400, "invalid_request") == served.refusal(path, **{**members, "password": "short"})
        assert 200 == served.who(session)
        assert 200 == served.post("logout", session)[0]
        assert 200 == served.post(f"login-accounts/{account.account_id}/disable", admin, expected_revision=1)[0]
    assert 200 == served.post("admin/login", **login)[0]


def test_a_session_ends_at_its_millisecond(served: Served) -> None:
    """It works until the announced time, and is unauthorized from then on, for logging out too."""
    world = served.world
    world.create("ada", world.issue().credential_id)
    start_ms = world.clock.now_ms()
    session = served.post("login", tenant_id="acme", username="ada", password=PASSWORD)[1]["session"]
    assert start_ms + SESSION_MILLIS == session["expires_at_millis"]
    world.clock.advance(SESSION_MILLIS - 1)
    assert 200 == served.who(session["token"])
    world.clock.advance(1)
    assert 401 == served.who(session["token"])
    assert (401, "unauthorized") == served.refusal("logout", session["token"])


def test_all_names_together_are_limited(served: Served) -> None:
    """Guessing at many names ends too; a minute later everybody logs in again."""
    world = served.world
    world.create("ada", world.issue().credential_id)
    login = {"tenant_id": "acme", "username": "ada", "password": PASSWORD}
    for index in range(TOTAL_FAILURES_MAX):
        refused = served.refusal("login", **{**login, "username": f"nobody {index}"})
        assert (401, "invalid_login") == refused
    assert (429, "login_rate_limited") == served.refusal("login", **login)
    assert (429, "login_rate_limited") == served.refusal("admin/login", username="ada", password=PASSWORD)
    assert (400, "invalid_request") == served.refusal("login", **{**login, "password": "short"})
    world.attempts_clock.advance(WINDOW_MS)
    assert 200 == served.post("login", **login)[0]

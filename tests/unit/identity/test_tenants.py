"""Companies made and found by global credentials, and the directory of agents, over a store in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest

from services.domain.errors import RevisionConflict, TenantNotFound
from services.domain.scope import Scope
from services.identity.authority import Authority, GlobalPrincipal, Principal
from services.identity.bootstrap import bootstrap_tenant
from services.identity.credential_commands import make_key
from services.identity.credentials import Credential
from services.identity.directory import command_trigger, register_agent, request_trigger
from services.identity.directory_page import Page
from services.identity.list_agents import list_agents
from services.identity.tenants import (
    CreateTenant,
    IssueTenantAdmin,
    TenantCommand,
    apply_tenant_command,
    list_tenants,
    read_tenant,
)
from services.identity.tokens import Token
from services.runtime.identifiers import new_uuid
from services.storage.core import LocalStore
from services.storage.transaction import Transaction, run_transaction
from tests.unit.identity.builders import KEY, issued, master

T = TypeVar("T")


@pytest.fixture
def store() -> Iterator[LocalStore]:
    with LocalStore.in_memory() as opened:
        yield opened


def apply(store: LocalStore, command: TenantCommand) -> Credential:
    principal = GlobalPrincipal(master()[1])
    return run_transaction(store, lambda transaction: apply_tenant_command(transaction, principal, command))


def create(store: LocalStore, tenant_id: str, display_name: str | None = None) -> tuple[Token, Credential]:
    key = make_key(KEY, new_uuid())
    command = CreateTenant(tenant_id=tenant_id, subject_id="root", display_name=display_name, key=key)
    return key.token, apply(store, command)


def read(store: LocalStore, function: Callable[[Transaction], T]) -> T:
    return run_transaction(store, function)


def test_a_created_company_has_an_administrator_and_a_registration(store: LocalStore) -> None:
    """The key works at once; the registration says who and when; the name is left out when there is none."""
    token, credential = create(store, "acme", "Acme Inc.")
    assert read(store, lambda transaction: Authority(KEY).authorize(transaction, token).credential) == credential
    assert credential.spec.as_json() == {
        "subject_id": "root",
        "capabilities": ["credential_admin", "policy_admin"],
        "expires_at_millis": None,
        "grants": [],
    }
    (event,) = credential.history
    assert (event.action, event.actor_id) == ("tenant_registered_by_global_authority", master()[1].credential_id)
    assert read(store, lambda transaction: read_tenant(transaction, "acme")) == {
        "tenant_id": "acme",
        "registration": {
            "schema_version": 1,
            "tenant_id": "acme",
            "created_at_millis": event.at_millis,
            "created_by": master()[1].credential_id,
            "initial_admin_id": credential.credential_id,
            "display_name": "Acme Inc.",
        },
    }
    create(store, "other")
    entry = read(store, lambda transaction: read_tenant(transaction, "other"))
    assert "display_name" not in entry["registration"]


def test_an_existing_company_conflicts(store: LocalStore) -> None:
    """However it was made."""
    create(store, "acme")
    bootstrap_tenant(store, KEY, tenant_id="local", subject_id="root")
    for tenant_id in ("acme", "local"):
        with pytest.raises(RevisionConflict):
            create(store, tenant_id)
    with pytest.raises(RevisionConflict):
        bootstrap_tenant(store, KEY, tenant_id="acme", subject_id="root")


def test_an_appointed_administrator_joins_the_first(store: LocalStore) -> None:
    """In companies made on the host too; an unknown company has none."""
    bootstrap_tenant(store, KEY, tenant_id="local", subject_id="root")
    command = IssueTenantAdmin(tenant_id="local", subject_id="second", key=make_key(KEY, new_uuid()))
    credential = apply(store, command)
    assert [event.action for event in credential.history] == ["admin_issued_by_global_authority"]
    assert (credential.tenant_id, credential.spec.capabilities) == ("local", ("credential_admin", "policy_admin"))
    with pytest.raises(TenantNotFound):
        apply(store, IssueTenantAdmin(tenant_id="nowhere", subject_id="x", key=make_key(KEY, new_uuid())))
    with pytest.raises(TenantNotFound):
        read(store, lambda transaction: read_tenant(transaction, "nowhere"))


def test_companies_are_listed_by_their_names_bytes(store: LocalStore) -> None:
    """Each once over all pages; those made on the host have no registration."""
    names = ["Zeta", "acme", "acme two", "é", "\U0001f41d"]
    for name in reversed(names[1:]):
        create(store, name)
    bootstrap_tenant(store, KEY, tenant_id=names[0], subject_id="root")

    def page(limit: int, after: bytes | None) -> Page[dict[str, Any]]:
        return read(store, lambda transaction: list_tenants(transaction, limit=limit, after=after))

    for limit in (1, 2, 5, 100):
        seen: list[dict[str, Any]] = []
        found = page(limit, None)
        seen += found.items
        while found.next_after is not None:
            found = page(limit, found.next_after)
            seen += found.items
        assert [item["tenant_id"] for item in seen] == names
        assert [item["registration"] is None for item in seen] == [True, False, False, False, False]


def test_agents_are_listed_by_their_ids_bytes(store: LocalStore) -> None:
    """Of the caller's company alone, from any position, existing or not."""
    names = ["B", "a", "aa", "é"]
    acme, other = Principal(issued()[1]), Principal(issued(tenant_id="other")[1])

    def register(transaction: Transaction) -> None:
        for name in reversed(names):
            register_agent(transaction, acme, Scope("p", None, name, "shared"), request_trigger())
        register_agent(transaction, other, Scope("p", None, "b", "private"), command_trigger(new_uuid(), 1, "created"))

    run_transaction(store, register)

    def page(limit: int, after: str | None) -> tuple[list[str], bytes | None]:
        found = read(store, lambda transaction: list_agents(transaction, acme, limit=limit, after_agent_id=after))
        return [item["agent_id"] for item in found.items], found.next_after

    assert page(100, None) == (names, None)
    assert page(2, None) == (["B", "a"], b"a")
    assert page(2, "a") == (["aa", "é"], None)
    assert page(1, "a!") == (["aa"], b"aa")
    assert page(1, "é") == ([], None)

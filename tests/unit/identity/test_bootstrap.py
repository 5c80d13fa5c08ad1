"""The first administrator of a company."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from services.domain.errors import InvalidRequest, RevisionConflict
from services.domain.keys import company_key
from services.domain.scope import IDENTITY_PARTITION
from services.identity.authority import Authority
from services.identity.bootstrap import bootstrap_tenant
from services.identity.credential_commands import RevokeCredential, apply_command
from services.identity.credentials import CREDENTIAL_ADMIN
from services.identity.tokens import parse_token
from services.storage.core import LocalStore
from services.storage.transaction import Transaction, run_transaction
from tests.unit.identity.builders import KEY


@pytest.fixture
def store() -> Iterator[LocalStore]:
    with LocalStore.in_memory() as opened:
        yield opened


def test_the_answer_is_the_documented_object_and_the_secret_works(store: LocalStore) -> None:
    """One administrator, its own actor, whose key authenticates from now on."""
    made = bootstrap_tenant(store, KEY, tenant_id="acme", subject_id="root")
    assert list(made) == ["contract_version", "credential", "secret"]
    credential = made["credential"]
    assert (made["contract_version"], credential["tenant_id"], credential["revision"]) == (1, "acme", 1)
    (event,) = credential["history"]
    assert (event["action"], event["actor_id"]) == ("bootstrapped", credential["id"])
    token = parse_token(made["secret"])
    principal = run_transaction(store, lambda transaction: Authority(KEY).authorize(transaction, token))
    assert principal.credential.as_json() == credential


def test_a_company_is_bootstrapped_once_for_all(store: LocalStore) -> None:
    """Also after its administrator was revoked; another company is independent."""
    token = parse_token(bootstrap_tenant(store, KEY, tenant_id="acme", subject_id="root")["secret"])
    authority = Authority(KEY)

    def revoke(transaction: Transaction) -> None:
        principal = authority.authorize(transaction, token, capabilities=(CREDENTIAL_ADMIN,))
        apply_command(transaction, principal, RevokeCredential(credential_id=token.credential_id, expected_revision=1))

    for step in (lambda: None, lambda: run_transaction(store, revoke)):
        step()
        with pytest.raises(RevisionConflict):
            bootstrap_tenant(store, KEY, tenant_id="acme", subject_id="somebody else")
    assert bootstrap_tenant(store, KEY, tenant_id="ACME", subject_id="root")["credential"]["tenant_id"] == "ACME"


@pytest.mark.parametrize("name", ["", " ", "\u3000", "a\nb", "\x7f", "é" * 129, "a" * 257, "\udcff"])
@pytest.mark.parametrize("member", ["tenant_id", "subject_id"])
def test_names_out_of_bounds_are_invalid(store: LocalStore, name: str, member: str) -> None:
    """Names are 1 to 256 bytes, not blank, without control characters; the member at fault is named."""
    names = {"tenant_id": "acme", "subject_id": "root"} | {member: name}
    with pytest.raises(InvalidRequest) as caught:
        bootstrap_tenant(store, KEY, **names)
    assert caught.value.member == member
    transaction_result = run_transaction(
        store, lambda transaction: transaction.get(IDENTITY_PARTITION, company_key("acme"))
    )
    assert transaction_result is None


def test_names_of_256_bytes_are_accepted(store: LocalStore) -> None:
    """Measured in UTF-8, kept exactly."""
    made = bootstrap_tenant(store, KEY, tenant_id="é" * 128, subject_id=" a ")
    assert (made["credential"]["tenant_id"], made["credential"]["spec"]["subject_id"]) == ("é" * 128, " a ")

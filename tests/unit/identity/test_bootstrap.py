"""The first administrator of a company, and the master."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from services.domain.errors import InvalidRequest, RevisionConflict, Unauthorized
from services.domain.keys import company_key
from services.domain.scope import IDENTITY_PARTITION
from services.identity.authority import Authority, GlobalPrincipal
from services.identity.bootstrap import bootstrap_master, bootstrap_tenant, recover_master
from services.identity.credential_commands import RevokeCredential, apply_command
from services.identity.credentials import CREDENTIAL_ADMIN
from services.identity.global_commands import RevokeGlobal, apply_global_command
from services.identity.global_credentials import GLOBAL_CAPABILITIES
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


def who(store: LocalStore, secret: str) -> GlobalPrincipal:
    return run_transaction(store, lambda transaction: Authority(KEY).authorize_global(transaction, parse_token(secret)))


def test_the_master_is_the_documented_object_and_its_secret_works(store: LocalStore) -> None:
    """Every global capability, no expiry, its own actor."""
    made = bootstrap_master(store, KEY, subject_id="root")
    credential = made["credential"]
    assert (list(made), made["contract_version"]) == (["contract_version", "credential", "secret"], 1)
    assert credential["spec"] == {
        "subject_id": "root",
        "capabilities": list(GLOBAL_CAPABILITIES),
        "expires_at_millis": None,
    }
    assert (credential["is_master"], credential["revision"]) == (True, 1)
    (event,) = credential["history"]
    assert (event["action"], event["actor_id"]) == ("bootstrapped", credential["id"])
    assert who(store, made["secret"]).credential.as_json() == credential


def test_there_is_one_master_for_ever(store: LocalStore) -> None:
    """Also after it was revoked; a company does not matter."""
    bootstrap_tenant(store, KEY, tenant_id="acme", subject_id="root")
    made = bootstrap_master(store, KEY, subject_id="root")
    revoke = RevokeGlobal(credential_id=made["credential"]["id"], expected_revision=1)
    run_transaction(store, lambda transaction: apply_global_command(transaction, who(store, made["secret"]), revoke))
    with pytest.raises(RevisionConflict):
        bootstrap_master(store, KEY, subject_id="somebody else")


def test_a_recovered_master_is_the_same_with_another_secret(store: LocalStore) -> None:
    """One revision on, revoked or not; the old secret is refused."""
    made = bootstrap_master(store, KEY, subject_id="root")
    first = recover_master(store, KEY, expected_revision=1)
    with pytest.raises(Unauthorized):
        who(store, made["secret"])
    revoke = RevokeGlobal(credential_id=made["credential"]["id"], expected_revision=2)
    run_transaction(store, lambda transaction: apply_global_command(transaction, who(store, first["secret"]), revoke))
    second = recover_master(store, KEY, expected_revision=3)
    assert who(store, second["secret"]).credential.as_json() == second["credential"]
    assert second["credential"]["id"] == made["credential"]["id"]
    actions = [event["action"] for event in second["credential"]["history"]]
    assert actions == ["bootstrapped", "recovered_by_local_operator", "revoked", "recovered_by_local_operator"]


def test_recovery_needs_a_master_at_the_expected_revision(store: LocalStore) -> None:
    """Nothing changes otherwise."""
    with pytest.raises(RevisionConflict):
        recover_master(store, KEY, expected_revision=1)
    made = bootstrap_master(store, KEY, subject_id="root")
    with pytest.raises(RevisionConflict):
        recover_master(store, KEY, expected_revision=2)
    assert who(store, made["secret"]).credential.revision == 1

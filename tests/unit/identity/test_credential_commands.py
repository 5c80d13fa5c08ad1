"""Commands on credentials over a store in memory: company boundaries, conflicts, lost answers."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from services.domain.errors import Forbidden, InvalidRequest, RevisionConflict, StorageInconsistency, Unauthorized
from services.domain.keys import credential_key
from services.domain.scope import IDENTITY_PARTITION
from services.identity import directory_page
from services.identity.authority import Authority, Principal
from services.identity.bootstrap import bootstrap_tenant
from services.identity.credential_commands import (
    CredentialCommand,
    IssueCredential,
    ReplaceScopeAuthority,
    RevokeCredential,
    RotateCredential,
    apply_command,
    committed_change,
    make_key,
    read_credential,
)
from services.identity.credentials import CREDENTIAL_ADMIN, Credential, ScopeAuthority
from services.identity.directory_page import Page
from services.identity.list_credentials import list_credentials
from services.identity.tokens import Token, parse_token
from services.runtime.identifiers import new_uuid
from services.storage.contract import Commit, Delete, PartitionCommit
from services.storage.core import LocalStore
from services.storage.transaction import Transaction, run_transaction
from tests.unit.identity.builders import KEY, ForgetfulStore, spec


class Company:
    """A company with its first administrator."""

    def __init__(self, store: LocalStore, tenant_id: str) -> None:
        self.store = ForgetfulStore(store)
        self.authority = Authority(KEY)
        made = bootstrap_tenant(store, KEY, tenant_id=tenant_id, subject_id="root")
        self.admin = parse_token(made["secret"])

    def run(self, command: CredentialCommand, token: Token | None = None) -> Credential:
        """Carry a command out as the service does."""

        def attempt(transaction: Transaction) -> Credential:
            return committed_change(transaction, command) or apply_command(
                transaction, self.authorized(transaction, token), command
            )

        return run_transaction(self.store, attempt)  # type: ignore[arg-type]

    def authorized(self, transaction: Transaction, token: Token | None = None) -> Principal:
        """The administrator."""
        return self.authority.authorize(transaction, token or self.admin, capabilities=(CREDENTIAL_ADMIN,))

    def issue(self, **members: object) -> Token:
        """Issue a credential and return its key."""
        key = make_key(KEY, new_uuid())
        self.run(IssueCredential(spec=spec(**members), key=key))  # type: ignore[arg-type]
        return key.token

    def who(self, token: Token) -> Credential:
        """The credential that a key authenticates as."""
        return run_transaction(
            self.store,
            lambda transaction: self.authority.authorize(transaction, token).credential,  # type: ignore[arg-type]
        )

    def page(self, limit: int, after: bytes | None = None) -> Page[Credential]:
        """A page of the directory."""
        return run_transaction(
            self.store,  # type: ignore[arg-type]
            lambda transaction: list_credentials(transaction, self.authorized(transaction), limit=limit, after=after),
        )


@pytest.fixture
def store() -> Iterator[LocalStore]:
    with LocalStore.in_memory() as opened:
        yield opened


@pytest.fixture
def acme(store: LocalStore) -> Company:
    return Company(store, "acme")


@pytest.fixture
def other(store: LocalStore) -> Company:
    return Company(store, "other")


def commands_on(credential_id: str, expected_revision: int) -> list[CredentialCommand]:
    """One of each command that changes a credential."""
    return [
        RotateCredential(
            credential_id=credential_id, expected_revision=expected_revision, key=make_key(KEY, credential_id)
        ),
        ReplaceScopeAuthority(
            credential_id=credential_id, expected_revision=expected_revision, authority=ScopeAuthority((), None)
        ),
        RevokeCredential(credential_id=credential_id, expected_revision=expected_revision),
    ]


def test_what_is_issued_belongs_to_the_issuers_company(acme: Company) -> None:
    """With the issuer as actor, and its key works at once."""
    token = acme.issue(subject_id="svc")
    credential = acme.who(token)
    assert (credential.tenant_id, credential.spec.subject_id) == ("acme", "svc")
    assert [(event.action, event.actor_id) for event in credential.history] == [("issued", acme.admin.credential_id)]


def test_absent_and_foreign_targets_are_forbidden_alike(acme: Company, other: Company) -> None:
    """An id tells nothing about whether it exists in another company; nothing changes."""
    foreign = acme.issue().credential_id
    refusals = set()
    for credential_id in (foreign, new_uuid()):
        for command in commands_on(credential_id, 1):
            with pytest.raises(Forbidden) as caught:
                other.run(command)
            refusals.add(caught.value.message)
        with pytest.raises(Forbidden) as caught:
            run_transaction(
                other.store,  # type: ignore[arg-type]
                lambda transaction, wanted=credential_id: read_credential(
                    transaction, other.authorized(transaction), wanted
                ),
            )
        refusals.add(caught.value.message)
    assert len(refusals) == 1
    assert [item.revision for item in acme.page(10).items] == [1, 1]


@pytest.mark.parametrize("index", range(3))
def test_a_change_whose_answer_was_lost_is_found_not_repeated(acme: Company, index: int) -> None:
    """The caller gets the credential at the revision that it made, exactly once."""
    target = acme.issue()
    command = commands_on(target.credential_id, 1)[index]
    acme.store.loses = True
    assert acme.run(command).revision == 2
    (stored,) = (item for item in acme.page(10).items if item.credential_id == target.credential_id)
    assert stored.revision == 2


@pytest.mark.parametrize("index", [0, 2])
def test_an_administrator_who_changes_its_own_key_gets_the_answer_even_when_it_was_lost(
    acme: Company, index: int
) -> None:
    """Although its old key no longer authenticates on the rerun."""
    command = commands_on(acme.admin.credential_id, 1)[index]
    acme.store.loses = True
    assert acme.run(command).revision == 2
    with pytest.raises(Unauthorized):
        acme.who(acme.admin)


def test_an_issue_whose_answer_was_lost_makes_one_credential(acme: Company) -> None:
    """And the secret that is returned works."""
    acme.store.loses = True
    token = acme.issue()
    assert acme.who(token).revision == 1
    assert len(acme.page(10).items) == 2


def test_of_concurrent_changes_at_one_revision_one_wins(acme: Company) -> None:
    """All others conflict, those with the same effect too."""
    target = acme.issue()
    commands = [command for _ in range(4) for command in commands_on(target.credential_id, 1)[:2]]
    gate = Barrier(len(commands))

    def attempt(command: CredentialCommand) -> str:
        gate.wait()
        try:
            return acme.run(command).change_id
        except RevisionConflict as refusal:
            return refusal.reason

    with ThreadPoolExecutor(len(commands)) as pool:
        outcomes = list(pool.map(attempt, commands))
    (stored,) = (item for item in acme.page(10).items if item.credential_id == target.credential_id)
    assert sorted(outcomes) == sorted([stored.change_id] + ["revision_conflict"] * 7)
    assert stored.revision == 2


def test_a_credential_without_credential_admin_administers_nothing(acme: Company) -> None:
    """Not even itself."""
    token = acme.issue(capabilities=("policy_admin", "memory_read", "memory_write"))
    for command in commands_on(token.credential_id, 1):
        with pytest.raises(Forbidden):
            acme.run(command, token)
    with pytest.raises(Forbidden):
        acme.run(IssueCredential(spec=spec(), key=make_key(KEY, new_uuid())), token)


def test_pages_show_each_credential_of_the_company_once(acme: Company, other: Company) -> None:
    """In ascending order of ids, revoked ones included, none of another company."""
    tokens = [acme.issue() for _ in range(6)]
    other.issue()
    acme.run(commands_on(tokens[0].credential_id, 1)[2])
    expected = sorted([acme.admin.credential_id, *(token.credential_id for token in tokens)])
    for limit in (1, 2, 3, 7, 100):
        seen: list[str] = []
        after: bytes | None = None
        while True:
            page = acme.page(limit, after)
            seen += [item.credential_id for item in page.items]
            after = page.next_after
            if after is None:
                break
            assert len(page.items) == limit
        assert seen == expected


def test_a_page_over_four_mebibytes_is_invalid(acme: Company, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lower limit reads the same directory."""
    acme.issue()
    monkeypatch.setattr(directory_page, "PAGE_BYTES_MAX", 600)
    with pytest.raises(InvalidRequest) as caught:
        acme.page(2)
    assert caught.value.member == "limit"
    assert len(acme.page(1).items) == 1


def test_a_directory_entry_without_its_credential_is_an_inconsistency(acme: Company, store: LocalStore) -> None:
    """A lost credential is never left out in silence."""
    token = acme.issue()
    lost = Delete(credential_key(token.credential_id))
    store.commit(Commit([PartitionCommit(IDENTITY_PARTITION, writes=[lost])]))
    with pytest.raises(StorageInconsistency):
        acme.page(10)

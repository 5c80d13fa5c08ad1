"""Accounts over a store in memory: owners, credentials, revisions, lost answers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from services.domain import keys
from services.domain.errors import Forbidden, InvalidRequest, RevisionConflict, StorageInconsistency
from services.domain.scope import IDENTITY_PARTITION
from services.identity.credential_commands import RevokeCredential
from services.identity.login_account_commands import ChangeLoginPassword, CreateLoginAccount, DisableLoginAccount
from services.identity.login_accounts import LoginAccount, decode_account, encode_account
from services.identity.login_directory import list_accounts, read_account
from services.runtime.identifiers import new_uuid
from services.storage.transaction import Transaction, run_transaction
from tests.unit.identity.login_world import CHEAP, PASSWORD, LoginWorld

ABSENT = "00000000-0000-4000-8000-00000000dead"


@pytest.fixture
def world() -> Iterator[LoginWorld]:
    made = LoginWorld()
    yield made
    made.close()


def changes(account_id: str, expected_revision: int) -> list[ChangeLoginPassword | DisableLoginAccount]:
    """One of each command that changes an account."""
    return [
        ChangeLoginPassword(account_id=account_id, expected_revision=expected_revision, password_hash="h"),
        DisableLoginAccount(account_id=account_id, expected_revision=expected_revision),
    ]


def read(world: LoginWorld, account_id: str, company: str | None = "acme") -> LoginAccount:
    return run_transaction(world.local, lambda transaction: read_account(transaction, company, account_id))


def usernames(world: LoginWorld, company: str | None, limit: int = 100, after: bytes | None = None) -> list[str]:
    page = run_transaction(
        world.local, lambda transaction: list_accounts(transaction, company, limit=limit, after=after)
    )
    return [account.username for account in page.items]


def test_the_life_of_an_account(world: LoginWorld) -> None:
    """Created, password changed, disabled: a revision and an event each, by the acting administrator."""
    credential = world.issue()
    created = world.create("ada", credential.credential_id)
    world.clock.advance(5)
    changed = world.run(changes(created.account_id, 1)[0])
    world.clock.advance(5)
    disabled = world.run(changes(created.account_id, 2)[1])
    assert read(world, created.account_id) == disabled
    assert (created.revision, changed.revision, disabled.revision) == (1, 2, 3)
    assert (changed.password_hash, changed.disabled_at_millis) == ("h", None)
    assert disabled.disabled_at_millis == world.clock.now_ms()
    actions = ["login_account_created", "login_password_changed", "login_account_disabled"]
    start = world.clock.now_ms() - 10
    assert disabled.as_json() == {
        "id": created.account_id,
        "username": "ada",
        "authority": {"kind": "tenant", "tenant_id": "acme"},
        "credential_id": credential.credential_id,
        "revision": 3,
        "disabled_at_millis": start + 10,
        "history": [
            {
                "revision": index + 1,
                "action": action,
                "actor_id": world.admins["acme"].credential_id,
                "at_millis": start + 5 * index,
            }
            for index, action in enumerate(actions)
        ],
    }
    assert decode_account(encode_account(disabled)) == disabled


def test_neither_representation_nor_document_holds_the_hash(world: LoginWorld) -> None:
    """Not even hashed does a password leave the store; commands do not show it either."""
    account = world.create("ada", world.issue().credential_id)
    command = CreateLoginAccount(username="x", credential_id=ABSENT, password_hash="$argon2id$secret")
    for text in (repr(account), str(account.as_json()), repr(command), repr(changes(ABSENT, 1)[0])):
        assert "argon2" not in text
        assert "password_hash" not in text


def test_a_disabled_account_stays_as_it_is(world: LoginWorld) -> None:
    """Every change is forbidden, whatever revision it expects, and the user name stays taken."""
    credential_id = world.issue().credential_id
    account = world.create("ada", credential_id)
    disabled = world.run(changes(account.account_id, 1)[1])
    for revision in (1, 2):
        for command in changes(account.account_id, revision):
            with pytest.raises(Forbidden):
                world.run(command)
    with pytest.raises(RevisionConflict) as caught:
        world.create("ada", credential_id)
    assert caught.value.member == "username"
    assert read(world, account.account_id) == disabled


@pytest.mark.parametrize("revision", [2, 3])
def test_a_stale_revision_changes_nothing(world: LoginWorld, revision: int) -> None:
    """The member at fault is named."""
    account = world.create("ada", world.issue().credential_id)
    for command in changes(account.account_id, revision):
        with pytest.raises(RevisionConflict) as caught:
            world.run(command)
        assert caught.value.member == "expected_revision"
    assert read(world, account.account_id) == account


def test_owners_do_not_see_each_other(world: LoginWorld) -> None:
    """One user name in two companies and above both is three accounts; a foreign id is like one that never was."""
    accounts = {
        "acme": world.create("ada", world.issue().credential_id),
        "other": world.create("ada", world.issue("other").credential_id, "other"),
        None: world.create("ada", world.master.credential_id, None),
    }
    assert accounts[None].as_json()["authority"] == {"kind": "global"}
    for owner in accounts:
        assert usernames(world, owner) == ["ada"]
        for other, account in accounts.items():
            if other == owner:
                continue
            with pytest.raises(Forbidden) as foreign:
                read(world, account.account_id, owner)
            with pytest.raises(Forbidden) as absent:
                read(world, ABSENT, owner)
            assert str(foreign.value) == str(absent.value)
            for command in changes(account.account_id, 1):
                with pytest.raises(Forbidden):
                    world.run(command, owner)


def test_only_credentials_within_reach_are_bound(world: LoginWorld) -> None:
    """Unknown, foreign, global for a company, revoked: forbidden and all alike; expired: invalid."""
    revoked = world.issue()
    world.change(RevokeCredential(credential_id=revoked.credential_id, expected_revision=1))
    foreign = world.issue("other").credential_id
    said = set()
    for credential_id in (ABSENT, foreign, world.master.credential_id, revoked.credential_id):
        with pytest.raises(Forbidden) as refused:
            world.create("ada", credential_id)
        said.add(str(refused.value))
    with pytest.raises(Forbidden):
        world.create("ada", foreign, None)
    assert len(said) == 1
    expiring = world.issue(expires_at_millis=world.clock.now_ms() + 10)
    world.clock.advance(9)
    world.create("in time", expiring.credential_id)
    world.clock.advance(1)
    with pytest.raises(InvalidRequest) as late:
        world.create("ada", expiring.credential_id)
    assert late.value.member == "credential_id"
    assert usernames(world, "acme") == ["in time"]


def test_the_list_is_in_the_order_of_utf8_bytes(world: LoginWorld) -> None:
    """Page by page, each once, disabled ones included."""
    credential_id = world.issue().credential_id
    names = ["Z", "a", "a b", "é", "\U0001f41d"]
    for name in reversed(names):
        account = world.create(name, credential_id)
    world.run(changes(account.account_id, 1)[1])
    assert usernames(world, "acme") == names
    assert usernames(world, "acme", limit=2) == names[:2]
    assert usernames(world, "acme", limit=2, after=names[1].encode()) == names[2:4]


def test_a_lost_answer_is_found(world: LoginWorld) -> None:
    """The change happens once and its outcome comes back."""
    credential_id = world.issue().credential_id
    account_id = new_uuid()
    create = CreateLoginAccount(
        username="ada", credential_id=credential_id, password_hash=CHEAP.hash(PASSWORD), account_id=account_id
    )
    for revision, command in enumerate([create, *changes(account_id, 1)[:1], *changes(account_id, 2)[1:]], 1):
        world.store.loses = True
        assert world.run(command).revision == revision
        assert not world.store.loses
    assert [event.revision for event in read(world, account_id).history] == [1, 2, 3]


def test_what_is_no_account_is_told_as_such() -> None:
    """As damage of the store."""
    with pytest.raises(StorageInconsistency):
        decode_account(b'{"id":"x"}')


def test_an_account_lies_under_its_own_name_and_id(world: LoginWorld) -> None:
    """A value under the key of another, or an id that leads elsewhere, is damage of the store."""
    credential_id = world.issue().credential_id
    ada, eve = world.create("ada", credential_id), world.create("eve", credential_id)

    def swap(transaction: Transaction) -> None:
        transaction.put(IDENTITY_PARTITION, keys.login_account_key("acme", "ada"), encode_account(eve))

    run_transaction(world.local, swap)
    with pytest.raises(StorageInconsistency):
        usernames(world, "acme")
    with pytest.raises(StorageInconsistency):
        read(world, ada.account_id)
    with pytest.raises(StorageInconsistency):
        world.login("ada")

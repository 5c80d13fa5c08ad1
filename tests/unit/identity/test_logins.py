"""Logging in and out over a store in memory: what opens a session, what ends it, what is refused, and how alike."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from services.domain.errors import InvalidLogin, LoginBusy, LoginRateLimited, StorageInconsistency, Unauthorized
from services.identity.attempt_window import NAME_FAILURES_MAX, WINDOW_MS
from services.identity.credential_commands import ReplaceScopeAuthority, RevokeCredential, RotateCredential, make_key
from services.identity.credentials import ScopeAuthority
from services.identity.login_account_commands import ChangeLoginPassword, DisableLoginAccount
from services.identity.logins import OpenedSession
from services.identity.password_workers import WORKER_COUNT
from services.identity.sessions import SESSION_MILLIS
from services.identity.tokens import parse_token
from tests.unit.identity.login_world import CHEAP, PASSWORD, LoginWorld

WAIT_S = 20.0


@pytest.fixture
def world() -> Iterator[LoginWorld]:
    made = LoginWorld()
    yield made
    made.close()


@pytest.fixture
def opened(world: LoginWorld) -> OpenedSession:
    """A session of "ada"."""
    world.create("ada", world.issue().credential_id)
    return world.login("ada")


def test_a_session_acts_with_the_bound_credential(world: LoginWorld, opened: OpenedSession) -> None:
    """Its token is one of a company's sessions, and works from the text that is handed out."""
    token = parse_token(opened.token.text)
    assert token.kind == "company_session"
    assert world.who(token) == opened.account.credential_id == token.credential_id


def test_a_global_account_opens_a_global_session(world: LoginWorld) -> None:
    """It acts with the bound global credential; a company's account of that name has no part in it."""
    world.create("ada", world.master.credential_id, None)
    token = world.login("ada", company=None).token
    assert (token.kind, world.who(token)) == ("global_session", world.master.credential_id)
    with pytest.raises(InvalidLogin):
        world.login("ada")


@pytest.mark.parametrize(
    ("lifetime_ms", "expected_ms"),
    [
        (None, SESSION_MILLIS),
        (SESSION_MILLIS + 1, SESSION_MILLIS),
        (SESSION_MILLIS - 1, SESSION_MILLIS - 1),
        (20, 20),
    ],
)
def test_a_session_ends_to_the_millisecond(world: LoginWorld, lifetime_ms: int | None, expected_ms: int) -> None:
    """After fifteen minutes, or with the bound credential: it works in the millisecond before and not in the next."""
    start_ms = world.clock.now_ms()
    expires_at = None if lifetime_ms is None else start_ms + lifetime_ms
    world.create("ada", world.issue(expires_at_millis=expires_at).credential_id)
    opened = world.login("ada")
    assert opened.session.expires_at_millis == start_ms + expected_ms
    assert SESSION_MILLIS == 15 * 60 * 1000
    world.clock.advance(expected_ms - 1)
    world.who(opened.token)
    world.clock.advance(1)
    with pytest.raises(Unauthorized):
        world.who(opened.token)


def revoke(world: LoginWorld, opened: OpenedSession) -> None:
    world.change(RevokeCredential(credential_id=opened.account.credential_id, expected_revision=1))


def rotate(world: LoginWorld, opened: OpenedSession) -> None:
    credential_id = opened.account.credential_id
    world.change(
        RotateCredential(credential_id=credential_id, expected_revision=1, key=make_key(bytes(32), credential_id))
    )


def rescope(world: LoginWorld, opened: OpenedSession) -> None:
    command = ReplaceScopeAuthority(
        credential_id=opened.account.credential_id, expected_revision=1, authority=ScopeAuthority((), None)
    )
    world.change(command)


def change_password(world: LoginWorld, opened: OpenedSession) -> None:
    command = ChangeLoginPassword(
        account_id=opened.account.account_id, expected_revision=1, password_hash=CHEAP.hash("another password")
    )
    world.run(command)


def disable(world: LoginWorld, opened: OpenedSession) -> None:
    world.run(DisableLoginAccount(account_id=opened.account.account_id, expected_revision=1))


def log_out(world: LoginWorld, opened: OpenedSession) -> None:
    world.logins.close(opened.token)


End = Callable[[LoginWorld, OpenedSession], None]


@pytest.mark.parametrize("end", [revoke, rotate, rescope, change_password, disable, log_out])
def test_a_session_is_ended(world: LoginWorld, opened: OpenedSession, end: End) -> None:
    """By logout, by any change of its account, and by any change of its credential: on the next request."""
    world.who(opened.token)
    end(world, opened)
    with pytest.raises(Unauthorized):
        world.who(opened.token)


@pytest.mark.parametrize("end", [change_password, disable, log_out])
def test_others_keep_their_sessions(world: LoginWorld, opened: OpenedSession, end: End) -> None:
    """Another account with the same credential is not touched when an account changes or one session logs out."""
    world.create("bob", opened.account.credential_id)
    other = world.login("bob")
    end(world, opened)
    assert world.who(other.token) == opened.account.credential_id


def test_logging_out_leaves_other_sessions_of_the_account(world: LoginWorld, opened: OpenedSession) -> None:
    """A person may be logged in twice; a change of the password ends both."""
    second = world.login("ada")
    third = world.login("ada")
    world.logins.close(second.token)
    world.who(opened.token)
    change_password(world, opened)
    for one in (opened, third):
        with pytest.raises(Unauthorized):
            world.who(one.token)


def test_only_living_sessions_log_out(world: LoginWorld, opened: OpenedSession) -> None:
    """A permanent key, another secret, an expired session and one that has logged out are unauthorized."""
    for token in (world.admins["acme"], world.master, world.login("ada").token):
        if token.session_id is not None:
            world.clock.advance(SESSION_MILLIS)
        with pytest.raises(Unauthorized):
            world.logins.close(token)
    fresh = world.login("ada").token
    forged = parse_token(fresh.text[:-1] + ("A" if fresh.text[-1] != "A" else "B"))
    with pytest.raises(Unauthorized):
        world.logins.close(forged)
    world.logins.close(fresh)
    with pytest.raises(Unauthorized):
        world.logins.close(fresh)


def test_a_lost_answer_is_found(world: LoginWorld, opened: OpenedSession) -> None:
    """A login opens one session and a logout ends it, also when the answer of the commit was lost."""
    world.store.loses = True
    second = world.login("ada")
    assert not world.store.loses
    assert world.session_count(opened.account.credential_id) == 2
    world.who(second.token)
    world.store.loses = True
    world.logins.close(second.token)
    assert not world.store.loses
    assert world.session_count(opened.account.credential_id) == 1


def refusal(call: Callable[[], object]) -> InvalidLogin:
    with pytest.raises(InvalidLogin) as caught:
        call()
    return caught.value


def test_every_failed_login_is_alike(world: LoginWorld) -> None:
    """Unknown company, unknown name, wrong password, disabled account, ended credential: one answer, one comparison."""
    gone, here = world.issue(), world.issue()
    world.create("ada", here.credential_id)
    world.create("eve", gone.credential_id)
    disabled = world.create("bob", here.credential_id)
    expiring = world.issue(expires_at_millis=world.clock.now_ms() + 5)
    world.create("exp", expiring.credential_id)
    world.run(DisableLoginAccount(account_id=disabled.account_id, expected_revision=1))
    world.change(RevokeCredential(credential_id=gone.credential_id, expected_revision=1))
    world.clock.advance(5)
    failures = [
        refusal(lambda: world.login("ada", company="nowhere")),
        refusal(lambda: world.login("nobody")),
        refusal(lambda: world.login("ada", PASSWORD.upper())),
        refusal(lambda: world.login("ada", company="other")),
        refusal(lambda: world.login("ada", company=None)),
        refusal(lambda: world.login("Ada")),
        refusal(lambda: world.login("bob")),
        refusal(lambda: world.login("eve")),
        refusal(lambda: world.login("exp")),
    ]
    assert {(failure.message, failure.member) for failure in failures} == {("the login failed", None)}
    assert len(world.passwords.compared) == len(failures)


def test_the_way_to_a_refusal_is_the_same_for_unknown_names(world: LoginWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many requests to the store, for as many keys, as for a wrong password."""
    world.create("ada", world.issue().credential_id)
    requests: list[int] = []
    read = type(world.local).read

    def counted(self, partitions, **options):  # type: ignore[no-untyped-def]
        requests.append(sum(len(part.keys) for part in partitions))
        return read(self, partitions, **options)

    monkeypatch.setattr(type(world.local), "read", counted)
    ways = []
    for name in ("ada", "nobody"):
        requests.clear()
        refusal(lambda name=name: world.login(name, "wrong password"))  # type: ignore[misc]
        ways.append(list(requests))
    assert ways == [[1], [1]]


def test_failures_of_a_name_are_limited(world: LoginWorld) -> None:
    """The one beyond the bound is refused without a comparison, the right password included, for a minute."""
    world.create("ada", world.issue().credential_id)
    for name in ("ada", "nobody"):
        for _ in range(NAME_FAILURES_MAX):
            refusal(lambda name=name: world.login(name, "wrong password"))  # type: ignore[misc]
        compared = len(world.passwords.compared)
        with pytest.raises(LoginRateLimited):
            world.login(name)
        assert len(world.passwords.compared) == compared
    world.attempts_clock.advance(WINDOW_MS - 1)
    with pytest.raises(LoginRateLimited):
        world.login("ada")
    world.attempts_clock.advance(1)
    world.login("ada")


def test_successes_are_not_limited(world: LoginWorld) -> None:
    """Nor do they wipe failures away."""
    world.create("ada", world.issue().credential_id)
    for _ in range(NAME_FAILURES_MAX - 1):
        refusal(lambda: world.login("ada", "wrong password"))
    for _ in range(2 * NAME_FAILURES_MAX):
        world.login("ada")
    refusal(lambda: world.login("ada", "wrong password"))
    with pytest.raises(LoginRateLimited):
        world.login("ada")


def test_what_went_wrong_otherwise_does_not_count(world: LoginWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a busy worker nor trouble of the store brings a name nearer to its limit."""
    world.create("ada", world.issue().credential_id)

    def fail(*_: object) -> bool:
        raise StorageInconsistency("broken")

    with monkeypatch.context() as broken:
        broken.setattr(world.passwords, "is_right", fail)
        for _ in range(2 * NAME_FAILURES_MAX):
            with pytest.raises(StorageInconsistency):
                world.login("ada")
    gate, begun = threading.Event(), threading.Barrier(WORKER_COUNT + 1)

    def occupy() -> None:
        begun.wait(WAIT_S)
        gate.wait(WAIT_S)

    callers = [threading.Thread(target=world.workers.run, args=(occupy,)) for _ in range(WORKER_COUNT)]
    for caller in callers:
        caller.start()
    begun.wait(WAIT_S)
    for _ in range(2 * NAME_FAILURES_MAX):
        with pytest.raises(LoginBusy):
            world.login("ada")
    gate.set()
    for caller in callers:
        caller.join()
    world.login("ada")


def test_an_account_that_changes_during_the_login_opens_nothing(
    world: LoginWorld, opened: OpenedSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The password was right when it was compared; the session would outlive the change that ended all of them."""
    compare = world.passwords.is_right

    def changed_meanwhile(password: str, password_hash: str | None) -> bool:
        change_password(world, opened)
        return compare(password, password_hash)

    monkeypatch.setattr(world.passwords, "is_right", changed_meanwhile)
    refusal(lambda: world.login("ada"))
    assert world.session_count(opened.account.credential_id) == 0


def test_sessions_that_are_over_do_not_pile_up(world: LoginWorld) -> None:
    """Each login takes some of them away; those that live stay."""
    credential_id = world.issue().credential_id
    world.create("ada", credential_id)
    for _ in range(30):
        world.login("ada")
    world.clock.advance(SESSION_MILLIS)
    living = [world.login("ada") for _ in range(30)]
    assert world.session_count(credential_id) < 60
    for one in living:
        world.who(one.token)

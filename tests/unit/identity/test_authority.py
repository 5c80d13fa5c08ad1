"""Authorization of one request."""

from __future__ import annotations

import pytest

from services.domain import keys
from services.domain.errors import Forbidden, StorageInconsistency, Unauthorized
from services.domain.records import Author
from services.domain.scope import IDENTITY_PARTITION, Scope, Workspace
from services.identity import authority as authority_module
from services.identity.authority import Authority, bearer_token
from services.identity.credentials import Credential, ScopeAuthority
from services.identity.global_credentials import TENANT_CREATE, TENANT_INSPECT, revoke_global
from services.identity.tokens import Token, token_from_random, verifier_of
from services.identity.transitions import replace_scope_authority, revoke_credential, rotate_credential
from tests.unit.identity.builders import (
    KEY,
    NOW_MS,
    SHARED,
    MemoryReader,
    change,
    issued,
    issued_global,
    master,
    open_policy,
    opened_session,
    spec,
)

READ = ("memory_read",)


@pytest.fixture
def reader() -> MemoryReader:
    """An empty identity partition."""
    return MemoryReader()


@pytest.fixture
def authority() -> Authority:
    """The authority of a process."""
    return Authority(KEY)


def test_a_principal_is_who_the_credential_says(reader: MemoryReader, authority: Authority) -> None:
    """Company, subject and author come from the credential; private workspaces belong to the subject."""
    token, credential = issued()
    reader.hold(credential)
    principal = authority.authorize(reader, token, capabilities=READ, scope=SHARED)
    private = Scope("p1", None, "a1", "private")
    assert (principal.company_id, principal.subject_id, principal.credential_revision) == ("acme", "svc", 1)
    assert principal.author == Author(token.credential_id, "svc")
    assert principal.workspace(SHARED) == Workspace("acme", SHARED, None)
    assert principal.workspace(private) == Workspace("acme", private, "svc")


def test_unknown_and_wrong_keys_are_unauthorized(reader: MemoryReader, authority: Authority) -> None:
    """An unknown credential, another secret, and a verifier made under another key."""
    token, credential = issued()
    with pytest.raises(Unauthorized):
        authority.authorize(reader, token)
    reader.hold(credential)
    with pytest.raises(Unauthorized):
        authority.authorize(reader, Token(token.credential_id, "A" * 43))
    with pytest.raises(Unauthorized):
        Authority(bytes(32)).authorize(reader, token)
    assert authority.authorize(reader, token).subject_id == "svc"


def test_revocation_takes_effect_on_the_next_request(reader: MemoryReader, authority: Authority) -> None:
    """Although the credential was seen before."""
    token, credential = issued()
    reader.hold(credential)
    authority.authorize(reader, token)
    reader.hold(revoke_credential(credential, 1, change()))
    with pytest.raises(Unauthorized):
        authority.authorize(reader, token)


def test_a_rotated_secret_takes_effect_on_the_next_request(reader: MemoryReader, authority: Authority) -> None:
    """The old key is refused, the new one accepted."""
    token, credential = issued()
    reader.hold(credential)
    authority.authorize(reader, token)
    fresh = token_from_random(token.credential_id, b"\xfe" * 32)
    reader.hold(rotate_credential(credential, 1, verifier_of(KEY, fresh), change()))
    with pytest.raises(Unauthorized):
        authority.authorize(reader, token)
    assert authority.authorize(reader, fresh).credential_revision == 2


def test_expiry_is_judged_on_the_clock_of_the_snapshot(reader: MemoryReader, authority: Authority) -> None:
    """Valid one millisecond before, expired at the very one."""
    token, credential = issued(spec(expires_at_millis=NOW_MS + 100))
    reader.hold(credential)
    reader.clock_ms = NOW_MS + 99
    assert authority.authorize(reader, token).credential_id == token.credential_id
    reader.clock_ms = NOW_MS + 100
    with pytest.raises(Unauthorized):
        authority.authorize(reader, token)


def test_capabilities_are_independent_and_all_needed(reader: MemoryReader, authority: Authority) -> None:
    """credential_admin implies nothing; one of two is not enough."""
    token, credential = issued(spec(capabilities=("credential_admin", "memory_write")))
    reader.hold(credential)
    assert authority.authorize(reader, token, capabilities=("memory_write",), scope=SHARED).company_id == "acme"
    for needed in (READ, ("memory_write", "memory_read"), ("policy_admin",)):
        with pytest.raises(Forbidden):
            authority.authorize(reader, token, capabilities=needed, scope=SHARED)


@pytest.mark.parametrize(
    "scope",
    [
        Scope("p2", "m1", "a1", "shared"),
        Scope("p1", None, "a1", "shared"),
        Scope("p1", "m2", "a1", "shared"),
        Scope("p1", "null", "a1", "shared"),
        Scope("p1", "m1", "A1", "shared"),
        Scope("p1", "m1", "a1", "private"),
        Scope("p1m1", "", "a1", "shared"),
    ],
)
def test_grants_are_exact(reader: MemoryReader, authority: Authority, scope: Scope) -> None:
    """A grant is its exact tuple: no missing mission matches a set one, nor the other way, and case counts."""
    token, credential = issued()
    reader.hold(credential)
    with pytest.raises(Forbidden):
        authority.authorize(reader, token, capabilities=READ, scope=scope)


def test_a_missionless_grant_is_no_wildcard(reader: MemoryReader, authority: Authority) -> None:
    """It grants the missionless scope alone."""
    missionless = Scope("p1", None, "a1", "shared")
    token, credential = issued(spec(grants=(missionless,)))
    reader.hold(credential)
    assert authority.authorize(reader, token, scope=missionless).company_id == "acme"
    with pytest.raises(Forbidden):
        authority.authorize(reader, token, scope=SHARED)


def test_no_grants_without_a_policy_reach_no_data(reader: MemoryReader, authority: Authority) -> None:
    """While routes without a scope still work."""
    token, credential = issued(spec(grants=()))
    reader.hold(credential)
    assert authority.authorize(reader, token, capabilities=READ).subject_id == "svc"
    with pytest.raises(Forbidden):
        authority.authorize(reader, token, capabilities=READ, scope=SHARED)


def test_a_policy_gives_the_partition_that_a_grant_would(reader: MemoryReader, authority: Authority) -> None:
    """How a scope was allowed leaves no mark on where it leads."""
    by_grant, granted = issued(seed=1)
    by_policy, policied = issued(spec(grants=(), scope_policy=open_policy()), seed=2)
    reader.hold(granted)
    reader.hold(policied)
    partitions = {
        authority.authorize(reader, token, scope=SHARED).workspace(SHARED).partition for token in (by_grant, by_policy)
    }
    assert len(partitions) == 1


def test_failures_are_judged_in_order(reader: MemoryReader, authority: Authority) -> None:
    """A revoked credential without capability and scope is 401; one without capability and scope is 403."""
    token, credential = issued(spec(grants=()))
    reader.hold(credential)
    with pytest.raises(Forbidden):
        authority.authorize(reader, token, capabilities=("memory_write",), scope=SHARED)
    reader.hold(revoke_credential(credential, 1, change()))
    with pytest.raises(Unauthorized):
        authority.authorize(reader, token, capabilities=("memory_write",), scope=SHARED)


def test_refusals_tell_a_stranger_nothing(reader: MemoryReader, authority: Authority) -> None:
    """Unknown, wrong secret, revoked and expired read alike."""
    token, credential = issued(spec(expires_at_millis=NOW_MS + 1))
    messages = set()
    for stored, clock_ms in (
        (None, NOW_MS),
        (credential, NOW_MS + 1),
        (revoke_credential(credential, 1, change()), NOW_MS),
        (rotate_credential(credential, 1, bytes(32), change()), NOW_MS),
    ):
        reader.values.clear()
        reader.clock_ms = clock_ms
        if stored is not None:
            reader.hold(stored)
        with pytest.raises(Unauthorized) as caught:
            authority.authorize(reader, token)
        messages.add(caught.value.message)
    assert len(messages) == 1


def test_a_credential_under_the_key_of_another_is_an_inconsistency(reader: MemoryReader, authority: Authority) -> None:
    """Swapped values are noticed."""
    token, credential = issued()
    other, _ = issued(seed=2)
    reader.hold(credential)
    stored = reader.values.pop((IDENTITY_PARTITION, keys.credential_key(token.credential_id)))
    reader.put(IDENTITY_PARTITION, keys.credential_key(other.credential_id), stored)
    with pytest.raises(StorageInconsistency):
        authority.authorize(reader, other)


def test_the_first_round_of_a_known_caller_holds_everything(reader: MemoryReader, authority: Authority) -> None:
    """A stranger's partition is unknown until it is authorized; afterwards one read is enough."""
    token, credential = issued()
    reader.hold(credential)
    key = keys.credential_key(token.credential_id)
    unknown = authority.first_round(token, SHARED, registers=True)
    assert (unknown.keys, unknown.workspace) == ({IDENTITY_PARTITION: [key]}, None)
    authority.authorize(reader, token)
    workspace = Workspace("acme", SHARED, None)
    reading = authority.first_round(token, SHARED)
    writing = authority.first_round(token, SHARED, registers=True)
    assert reading.workspace == workspace
    assert reading.keys == {IDENTITY_PARTITION: [key], workspace.partition: []}
    assert writing.keys == {
        IDENTITY_PARTITION: [key, keys.agent_key("acme", "a1")],
        workspace.partition: [keys.WORKSPACE],
    }
    assert authority.first_round(token, None).keys == {IDENTITY_PARTITION: [key]}


def test_what_is_remembered_stays_bounded(
    reader: MemoryReader, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many credentials push the oldest out, and pushing out changes no decision."""
    monkeypatch.setattr(authority_module, "_FACTS_MAX", 3)
    monkeypatch.setattr(authority_module, "_PARSED_BYTES_MAX", 1)
    small = Authority(KEY)
    tokens = []
    for seed in range(1, 8):
        token, credential = issued(seed=seed)
        reader.hold(credential)
        tokens.append(token)
    for token in tokens * 2:
        assert small.authorize(reader, token, scope=SHARED).credential_id == token.credential_id
    known = [small.first_round(token, SHARED).workspace is not None for token in tokens]
    assert known == [False] * 4 + [True] * 3


def test_exactly_one_authorization_entry_is_needed() -> None:
    """None, two, and a binary one are refused; other metadata does not matter."""
    token, _ = issued()
    entry = ("authorization", f"Bearer {token.text}")
    assert bearer_token([("x-request-id", "r"), entry]) == token
    for metadata in ([], [entry, entry], [("authorization", entry[1].encode())], [("Authorization", entry[1])]):
        with pytest.raises(Unauthorized):
            bearer_token(metadata)


def test_a_verifier_key_of_another_length_is_refused() -> None:
    """A truncated key file must not weaken verifiers."""
    with pytest.raises(ValueError, match="32 bytes"):
        Authority(b"short")


def test_global_and_company_keys_are_forbidden_to_each_other(reader: MemoryReader, authority: Authority) -> None:
    """A valid key of the wrong authority is 403; one that is not valid is 401, whatever it claims to be."""
    company, credential = issued()
    above, root = master()
    with pytest.raises(Unauthorized):
        authority.authorize(reader, above)
    with pytest.raises(Unauthorized):
        authority.authorize_global(reader, company)
    reader.hold(credential)
    reader.hold_global(root)
    with pytest.raises(Forbidden):
        authority.authorize(reader, above, capabilities=READ, scope=SHARED)
    with pytest.raises(Forbidden):
        authority.authorize_global(reader, company)
    assert authority.authorize_global(reader, above).credential == root
    disguised = Token(company.credential_id, company.secret, is_global=True)
    with pytest.raises(Unauthorized):
        authority.authorize_global(reader, disguised)


def test_global_capabilities_are_all_needed_and_the_master_is_one(reader: MemoryReader, authority: Authority) -> None:
    """A delegate with every capability is still not the master."""
    above, root = master()
    partial, inspector = issued_global(TENANT_INSPECT, seed=91)
    full, delegate = issued_global(seed=92)
    for credential in (root, inspector, delegate):
        reader.hold_global(credential)
    assert authority.authorize_global(reader, partial, capabilities=(TENANT_INSPECT,)).credential == inspector
    with pytest.raises(Forbidden):
        authority.authorize_global(reader, partial, capabilities=(TENANT_INSPECT, TENANT_CREATE))
    with pytest.raises(Forbidden):
        authority.authorize_global(reader, full, is_master=True)
    assert authority.authorize_global(reader, above, is_master=True).credential == root


def test_global_revocation_and_expiry_take_effect_at_once(reader: MemoryReader, authority: Authority) -> None:
    """At the very millisecond, on the clock of the snapshot."""
    token, credential = issued_global(expires_at_millis=NOW_MS + 10)
    reader.hold_global(credential)
    reader.clock_ms = NOW_MS + 9
    authority.authorize_global(reader, token)
    reader.clock_ms = NOW_MS + 10
    with pytest.raises(Unauthorized):
        authority.authorize_global(reader, token)
    reader.clock_ms = NOW_MS
    reader.hold_global(revoke_global(credential, 1, change()))
    with pytest.raises(Unauthorized):
        authority.authorize_global(reader, token)


def test_a_session_acts_with_its_credential(reader: MemoryReader, authority: Authority) -> None:
    """Same principal, same scopes, same capabilities, until its own end."""
    _, credential = issued()
    token, session = opened_session(credential, expires_at_millis=NOW_MS + 10)
    reader.hold(credential)
    with pytest.raises(Unauthorized):
        authority.authorize(reader, token)
    reader.hold_session(session)
    assert authority.authorize(reader, token, capabilities=READ, scope=SHARED).credential == credential
    with pytest.raises(Forbidden):
        authority.authorize(reader, token, capabilities=("memory_write",))
    with pytest.raises(Forbidden):
        authority.authorize_global(reader, token)
    reader.clock_ms = NOW_MS + 10
    with pytest.raises(Unauthorized):
        authority.authorize(reader, token)


@pytest.mark.parametrize(
    "changed",
    [
        revoke_credential(issued()[1], 1, change()),
        rotate_credential(issued()[1], 1, issued()[1].verifier, change()),
        replace_scope_authority(issued()[1], 1, ScopeAuthority((), None), change()),
    ],
)
def test_any_change_of_the_credential_ends_its_sessions(
    reader: MemoryReader, authority: Authority, changed: Credential
) -> None:
    """Revocation, rotation and another scope authority, on the next request."""
    _, credential = issued()
    token, session = opened_session(credential)
    reader.hold(credential)
    reader.hold_session(session)
    authority.authorize(reader, token)
    reader.hold(changed)
    with pytest.raises(Unauthorized):
        authority.authorize(reader, token)


def test_the_secret_of_a_session_is_its_own(reader: MemoryReader, authority: Authority) -> None:
    """Neither another secret nor the credential's own opens it."""
    key, credential = issued()
    token, session = opened_session(credential)
    reader.hold(credential)
    reader.hold_session(session)
    for secret in ("A" * 43, key.secret):
        with pytest.raises(Unauthorized):
            authority.authorize(reader, Token(token.credential_id, secret, session_id=token.session_id))
    with pytest.raises(Unauthorized):
        authority.authorize(reader, Token(token.credential_id, token.secret))


def test_a_global_session_acts_on_global_administration_only(reader: MemoryReader, authority: Authority) -> None:
    """With the bound credential's authority."""
    _, root = master()
    token, session = opened_session(root)
    reader.hold_global(root)
    reader.hold_session(session)
    assert authority.authorize_global(reader, token, is_master=True).credential == root
    with pytest.raises(Forbidden):
        authority.authorize(reader, token)


def test_one_round_is_enough_for_a_session_too(reader: MemoryReader, authority: Authority) -> None:
    """Its value is the last of the identity partition, behind what registration needs."""
    _, credential = issued()
    token, session = opened_session(credential)
    reader.hold(credential)
    reader.hold_session(session)
    authority.authorize(reader, token)
    workspace = Workspace("acme", SHARED, None)
    assert authority.first_round(token, SHARED, registers=True).keys == {
        IDENTITY_PARTITION: [
            keys.credential_key(token.credential_id),
            keys.agent_key("acme", "a1"),
            keys.session_key(session.credential_id, session.session_id),
        ],
        workspace.partition: [keys.WORKSPACE],
    }

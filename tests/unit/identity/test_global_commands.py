"""Commands of global administrators: delegation without growth, the master apart."""

from __future__ import annotations

from itertools import pairwise

import pytest

from services.domain.errors import Forbidden, InvalidRequest, RevisionConflict
from services.identity.authority import GlobalPrincipal
from services.identity.global_commands import (
    IssueGlobal,
    RevokeGlobal,
    RotateGlobal,
    apply_global_command,
    committed_global_change,
    make_global_key,
    read_global,
)
from services.identity.global_credentials import (
    GLOBAL_CAPABILITIES,
    GLOBAL_CREDENTIAL_ADMIN,
    TENANT_ADMIN,
    TENANT_CREATE,
    TENANT_INSPECT,
    GlobalCredential,
    GlobalSpec,
    decode_global_credential,
    encode_global_credential,
)
from services.runtime.identifiers import new_uuid
from tests.unit.identity.builders import KEY, NOW_MS, MemoryReader, issued_global, master


@pytest.fixture
def reader() -> MemoryReader:
    """A store with the master."""
    reader = MemoryReader()
    reader.hold_global(master()[1])
    return reader


def issue(reader: MemoryReader, issuer: GlobalCredential, spec: GlobalSpec) -> GlobalCredential:
    command = IssueGlobal(spec=spec, key=make_global_key(KEY, new_uuid()))
    return apply_global_command(reader, GlobalPrincipal(issuer), command)


def test_an_issued_credential_is_no_master(reader: MemoryReader) -> None:
    """Even with every capability; its issuer is the actor, and it is found again by its change."""
    command = IssueGlobal(spec=GlobalSpec("svc", GLOBAL_CAPABILITIES, None), key=make_global_key(KEY, new_uuid()))
    assert committed_global_change(reader, command) is None
    made = apply_global_command(reader, GlobalPrincipal(master()[1]), command)
    assert (made.is_master, made.revision) == (False, 1)
    assert [(event.action, event.actor_id) for event in made.history] == [("issued", master()[1].credential_id)]
    assert committed_global_change(reader, command) == made


@pytest.mark.parametrize("capability", [TENANT_CREATE, TENANT_ADMIN])
def test_nobody_issues_what_it_does_not_hold(reader: MemoryReader, capability: str) -> None:
    """Capabilities are independent."""
    _, delegate = issued_global(GLOBAL_CREDENTIAL_ADMIN, TENANT_INSPECT)
    assert issue(reader, delegate, GlobalSpec("x", (TENANT_INSPECT,), None)).spec.capabilities == (TENANT_INSPECT,)
    with pytest.raises(Forbidden):
        issue(reader, delegate, GlobalSpec("x", (TENANT_INSPECT, capability), None))


def test_only_global_credential_admin_issues(reader: MemoryReader) -> None:
    """Every other capability together is not enough."""
    _, other = issued_global(TENANT_CREATE, TENANT_ADMIN, TENANT_INSPECT)
    with pytest.raises(Forbidden):
        issue(reader, other, GlobalSpec("x", (TENANT_INSPECT,), None))


def test_nobody_outlives_its_issuer(reader: MemoryReader) -> None:
    """Not even by a millisecond, nor by having no expiry; an expiry that has come is invalid."""
    _, delegate = issued_global(expires_at_millis=NOW_MS + 100)
    assert issue(reader, delegate, GlobalSpec("x", (TENANT_INSPECT,), NOW_MS + 100)).revision == 1
    for expires_at in (None, NOW_MS + 101):
        with pytest.raises(Forbidden):
            issue(reader, delegate, GlobalSpec("x", (TENANT_INSPECT,), expires_at))
    with pytest.raises(InvalidRequest) as caught:
        issue(reader, delegate, GlobalSpec("x", (TENANT_INSPECT,), NOW_MS))
    assert caught.value.member == "spec.expires_at_millis"


def test_a_delegate_sees_and_changes_only_what_it_exceeds(reader: MemoryReader) -> None:
    """A target with a capability more, an absent one, and the master are out of reach."""
    _, delegate = issued_global(GLOBAL_CREDENTIAL_ADMIN, TENANT_INSPECT, seed=91)
    _, equal = issued_global(GLOBAL_CREDENTIAL_ADMIN, TENANT_INSPECT, seed=92)
    _, greater = issued_global(GLOBAL_CREDENTIAL_ADMIN, TENANT_INSPECT, TENANT_CREATE, seed=93)
    for credential in (delegate, equal, greater):
        reader.hold_global(credential)
    principal = GlobalPrincipal(delegate)
    assert read_global(reader, principal, equal.credential_id) == equal
    for credential_id in (greater.credential_id, master()[1].credential_id, new_uuid()):
        with pytest.raises(Forbidden):
            read_global(reader, principal, credential_id)
        with pytest.raises(Forbidden):
            apply_global_command(reader, principal, RevokeGlobal(credential_id=credential_id, expected_revision=1))
    revoked = apply_global_command(
        reader, principal, RevokeGlobal(credential_id=equal.credential_id, expected_revision=1)
    )
    assert revoked.revoked_at_millis == NOW_MS


def test_a_delegate_with_every_capability_may_read_but_not_change_the_master(reader: MemoryReader) -> None:
    """Rotation and revocation of the master are its own."""
    root = master()[1]
    _, delegate = issued_global()
    assert read_global(reader, GlobalPrincipal(delegate), root.credential_id) == root
    for command in changes(root.credential_id, 1):
        with pytest.raises(Forbidden):
            apply_global_command(reader, GlobalPrincipal(delegate), command)
    assert apply_global_command(reader, GlobalPrincipal(root), changes(root.credential_id, 1)[0]).revision == 2


def test_everyone_may_rotate_and_revoke_itself(reader: MemoryReader) -> None:
    """Without any capability over credentials; a revoked one stays as it is."""
    _, inspector = issued_global(TENANT_INSPECT)
    reader.hold_global(inspector)
    rotate, revoke = changes(inspector.credential_id, 1)
    rotated = apply_global_command(reader, GlobalPrincipal(inspector), rotate)
    assert (rotated.revision, rotated.spec) == (2, inspector.spec)
    with pytest.raises(RevisionConflict):
        apply_global_command(reader, GlobalPrincipal(rotated), revoke)
    revoked = apply_global_command(reader, GlobalPrincipal(rotated), changes(inspector.credential_id, 2)[1])
    assert [event.action for event in revoked.history] == ["issued", "rotated", "revoked"]
    for command in changes(inspector.credential_id, 3):
        with pytest.raises(Forbidden):
            apply_global_command(reader, GlobalPrincipal(master()[1]), command)
    assert decode_global_credential(encode_global_credential(revoked)) == revoked


def test_histories_ascend_by_one(reader: MemoryReader) -> None:
    """Whoever makes the revisions."""
    root = master()[1]
    for revision in range(1, 5):
        root = apply_global_command(reader, GlobalPrincipal(root), changes(root.credential_id, revision)[0])
    assert all(after.revision == before.revision + 1 for before, after in pairwise(root.history))
    assert root.history[-1].revision == root.revision


def changes(credential_id: str, expected_revision: int) -> tuple[RotateGlobal, RevokeGlobal]:
    """A rotation and a revocation."""
    return (
        RotateGlobal(
            credential_id=credential_id,
            expected_revision=expected_revision,
            key=make_global_key(KEY, credential_id),
        ),
        RevokeGlobal(credential_id=credential_id, expected_revision=expected_revision),
    )

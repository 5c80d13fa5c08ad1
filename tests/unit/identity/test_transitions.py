"""Transitions of credentials, each row of the documented rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from services.domain.errors import Forbidden, InvalidRequest, RevisionConflict, StorageInconsistency
from services.domain.scope import Scope
from services.identity import transitions
from services.identity.credentials import (
    CAPABILITIES,
    Credential,
    ScopeAuthority,
    decode_credential,
    encode_credential,
    spec_from_json,
)
from services.identity.transitions import (
    bootstrap_credential,
    replace_scope_authority,
    revoke_credential,
    rotate_credential,
)
from tests.unit.identity.builders import ADMIN_ID, NOW_MS, SHARED, change, issued, open_policy, spec

PRIVATE = Scope("p1", None, "a1", "private")
LATER = change(NOW_MS + 5, "00000000-0000-4000-8000-00000000c4a7")


def credential(**members: Any) -> Credential:
    """An issued credential."""
    return issued(spec(**members))[1]


def revoked() -> Credential:
    """An issued credential that was revoked at revision 2."""
    return revoke_credential(credential(), 1, LATER)


def test_there_are_the_sixteen_documented_capabilities() -> None:
    """All distinct."""
    assert len(set(CAPABILITIES)) == len(CAPABILITIES) == 16


def test_the_sanitised_view_is_the_documented_object() -> None:
    """An issued credential shows everything but its verifier; a policy that was never set is left out."""
    assert credential().as_json() == {
        "id": "00000000-0000-0000-0000-000000000001",
        "tenant_id": "acme",
        "spec": {
            "subject_id": "svc",
            "capabilities": ["memory_read"],
            "grants": [{"project_id": "p1", "mission_id": "m1", "agent_id": "a1", "visibility": "shared"}],
            "expires_at_millis": None,
        },
        "revision": 1,
        "revoked_at_millis": None,
        "history": [{"revision": 1, "action": "issued", "actor_id": ADMIN_ID, "at_millis": NOW_MS}],
    }


def test_the_first_administrator_has_no_data() -> None:
    """credential_admin and policy_admin, no grants, action bootstrapped."""
    made = bootstrap_credential(ADMIN_ID, "acme", "root", b"v" * 32, change()).as_json()
    assert made["spec"] == {
        "subject_id": "root",
        "capabilities": ["credential_admin", "policy_admin"],
        "grants": [],
        "expires_at_millis": None,
    }
    assert [event["action"] for event in made["history"]] == ["bootstrapped"]


@pytest.mark.parametrize("expires_at_millis", [NOW_MS, NOW_MS - 1, 0, -(2**63)])
def test_issuing_what_has_already_expired_is_invalid(expires_at_millis: int) -> None:
    """The expiry is the first millisecond at which the credential no longer works."""
    with pytest.raises(InvalidRequest) as caught:
        credential(expires_at_millis=expires_at_millis)
    assert caught.value.member == "spec.expires_at_millis"
    assert credential(expires_at_millis=NOW_MS + 1).is_active(NOW_MS)


@pytest.mark.parametrize(
    ("members", "member"),
    [
        ({"scope_policy": open_policy()}, "spec.grants"),
        ({"scope_policy": open_policy(), "grants": (), "capabilities": ("credential_admin",)}, "spec.scope_policy"),
    ],
)
def test_a_policy_stands_alone(members: dict[str, Any], member: str) -> None:
    """No grants beside it, and not on a credential administrator."""
    with pytest.raises(InvalidRequest) as caught:
        credential(**members)
    assert caught.value.member == member


def test_repeated_capabilities_and_grants_count_once() -> None:
    """They are sets; the first order is kept."""
    read = spec_from_json(
        {
            "subject_id": "s",
            "capabilities": ["memory_write", "memory_read", "memory_write"],
            "grants": [SHARED.as_json(), PRIVATE.as_json(), SHARED.as_json()],
        }
    )
    assert (read.capabilities, read.authority.grants) == (("memory_write", "memory_read"), (SHARED, PRIVATE))


def test_rotation_changes_the_secret_alone() -> None:
    """Company, subject, grants, capabilities and expiry stay; revision and history advance."""
    before = credential(expires_at_millis=NOW_MS + 10)
    after = rotate_credential(before, 1, b"n" * 32, LATER)
    assert (after.tenant_id, after.spec, after.revoked_at_millis) == (before.tenant_id, before.spec, None)
    assert (after.revision, after.verifier) == (2, b"n" * 32)
    assert after.as_json()["history"][1] == {
        "revision": 2,
        "action": "rotated",
        "actor_id": ADMIN_ID,
        "at_millis": NOW_MS + 5,
    }


def test_rotation_never_revives() -> None:
    """A revoked credential is refused, an expired one stays expired."""
    with pytest.raises(Forbidden):
        rotate_credential(revoked(), 2, b"n" * 32, LATER)
    expired = rotate_credential(credential(expires_at_millis=NOW_MS + 1), 1, b"n" * 32, LATER)
    assert not expired.is_active(NOW_MS + 5)


def test_revocation_is_for_good() -> None:
    """It notes the time, ends the credential, keeps its verifier, and cannot be repeated."""
    after = revoked()
    assert (after.revision, after.revoked_at_millis, after.history[-1].action) == (2, NOW_MS + 5, "revoked")
    assert after.is_active(NOW_MS + 5) is False
    with pytest.raises(Forbidden):
        revoke_credential(after, 2, LATER)


def test_scope_authority_is_replaced_as_a_whole() -> None:
    """Secret, subject, capabilities and expiry stay; the event tells what was and what is."""
    before = credential(expires_at_millis=NOW_MS + 10)
    policy = open_policy()
    after = replace_scope_authority(before, 1, ScopeAuthority((), policy), LATER)
    assert after.verifier == before.verifier
    assert after.spec == replace(before.spec, authority=ScopeAuthority((), policy))
    assert after.as_json()["spec"]["scope_policy"] == policy.as_json()
    assert after.as_json()["history"][1]["scope_authority_change"] == {
        "previous": {"grants": [SHARED.as_json()]},
        "current": {"grants": [], "scope_policy": policy.as_json()},
    }
    assert "scope_authority_change" not in after.as_json()["history"][0]


def test_scope_authority_of_an_expired_credential_is_invalid() -> None:
    """400, while a revoked one is 403."""
    with pytest.raises(InvalidRequest):
        replace_scope_authority(credential(expires_at_millis=NOW_MS + 5), 1, ScopeAuthority((), None), LATER)
    with pytest.raises(Forbidden):
        replace_scope_authority(revoked(), 2, ScopeAuthority((), None), LATER)


def test_scope_authority_keeps_a_policy_off_administrators() -> None:
    """The rule of issuance holds for replacement too."""
    with pytest.raises(InvalidRequest) as caught:
        replace_scope_authority(
            credential(capabilities=("credential_admin",)), 1, ScopeAuthority((), open_policy()), LATER
        )
    assert caught.value.member == "authority.scope_policy"


def test_scope_authority_is_refused_when_the_history_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """A credential never outgrows a directory page."""
    monkeypatch.setattr(transitions, "CREDENTIAL_BYTES_MAX", 500)
    with pytest.raises(InvalidRequest) as caught:
        replace_scope_authority(credential(), 1, ScopeAuthority((PRIVATE,), None), LATER)
    assert caught.value.member == "authority"


@pytest.mark.parametrize("expected_revision", [2, 2**64 - 1])
def test_a_stale_expected_revision_conflicts(expected_revision: int) -> None:
    """On every transition, and nothing changes."""
    before = credential()
    for attempt in (
        lambda: rotate_credential(before, expected_revision, b"n" * 32, LATER),
        lambda: revoke_credential(before, expected_revision, LATER),
        lambda: replace_scope_authority(before, expected_revision, ScopeAuthority((), None), LATER),
    ):
        with pytest.raises(RevisionConflict) as caught:
            attempt()
        assert caught.value.member == "expected_revision"
    assert before == credential()


def test_the_stored_form_round_trips() -> None:
    """Verifier, change id, policy and history survive."""
    value = replace_scope_authority(credential(expires_at_millis=2**62), 1, ScopeAuthority((), open_policy()), LATER)
    assert decode_credential(encode_credential(value)) == value


@pytest.mark.parametrize("stored", [b"", b"{}", b"[]", b"null", b'{"id":1', encode_credential(credential())[:-9]])
def test_a_broken_stored_form_is_an_inconsistency(stored: bytes) -> None:
    """It is never taken for an absent or empty credential."""
    with pytest.raises(StorageInconsistency):
        decode_credential(stored)


def test_representations_hide_the_verifier() -> None:
    """A credential in a traceback shows no verifier."""
    assert "verifier" not in repr(credential())

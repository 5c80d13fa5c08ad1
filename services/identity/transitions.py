"""The legal transitions of a company credential.

Each is a pure function from one credential to the next, one revision higher, with one event more in its history.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from services.domain.canonical_json import canonical_bytes
from services.domain.errors import Forbidden, InvalidRequest
from services.identity.credentials import (
    CREDENTIAL_ADMIN,
    POLICY_ADMIN,
    Credential,
    CredentialSpec,
    ScopeAuthority,
    ScopeAuthorityEvent,
)
from services.identity.history import Change, add_revision, check_revision, first_event, next_revision

CREDENTIAL_BYTES_MAX: Final = 2 * 1024 * 1024
"""Greatest canonical size of the sanitised view after a replacement of scope authority. It keeps every credential,
with thousands of later rotations, below the 4 MiB of a directory page."""


def issue_credential(
    credential_id: str, tenant_id: str, spec: CredentialSpec, verifier: bytes, change: Change
) -> Credential:
    """Make a credential at revision 1.

    Raises:
        InvalidRequest: The expiry has already come, or a policy does not stand alone.
    """
    check_scope_authority(spec.capabilities, spec.authority, member="spec")
    if spec.expires_at_millis is not None and spec.expires_at_millis <= change.at_millis:
        raise InvalidRequest("must be in the future", member="spec.expires_at_millis")
    return _first_revision(credential_id, tenant_id, spec, verifier, change, "issued")


def bootstrap_credential(
    credential_id: str, tenant_id: str, subject_id: str, verifier: bytes, change: Change
) -> Credential:
    """Make the first administrator of a company, for the operator on the host."""
    return _administrator(credential_id, tenant_id, subject_id, verifier, change, "bootstrapped")


def appoint_administrator(
    credential_id: str, tenant_id: str, subject_id: str, verifier: bytes, change: Change, *, is_first: bool
) -> Credential:
    """Make an administrator of a company for a global authority; the first one comes with the company."""
    action = "tenant_registered_by_global_authority" if is_first else "admin_issued_by_global_authority"
    return _administrator(credential_id, tenant_id, subject_id, verifier, change, action)


def _administrator(
    credential_id: str, tenant_id: str, subject_id: str, verifier: bytes, change: Change, action: str
) -> Credential:
    # credential_admin and policy_admin, no data, no expiry.
    spec = CredentialSpec(subject_id, (CREDENTIAL_ADMIN, POLICY_ADMIN), ScopeAuthority((), None), None)
    return _first_revision(credential_id, tenant_id, spec, verifier, change, action)


def _first_revision(
    credential_id: str, tenant_id: str, spec: CredentialSpec, verifier: bytes, change: Change, action: str
) -> Credential:
    history = (first_event(action, change),)
    return Credential(credential_id, tenant_id, spec, 1, None, history, verifier, change.change_id)


def rotate_credential(credential: Credential, expected_revision: int, verifier: bytes, change: Change) -> Credential:
    """Replace the secret; everything else stays. An expired credential stays expired.

    Raises:
        Forbidden: Revoked.
        RevisionConflict: `expected_revision` is not the present one.
    """
    _check_changeable(credential, expected_revision)
    return next_revision(replace(credential, verifier=verifier), "rotated", change)


def revoke_credential(credential: Credential, expected_revision: int, change: Change) -> Credential:
    """End the credential for good.

    Raises:
        Forbidden: Already revoked.
        RevisionConflict: `expected_revision` is not the present one.
    """
    _check_changeable(credential, expected_revision)
    return next_revision(replace(credential, revoked_at_millis=change.at_millis), "revoked", change)


def replace_scope_authority(
    credential: Credential, expected_revision: int, authority: ScopeAuthority, change: Change
) -> Credential:
    """Replace grants and policy as a whole; secret, subject, capabilities and expiry stay.

    Raises:
        Forbidden: Revoked.
        RevisionConflict: `expected_revision` is not the present one.
        InvalidRequest: Expired, a policy does not stand alone, or the history has grown beyond CREDENTIAL_BYTES_MAX.
    """
    check_scope_authority(credential.spec.capabilities, authority, member="authority")
    _check_changeable(credential, expected_revision)
    if credential.is_expired(change.at_millis):
        raise InvalidRequest("the credential has expired")
    event = ScopeAuthorityEvent(
        credential.revision + 1,
        "scope_authority_changed",
        change.actor_id,
        change.at_millis,
        previous=credential.spec.authority,
        current=authority,
    )
    spec = replace(credential.spec, authority=authority)
    changed = add_revision(replace(credential, spec=spec), event, change)
    if len(canonical_bytes(changed.as_json())) > CREDENTIAL_BYTES_MAX:
        raise InvalidRequest("the credential's history is full; issue another credential instead", member="authority")
    return changed


def _check_changeable(credential: Credential, expected_revision: int) -> None:
    if credential.revoked_at_millis is not None:
        raise Forbidden("the credential is revoked")
    check_revision(credential, expected_revision, noun="credential")


def check_scope_authority(capabilities: tuple[str, ...], authority: ScopeAuthority, *, member: str) -> None:
    """Check that a policy stands alone: no grants beside it, and not on a credential administrator.

    Args:
        capabilities: Of the credential.
        authority: Proposed authority.
        member: Path of the object that holds the authority, "spec" or "authority".

    Raises:
        InvalidRequest: It does not.
    """
    if authority.scope_policy is None:
        return
    if authority.grants:
        raise InvalidRequest("must be empty beside a scope policy", member=f"{member}.grants")
    if CREDENTIAL_ADMIN in capabilities:
        raise InvalidRequest("does not go together with credential_admin", member=f"{member}.scope_policy")

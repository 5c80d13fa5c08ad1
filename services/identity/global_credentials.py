"""Global credentials: the documented object, its stored form, and its legal transitions.

The master is made by the operator on the host, once. It holds every capability; whatever others hold was issued to them
by somebody who held it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

from services.domain.canonical_json import canonical_bytes, parse_canonical
from services.domain.errors import Forbidden, InvalidRequest, StorageInconsistency
from services.identity.history import Change, Event, check_revision, event_from_json, first_event, next_revision

TENANT_CREATE: Final = "tenant_create"
TENANT_INSPECT: Final = "tenant_inspect"
TENANT_ADMIN: Final = "tenant_admin"
GLOBAL_CREDENTIAL_ADMIN: Final = "global_credential_admin"

GLOBAL_CAPABILITIES: Final = (TENANT_CREATE, TENANT_INSPECT, TENANT_ADMIN, GLOBAL_CREDENTIAL_ADMIN)
"""The documented capability words. None implies another."""


@dataclass(frozen=True, slots=True)
class GlobalSpec:
    """Who acts, what for, until when.

    Attributes:
        subject_id: The subject.
        capabilities: Distinct words of GLOBAL_CAPABILITIES, at least one.
        expires_at_millis: First millisecond at which the credential no longer works; None for no expiry.
    """

    subject_id: str
    capabilities: tuple[str, ...]
    expires_at_millis: int | None

    def as_json(self) -> dict[str, Any]:
        """The documented object."""
        return {
            "subject_id": self.subject_id,
            "capabilities": list(self.capabilities),
            "expires_at_millis": self.expires_at_millis,
        }


@dataclass(frozen=True, slots=True)
class GlobalCredential:
    """A global credential at one revision.

    Attributes:
        credential_id: Canonical UUID text.
        spec: What it may do.
        revision: From 1.
        revoked_at_millis: When it was revoked; None while it is not.
        history: One event for each revision, ascending.
        is_master: Whether it is the operator's.
        verifier: Keyed stand-in of the present secret, 32 bytes; never shown.
        change_id: UUID of the change that made this revision; never shown.
    """

    credential_id: str
    spec: GlobalSpec
    revision: int
    revoked_at_millis: int | None
    history: tuple[Event, ...]
    is_master: bool
    verifier: bytes = field(repr=False)
    change_id: str = field(repr=False)

    def is_active(self, now_ms: int) -> bool:
        """Whether the credential works at this time of the store's clock."""
        expires_at = self.spec.expires_at_millis
        return self.revoked_at_millis is None and (expires_at is None or now_ms < expires_at)

    def holds_all_of(self, other: GlobalCredential) -> bool:
        """Whether it has every capability of another one."""
        return set(other.spec.capabilities) <= set(self.spec.capabilities)

    def as_json(self) -> dict[str, Any]:
        """The documented, sanitised object."""
        return {
            "id": self.credential_id,
            "spec": self.spec.as_json(),
            "revision": self.revision,
            "revoked_at_millis": self.revoked_at_millis,
            "history": [event.as_json() for event in self.history],
            "is_master": self.is_master,
        }


def bootstrap_master(credential_id: str, subject_id: str, verifier: bytes, change: Change) -> GlobalCredential:
    """Make the master at revision 1: every capability, no expiry."""
    spec = GlobalSpec(subject_id, GLOBAL_CAPABILITIES, None)
    return _first_revision(credential_id, spec, verifier, change, "bootstrapped", is_master=True)


def issue_global(
    issuer: GlobalCredential, credential_id: str, spec: GlobalSpec, verifier: bytes, change: Change
) -> GlobalCredential:
    """Make a global credential at revision 1, never with more than its issuer has.

    Raises:
        Forbidden: The issuer lacks a capability of it, or it would outlive its issuer.
        InvalidRequest: Its expiry has already come.
    """
    missing = [capability for capability in spec.capabilities if capability not in issuer.spec.capabilities]
    if missing:
        raise Forbidden(f"the issuer itself lacks the capability {missing[0]}")
    bound, expires_at = issuer.spec.expires_at_millis, spec.expires_at_millis
    if bound is not None and (expires_at is None or expires_at > bound):
        raise Forbidden("the credential would outlive its issuer", member="spec.expires_at_millis")
    if expires_at is not None and expires_at <= change.at_millis:
        raise InvalidRequest("must be in the future", member="spec.expires_at_millis")
    return _first_revision(credential_id, spec, verifier, change, "issued", is_master=False)


def rotate_global(
    credential: GlobalCredential, expected_revision: int, verifier: bytes, change: Change
) -> GlobalCredential:
    """Replace the secret; everything else stays.

    Raises:
        Forbidden: Revoked.
        RevisionConflict: `expected_revision` is not the present one.
    """
    _check_changeable(credential, expected_revision)
    return next_revision(replace(credential, verifier=verifier), "rotated", change)


def revoke_global(credential: GlobalCredential, expected_revision: int, change: Change) -> GlobalCredential:
    """End the credential. Only a master comes back, by recovery on the host.

    Raises:
        Forbidden: Already revoked.
        RevisionConflict: `expected_revision` is not the present one.
    """
    _check_changeable(credential, expected_revision)
    return next_revision(replace(credential, revoked_at_millis=change.at_millis), "revoked", change)


def recover_master(
    credential: GlobalCredential, expected_revision: int, verifier: bytes, change: Change
) -> GlobalCredential:
    """Give the master a new secret, also when it was revoked: there can be no other.

    Raises:
        RevisionConflict: `expected_revision` is not the present one.
    """
    check_revision(credential, expected_revision, noun="credential")
    recovered = replace(credential, verifier=verifier, revoked_at_millis=None)
    return next_revision(recovered, "recovered_by_local_operator", change)


def encode_global_credential(credential: GlobalCredential) -> bytes:
    """Stored form: the sanitised object with verifier (hexadecimal) and change id."""
    return canonical_bytes(
        {**credential.as_json(), "verifier": credential.verifier.hex(), "change_id": credential.change_id}
    )


def decode_global_credential(stored: bytes) -> GlobalCredential:
    """Read the stored form.

    Raises:
        StorageInconsistency: It is not one.
    """
    try:
        value = parse_canonical(stored)
        spec = value["spec"]
        return GlobalCredential(
            value["id"],
            GlobalSpec(spec["subject_id"], tuple(spec["capabilities"]), spec["expires_at_millis"]),
            value["revision"],
            value["revoked_at_millis"],
            tuple(event_from_json(event) for event in value["history"]),
            value["is_master"],
            bytes.fromhex(value["verifier"]),
            value["change_id"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise StorageInconsistency("a stored global credential cannot be read") from error


def _first_revision(
    credential_id: str, spec: GlobalSpec, verifier: bytes, change: Change, action: str, *, is_master: bool
) -> GlobalCredential:
    history = (first_event(action, change),)
    return GlobalCredential(credential_id, spec, 1, None, history, is_master, verifier, change.change_id)


def _check_changeable(credential: GlobalCredential, expected_revision: int) -> None:
    if credential.revoked_at_millis is not None:
        raise Forbidden("the credential is revoked")
    check_revision(credential, expected_revision, noun="credential")

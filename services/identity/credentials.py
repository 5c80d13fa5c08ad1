"""Company credentials: the documented object and its stored form. `transitions` says how one becomes the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from services.domain.canonical_json import canonical_bytes, parse_canonical
from services.domain.errors import StorageInconsistency
from services.domain.scope import Scope, scope_from_json
from services.identity.history import Event, event_from_json
from services.identity.scope_policy import ScopePolicy, policy_from_json

MEMORY_READ: Final = "memory_read"
MEMORY_WRITE: Final = "memory_write"
MEMORY_REVIEW: Final = "memory_review"
MEMORY_CHECKPOINT: Final = "memory_checkpoint"
CREDENTIAL_ADMIN: Final = "credential_admin"
POLICY_ADMIN: Final = "policy_admin"

CAPABILITIES: Final = (
    MEMORY_READ,
    MEMORY_WRITE,
    "procedure_propose",
    "procedure_evaluate",
    POLICY_ADMIN,
    CREDENTIAL_ADMIN,
    "tool_read",
    "tool_develop",
    "tool_report",
    "tool_admin",
    "experience_read",
    "experience_write",
    "experience_report",
    MEMORY_REVIEW,
    MEMORY_CHECKPOINT,
    "learning_metadata_read",
)
"""The documented capability words. None implies another."""


@dataclass(frozen=True, slots=True)
class ScopeAuthority:
    """What data a credential may reach: exact scopes, or a policy (then `grants` is empty)."""

    grants: tuple[Scope, ...]
    scope_policy: ScopePolicy | None

    def as_json(self) -> dict[str, Any]:
        """The documented object; `scope_policy` is left out when there is none."""
        value: dict[str, Any] = {"grants": [grant.as_json() for grant in self.grants]}
        if self.scope_policy is not None:
            value["scope_policy"] = self.scope_policy.as_json()
        return value


def scope_authority_from_json(value: Mapping[str, Any]) -> ScopeAuthority:
    """Read the documented object. Repeated grants count once."""
    policy = value.get("scope_policy")
    grants = dict.fromkeys(scope_from_json(grant) for grant in value["grants"])
    return ScopeAuthority(tuple(grants), None if policy is None else policy_from_json(policy))


@dataclass(frozen=True, slots=True)
class CredentialSpec:
    """Who acts, what for, on what data, until when.

    Attributes:
        subject_id: The subject; private memory belongs to it.
        capabilities: Distinct words of CAPABILITIES, at least one.
        authority: Reachable scopes.
        expires_at_millis: First millisecond at which the credential no longer works; None for no expiry.
    """

    subject_id: str
    capabilities: tuple[str, ...]
    authority: ScopeAuthority
    expires_at_millis: int | None

    def as_json(self) -> dict[str, Any]:
        """The documented object."""
        return {
            "subject_id": self.subject_id,
            "capabilities": list(self.capabilities),
            "expires_at_millis": self.expires_at_millis,
            **self.authority.as_json(),
        }


def spec_from_json(value: Mapping[str, Any]) -> CredentialSpec:
    """Read the documented object. Repeated capabilities and grants count once."""
    return CredentialSpec(
        value["subject_id"],
        tuple(dict.fromkeys(value["capabilities"])),
        scope_authority_from_json(value),
        value.get("expires_at_millis"),
    )


@dataclass(frozen=True, slots=True)
class ScopeAuthorityEvent(Event):
    """The entry of scope_authority_changed, with what the credential reached before and after."""

    previous: ScopeAuthority
    current: ScopeAuthority

    def as_json(self) -> dict[str, Any]:
        """The documented object."""
        change = {"previous": self.previous.as_json(), "current": self.current.as_json()}
        return {**Event.as_json(self), "scope_authority_change": change}


def _event_from_json(value: Mapping[str, Any]) -> Event:
    event, change = event_from_json(value), value.get("scope_authority_change")
    if change is None:
        return event
    previous, current = (scope_authority_from_json(change[name]) for name in ("previous", "current"))
    return ScopeAuthorityEvent(event.revision, event.action, event.actor_id, event.at_millis, previous, current)


@dataclass(frozen=True)
class Credential:
    """A company credential at one revision.

    Attributes:
        credential_id: Canonical UUID text.
        tenant_id: Its company.
        spec: What it may do.
        revision: From 1.
        revoked_at_millis: When it was revoked; None while it is not.
        history: One event for each revision, ascending.
        verifier: Keyed stand-in of the present secret, 32 bytes; never shown.
        change_id: UUID of the change that made this revision; never shown.
    """

    credential_id: str
    tenant_id: str
    spec: CredentialSpec
    revision: int
    revoked_at_millis: int | None
    history: tuple[Event, ...]
    verifier: bytes = field(repr=False)
    change_id: str = field(repr=False)

    @cached_property
    def granted_scopes(self) -> frozenset[Scope]:
        """The exact grants, for quick look-up."""
        return frozenset(self.spec.authority.grants)

    @cached_property
    def held_capabilities(self) -> frozenset[str]:
        """The capabilities, for quick look-up."""
        return frozenset(self.spec.capabilities)

    def is_expired(self, now_ms: int) -> bool:
        """Whether the expiry has come."""
        return self.spec.expires_at_millis is not None and now_ms >= self.spec.expires_at_millis

    def is_active(self, now_ms: int) -> bool:
        """Whether the credential works at this time of the store's clock."""
        return self.revoked_at_millis is None and not self.is_expired(now_ms)

    def allows(self, scope: Scope) -> bool:
        """Whether the scope is granted exactly, or accepted by the policy."""
        policy = self.spec.authority.scope_policy
        return policy.accepts(scope) if policy is not None else scope in self.granted_scopes

    def as_json(self) -> dict[str, Any]:
        """The documented, sanitised object."""
        return {
            "id": self.credential_id,
            "tenant_id": self.tenant_id,
            "spec": self.spec.as_json(),
            "revision": self.revision,
            "revoked_at_millis": self.revoked_at_millis,
            "history": [event.as_json() for event in self.history],
        }


def encode_credential(credential: Credential) -> bytes:
    """Stored form: the sanitised object with verifier (hexadecimal) and change id."""
    return canonical_bytes(
        {**credential.as_json(), "verifier": credential.verifier.hex(), "change_id": credential.change_id}
    )


def decode_credential(stored: bytes) -> Credential:
    """Read the stored form.

    Raises:
        StorageInconsistency: It is not one.
    """
    try:
        value = parse_canonical(stored)
        return Credential(
            value["id"],
            value["tenant_id"],
            spec_from_json(value["spec"]),
            value["revision"],
            value["revoked_at_millis"],
            tuple(_event_from_json(event) for event in value["history"]),
            bytes.fromhex(value["verifier"]),
            value["change_id"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise StorageInconsistency("a stored credential cannot be read") from error

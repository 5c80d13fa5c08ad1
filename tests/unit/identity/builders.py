"""Credentials and readers for tests of identity."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any

from services.domain.keys import credential_key
from services.domain.scope import IDENTITY_PARTITION, Scope
from services.identity.credentials import (
    Credential,
    CredentialSpec,
    ScopeAuthority,
    encode_credential,
)
from services.identity.scope_policy import ScopePolicy, Selector
from services.identity.tokens import Token, token_from_random, verifier_of
from services.identity.transitions import Change, issue_credential

KEY = bytes(range(32))
ADMIN_ID = "00000000-0000-4000-8000-0000000000ad"
SHARED = Scope("p1", "m1", "a1", "shared")
NOW_MS = 1_700_000_000_000


def change(at_millis: int = NOW_MS, change_id: str = "00000000-0000-4000-8000-00000000c4a6") -> Change:
    """Circumstances of a change by the administrator."""
    return Change(change_id=change_id, actor_id=ADMIN_ID, at_millis=at_millis)


def open_policy(**members: Any) -> ScopePolicy:
    """A policy that accepts every scope, but for the given members."""
    everything = Selector(None)
    values: dict[str, Any] = {
        "projects": everything,
        "agents": everything,
        "missions": everything,
        "allow_unassigned_mission": True,
        "visibilities": ("private", "shared"),
    }
    return ScopePolicy(**(values | members))


def spec(
    *,
    subject_id: str = "svc",
    capabilities: tuple[str, ...] = ("memory_read",),
    grants: tuple[Scope, ...] = (SHARED,),
    scope_policy: ScopePolicy | None = None,
    expires_at_millis: int | None = None,
) -> CredentialSpec:
    """A spec; by default a reader of SHARED."""
    return CredentialSpec(subject_id, capabilities, ScopeAuthority(grants, scope_policy), expires_at_millis)


def issued(wanted: CredentialSpec | None = None, *, tenant_id: str = "acme", seed: int = 1) -> tuple[Token, Credential]:
    """A credential at revision 1 with its key, the same for the same seed."""
    token = token_from_random(str(uuid.UUID(int=seed)), bytes([seed % 256]) * 32)
    made = issue_credential(token.credential_id, tenant_id, wanted or spec(), verifier_of(KEY, token), change())
    return token, made


@dataclass
class MemoryReader:
    """A snapshot and a write buffer in a dict."""

    clock_ms: int = NOW_MS
    values: dict[tuple[bytes, bytes], bytes] = field(default_factory=dict)

    def get(self, partition: bytes, key: bytes) -> bytes | None:
        """The value, None when absent."""
        return self.values.get((partition, key))

    def put(self, partition: bytes, key: bytes, value: bytes) -> None:
        """Set the value."""
        self.values[partition, key] = value

    def hold(self, credential: Credential) -> None:
        """Store a credential."""
        self.put(IDENTITY_PARTITION, credential_key(credential.credential_id), encode_credential(credential))

"""Credentials and readers for tests of identity."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any

from services.domain.keys import credential_key, global_credential_key, session_key
from services.domain.scope import IDENTITY_PARTITION, Scope
from services.identity.credentials import (
    Credential,
    CredentialSpec,
    ScopeAuthority,
    encode_credential,
)
from services.identity.global_credentials import (
    GLOBAL_CAPABILITIES,
    GlobalCredential,
    GlobalSpec,
    bootstrap_master,
    encode_global_credential,
    issue_global,
)
from services.identity.history import Change
from services.identity.scope_policy import ScopePolicy, Selector
from services.identity.sessions import SESSION_MILLIS, Session, encode_session
from services.identity.tokens import Token, token_from_random, verifier_of
from services.identity.transitions import issue_credential
from services.storage.contract import Commit
from services.storage.core import LocalStore
from services.storage.errors import StorageUnavailable

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


def master(*, seed: int = 90) -> tuple[Token, GlobalCredential]:
    """The master with its key."""
    token = token_from_random(str(uuid.UUID(int=seed)), bytes([seed]) * 32, is_global=True)
    return token, bootstrap_master(token.credential_id, "root", verifier_of(KEY, token), change())


def issued_global(
    *capabilities: str, seed: int = 91, expires_at_millis: int | None = None
) -> tuple[Token, GlobalCredential]:
    """A global credential that the master issued; every capability unless some are named."""
    token = token_from_random(str(uuid.UUID(int=seed)), bytes([seed]) * 32, is_global=True)
    wanted = GlobalSpec("svc", capabilities or GLOBAL_CAPABILITIES, expires_at_millis)
    return token, issue_global(master()[1], token.credential_id, wanted, verifier_of(KEY, token), change())


def opened_session(
    credential: Credential | GlobalCredential, *, expires_at_millis: int = NOW_MS + SESSION_MILLIS
) -> tuple[Token, Session]:
    """A session that acts with a credential at its present revision."""
    token = token_from_random(
        credential.credential_id,
        b"\x51" * 32,
        is_global=isinstance(credential, GlobalCredential),
        session_id=str(uuid.UUID(int=77)),
    )
    session = Session(
        token.session_id or "",
        str(uuid.UUID(int=78)),
        credential.credential_id,
        credential.revision,
        expires_at_millis,
        verifier_of(KEY, token),
    )
    return token, session


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

    def hold_global(self, credential: GlobalCredential) -> None:
        """Store a global credential."""
        key = global_credential_key(credential.credential_id)
        self.put(IDENTITY_PARTITION, key, encode_global_credential(credential))

    def hold_session(self, session: Session) -> None:
        """Store a session."""
        key = session_key(session.credential_id, session.session_id)
        self.put(IDENTITY_PARTITION, key, encode_session(session))


class ForgetfulStore:
    """A store whose next commit happens while its answer is lost, when told so."""

    def __init__(self, store: LocalStore) -> None:
        self._store = store
        self.loses = False

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def commit(self, commit: Commit) -> int:
        """Commit, and lose the answer when told so."""
        sequence = self._store.commit(commit)
        if self.loses:
            self.loses = False
            raise StorageUnavailable("the answer was lost")
        return sequence

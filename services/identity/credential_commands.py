"""What an administrator does to credentials: `(transaction, principal, command) -> credential`.

Ids, secrets and the change id are made before the transaction. A rerun after a lost commit answer starts with
`committed_change`, ahead of authorization: the change may have ended the very key that asked for it. It gives nothing
away, because nobody else can know the change id.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from services.domain import keys
from services.domain.errors import Forbidden, RevisionConflict
from services.domain.scope import IDENTITY_PARTITION
from services.identity import transitions
from services.identity.authority import CredentialReader, Principal
from services.identity.credentials import (
    Credential,
    CredentialSpec,
    ScopeAuthority,
    decode_credential,
    encode_credential,
)
from services.identity.directory import DirectoryWriter
from services.identity.history import Change
from services.identity.tokens import Token, token_from_random, verifier_of
from services.runtime.identifiers import new_secret, new_uuid


@dataclass(frozen=True, slots=True)
class NewKey:
    """A fresh company key and its verifier. Only the verifier is stored."""

    token: Token
    verifier: bytes = field(repr=False)


def make_key(verifier_key: bytes, credential_id: str) -> NewKey:
    """Draw a new key of a credential from the operating system's generator."""
    token = token_from_random(credential_id, new_secret())
    return NewKey(token, verifier_of(verifier_key, token))


@dataclass(frozen=True, slots=True, kw_only=True)
class MakesCredential:
    """A command that makes a credential of any kind; its new id stands in `key`."""

    key: NewKey
    change_id: str = field(default_factory=new_uuid)

    @property
    def credential_id(self) -> str:
        """The id that the credential will have."""
        return self.key.token.credential_id


@dataclass(frozen=True, slots=True, kw_only=True)
class IssueCredential(MakesCredential):
    """Make a credential."""

    spec: CredentialSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class RotateCredential:
    """Replace the secret."""

    credential_id: str
    expected_revision: int
    key: NewKey
    change_id: str = field(default_factory=new_uuid)


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokeCredential:
    """End a credential for good."""

    credential_id: str
    expected_revision: int
    change_id: str = field(default_factory=new_uuid)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceScopeAuthority:
    """Replace grants and policy as a whole."""

    credential_id: str
    expected_revision: int
    authority: ScopeAuthority
    change_id: str = field(default_factory=new_uuid)


CredentialCommand = IssueCredential | RotateCredential | RevokeCredential | ReplaceScopeAuthority


class CredentialChange(Protocol):
    """A command that makes or changes one company credential."""

    @property
    def credential_id(self) -> str:
        """The credential."""
        ...

    @property
    def change_id(self) -> str:
        """Marks the revision that the command makes."""
        ...


def committed_change(reader: CredentialReader, command: CredentialChange) -> Credential | None:
    """The credential as this very command left it, when an earlier run has committed it; None otherwise."""
    stored = reader.get(IDENTITY_PARTITION, keys.credential_key(command.credential_id))
    if stored is None:
        return None
    credential = decode_credential(stored)
    return credential if credential.change_id == command.change_id else None


def apply_command(transaction: DirectoryWriter, principal: Principal, command: CredentialCommand) -> Credential:
    """Apply a command of an administrator and buffer what it changes.

    Args:
        transaction: The transaction of the request.
        principal: The caller, authorized with `credential_admin`.
        command: What to do.

    Returns:
        The credential at its new revision.

    Raises:
        Forbidden: The target does not exist in the caller's company, or is revoked.
        RevisionConflict: `expected_revision` is stale.
        InvalidRequest: See `transitions`.
    """
    change = Change(change_id=command.change_id, actor_id=principal.credential_id, at_millis=transaction.clock_ms)
    if isinstance(command, IssueCredential):
        credential = transitions.issue_credential(
            command.credential_id, principal.company_id, command.spec, command.key.verifier, change
        )
        enter_credential(transaction, credential)
        return credential
    target = read_credential(transaction, principal, command.credential_id)
    expected = command.expected_revision
    if isinstance(command, RotateCredential):
        changed = transitions.rotate_credential(target, expected, command.key.verifier, change)
    elif isinstance(command, RevokeCredential):
        changed = transitions.revoke_credential(target, expected, change)
    else:
        changed = transitions.replace_scope_authority(target, expected, command.authority, change)
    _put(transaction, changed)
    return changed


def enter_credential(transaction: DirectoryWriter, credential: Credential) -> None:
    """Store a new credential and enter it in its company's directory.

    Raises:
        RevisionConflict: The id is taken. It was drawn at random, so this is the command itself, committed by an
            earlier run and changed by somebody since.
    """
    if transaction.get(IDENTITY_PARTITION, keys.credential_key(credential.credential_id)) is not None:
        raise RevisionConflict("the credential was changed while it was issued")
    _put(transaction, credential)
    entry = keys.company_credential_key(credential.tenant_id, credential.credential_id)
    transaction.put(IDENTITY_PARTITION, entry, b"")


def read_credential(reader: CredentialReader, principal: Principal, credential_id: str) -> Credential:
    """A credential of the caller's company.

    Raises:
        Forbidden: There is none with this id; whether another company has it does not show.
    """
    stored = reader.get(IDENTITY_PARTITION, keys.credential_key(credential_id))
    credential = None if stored is None else decode_credential(stored)
    if credential is None or credential.tenant_id != principal.company_id:
        raise Forbidden("there is no such credential in the caller's company")
    return credential


def _put(transaction: DirectoryWriter, credential: Credential) -> None:
    key = keys.credential_key(credential.credential_id)
    transaction.put(IDENTITY_PARTITION, key, encode_credential(credential))

"""What global administrators do to global credentials: `(transaction, principal, command) -> credential`.

Lost commit answers are found by change id, as for company credentials (`credential_commands`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from services.domain import keys
from services.domain.errors import Forbidden, RevisionConflict
from services.domain.scope import IDENTITY_PARTITION
from services.identity.authority import CredentialReader, GlobalPrincipal
from services.identity.credential_commands import MakesCredential, NewKey
from services.identity.directory import DirectoryWriter
from services.identity.directory_page import DirectoryReader, Page, check_page_bytes, scan_page
from services.identity.global_credentials import (
    GLOBAL_CREDENTIAL_ADMIN,
    GlobalCredential,
    GlobalSpec,
    decode_global_credential,
    encode_global_credential,
    issue_global,
    revoke_global,
    rotate_global,
)
from services.identity.history import Change
from services.identity.tokens import token_from_random, verifier_of
from services.runtime.identifiers import new_secret, new_uuid


@dataclass(frozen=True, slots=True, kw_only=True)
class IssueGlobal(MakesCredential):
    """Make a global credential."""

    spec: GlobalSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class RotateGlobal:
    """Replace the secret."""

    credential_id: str
    expected_revision: int
    key: NewKey
    change_id: str = field(default_factory=new_uuid)


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokeGlobal:
    """End a global credential."""

    credential_id: str
    expected_revision: int
    change_id: str = field(default_factory=new_uuid)


GlobalCommand = IssueGlobal | RotateGlobal | RevokeGlobal


def make_global_key(verifier_key: bytes, credential_id: str) -> NewKey:
    """Draw a new key of a global credential from the operating system's generator."""
    token = token_from_random(credential_id, new_secret(), is_global=True)
    return NewKey(token, verifier_of(verifier_key, token))


def committed_global_change(reader: CredentialReader, command: GlobalCommand) -> GlobalCredential | None:
    """The credential as this very command left it, when an earlier run has committed it; None otherwise."""
    credential = find_global(reader, command.credential_id)
    return credential if credential is not None and credential.change_id == command.change_id else None


def apply_global_command(
    transaction: DirectoryWriter, principal: GlobalPrincipal, command: GlobalCommand
) -> GlobalCredential:
    """Apply a command and buffer what it changes.

    Args:
        transaction: The transaction of the request.
        principal: The caller, authenticated; its authority is judged here.
        command: What to do.

    Returns:
        The credential at its new revision.

    Raises:
        Forbidden: The caller lacks the authority, the target does not exist, or it is revoked.
        RevisionConflict: `expected_revision` is stale.
        InvalidRequest: The expiry has already come.
    """
    change = Change(change_id=command.change_id, actor_id=principal.credential_id, at_millis=transaction.clock_ms)
    if isinstance(command, IssueGlobal):
        _check_administers(principal.credential)
        made = issue_global(principal.credential, command.credential_id, command.spec, command.key.verifier, change)
        enter_global(transaction, made)
        return made
    target = _changeable(transaction, principal.credential, command.credential_id)
    if isinstance(command, RotateGlobal):
        changed = rotate_global(target, command.expected_revision, command.key.verifier, change)
    else:
        changed = revoke_global(target, command.expected_revision, change)
    put_global(transaction, changed)
    return changed


def read_global(reader: CredentialReader, principal: GlobalPrincipal, credential_id: str) -> GlobalCredential:
    """A global credential that the caller may administer: it holds all of its capabilities.

    Raises:
        Forbidden: It does not, lacks `global_credential_admin`, or there is none with this id.
    """
    _check_administers(principal.credential)
    credential = find_global(reader, credential_id)
    if credential is None or not principal.credential.holds_all_of(credential):
        raise Forbidden("there is no such credential within the caller's authority")
    return credential


def list_globals(reader: DirectoryReader, *, limit: int, after: bytes | None) -> Page[GlobalCredential]:
    """Read one page of all global credentials, revoked ones included, in ascending order of their ids.

    Args:
        reader: A snapshot.
        limit: Greatest number of credentials, from 1.
        after: Only ids (16 bytes) above this one; None for the first page.

    Raises:
        InvalidRequest: The page would exceed 4 MiB.
    """
    rows = scan_page(reader, keys.GLOBAL_CREDENTIAL, limit=limit, after=after)
    items = [decode_global_credential(value) for _, value in rows.items]
    check_page_bytes(item.as_json() for item in items)
    return Page(items, rows.next_after)


def enter_global(transaction: DirectoryWriter, credential: GlobalCredential) -> None:
    """Store a new global credential.

    Raises:
        RevisionConflict: The random id is taken: the command itself was committed, and somebody has changed it since.
    """
    if find_global(transaction, credential.credential_id) is not None:
        raise RevisionConflict("the credential was changed while it was issued")
    put_global(transaction, credential)


def put_global(transaction: DirectoryWriter, credential: GlobalCredential) -> None:
    """Store a global credential."""
    key = keys.global_credential_key(credential.credential_id)
    transaction.put(IDENTITY_PARTITION, key, encode_global_credential(credential))


def find_global(reader: CredentialReader, credential_id: str) -> GlobalCredential | None:
    """The global credential with this id, None when there is none."""
    stored = reader.get(IDENTITY_PARTITION, keys.global_credential_key(credential_id))
    return None if stored is None else decode_global_credential(stored)


def _changeable(reader: CredentialReader, actor: GlobalCredential, credential_id: str) -> GlobalCredential:
    if actor.credential_id == credential_id:
        return actor
    target = read_global(reader, GlobalPrincipal(actor), credential_id)
    if target.is_master:
        raise Forbidden("only the master itself may change the master")
    return target


def _check_administers(credential: GlobalCredential) -> None:
    if GLOBAL_CREDENTIAL_ADMIN not in credential.spec.capabilities:
        raise Forbidden(f"the credential lacks the capability {GLOBAL_CREDENTIAL_ADMIN}")

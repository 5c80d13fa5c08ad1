"""What administrators do to login accounts: `(transaction, actor, command) -> account`.

Passwords are hashed before the transaction. Lost commit answers are found by change id, as for company credentials
(`credential_commands`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from services.domain.errors import Forbidden, InvalidRequest
from services.identity.authority import CredentialReader
from services.identity.history import Change
from services.identity.login_accounts import LoginAccount, change_password, create_account, disable_account
from services.identity.login_directory import enter_account, find_account_by_id, put_account, read_account
from services.identity.session_directory import SessionWriter, end_sessions_of, find_bound
from services.runtime.identifiers import new_uuid


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateLoginAccount:
    """Bind a user name to a credential."""

    username: str
    credential_id: str
    password_hash: str = field(repr=False)
    account_id: str = field(default_factory=new_uuid)
    change_id: str = field(default_factory=new_uuid)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeLoginPassword:
    """Replace the password and end the account's sessions."""

    account_id: str
    expected_revision: int
    password_hash: str = field(repr=False)
    change_id: str = field(default_factory=new_uuid)


@dataclass(frozen=True, slots=True, kw_only=True)
class DisableLoginAccount:
    """End an account for good, and its sessions."""

    account_id: str
    expected_revision: int
    change_id: str = field(default_factory=new_uuid)


LoginAccountCommand = CreateLoginAccount | ChangeLoginPassword | DisableLoginAccount


def committed_account_change(reader: CredentialReader, command: LoginAccountCommand) -> LoginAccount | None:
    """The account as this very command left it, when an earlier run has committed it; None otherwise."""
    account = find_account_by_id(reader, command.account_id)
    return account if account is not None and account.change_id == command.change_id else None


def apply_account_command(
    transaction: SessionWriter, company_id: str | None, actor_id: str, command: LoginAccountCommand
) -> LoginAccount:
    """Apply a command and buffer what it changes.

    Args:
        transaction: The transaction of the request.
        company_id: Owner of the account: the caller's company, or None for the master.
        actor_id: The caller's credential; the caller is authorized.
        command: What to do.

    Returns:
        The account at its new revision.

    Raises:
        Forbidden: The account, or the credential to bind, does not exist within the caller's authority; the account is
            disabled; the credential is revoked.
        RevisionConflict: `expected_revision` is stale, or the user name is taken.
        InvalidRequest: The credential to bind has expired.
    """
    change = Change(change_id=command.change_id, actor_id=actor_id, at_millis=transaction.clock_ms)
    if isinstance(command, CreateLoginAccount):
        _check_bindable(transaction, company_id, command.credential_id)
        made = create_account(
            command.account_id,
            command.username,
            company_id=company_id,
            credential_id=command.credential_id,
            password_hash=command.password_hash,
            change=change,
        )
        enter_account(transaction, made)
        return made
    account = read_account(transaction, company_id, command.account_id)
    if isinstance(command, ChangeLoginPassword):
        changed = change_password(account, command.expected_revision, command.password_hash, change)
    else:
        changed = disable_account(account, command.expected_revision, change)
    put_account(transaction, changed)
    end_sessions_of(transaction, changed)
    return changed


def _check_bindable(transaction: SessionWriter, company_id: str | None, credential_id: str) -> None:
    credential = find_bound(transaction, company_id, credential_id)
    if credential is None or credential.revoked_at_millis is not None:
        raise Forbidden("there is no such credential within the caller's authority", member="credential_id")
    if not credential.is_active(transaction.clock_ms):
        raise InvalidRequest("the credential has expired", member="credential_id")

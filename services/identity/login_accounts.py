"""Accounts that people log in with: the documented object, its stored form, and its legal transitions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from services.domain.canonical_json import canonical_bytes, parse_canonical
from services.domain.errors import Forbidden, StorageInconsistency
from services.identity.history import Change, Event, check_revision, event_from_json, first_event, next_revision


@dataclass(frozen=True, slots=True)
class LoginAccount:
    """An account at one revision.

    Attributes:
        account_id: Canonical UUID text.
        username: Unique within its owner, for ever.
        company_id: Its owner; None above companies.
        credential_id: The credential that its sessions act with. Never changes.
        revision: From 1.
        disabled_at_millis: When it was disabled; None while it is not.
        history: One event for each revision, ascending.
        password_hash: What `Passwords` stores; never shown.
        change_id: UUID of the change that made this revision; never shown.
    """

    account_id: str
    username: str
    company_id: str | None
    credential_id: str
    revision: int
    disabled_at_millis: int | None
    history: tuple[Event, ...]
    password_hash: str = field(repr=False)
    change_id: str = field(repr=False)

    @property
    def is_disabled(self) -> bool:
        """Whether nobody can log in with it any more."""
        return self.disabled_at_millis is not None

    def as_json(self) -> dict[str, Any]:
        """The documented, sanitised object."""
        authority = {"kind": "global"} if self.company_id is None else {"kind": "tenant", "tenant_id": self.company_id}
        return {
            "id": self.account_id,
            "username": self.username,
            "authority": authority,
            "credential_id": self.credential_id,
            "revision": self.revision,
            "disabled_at_millis": self.disabled_at_millis,
            "history": [event.as_json() for event in self.history],
        }


def create_account(
    account_id: str, username: str, *, company_id: str | None, credential_id: str, password_hash: str, change: Change
) -> LoginAccount:
    """Make an account at revision 1."""
    event = first_event("login_account_created", change)
    return LoginAccount(
        account_id, username, company_id, credential_id, 1, None, (event,), password_hash, change.change_id
    )


def change_password(account: LoginAccount, expected_revision: int, password_hash: str, change: Change) -> LoginAccount:
    """Replace the password.

    Raises:
        Forbidden: Disabled.
        RevisionConflict: `expected_revision` is not the present one.
    """
    _check_changeable(account, expected_revision)
    return next_revision(replace(account, password_hash=password_hash), "login_password_changed", change)


def disable_account(account: LoginAccount, expected_revision: int, change: Change) -> LoginAccount:
    """End the account for good.

    Raises:
        Forbidden: Already disabled.
        RevisionConflict: `expected_revision` is not the present one.
    """
    _check_changeable(account, expected_revision)
    return next_revision(replace(account, disabled_at_millis=change.at_millis), "login_account_disabled", change)


def encode_account(account: LoginAccount) -> bytes:
    """Stored form: the sanitised object with password hash and change id."""
    return canonical_bytes(
        {**account.as_json(), "password_hash": account.password_hash, "change_id": account.change_id}
    )


def decode_account(stored: bytes) -> LoginAccount:
    """Read the stored form.

    Raises:
        StorageInconsistency: It is not one.
    """
    try:
        value = parse_canonical(stored)
        authority = value["authority"]
        return LoginAccount(
            value["id"],
            value["username"],
            None if authority["kind"] == "global" else authority["tenant_id"],
            value["credential_id"],
            value["revision"],
            value["disabled_at_millis"],
            tuple(event_from_json(event) for event in value["history"]),
            value["password_hash"],
            value["change_id"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise StorageInconsistency("a stored login account cannot be read") from error


def _check_changeable(account: LoginAccount, expected_revision: int) -> None:
    if account.is_disabled:
        raise Forbidden("the account is disabled")
    check_revision(account, expected_revision, noun="account")

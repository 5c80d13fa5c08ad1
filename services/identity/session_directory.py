"""The stored sessions: opened at login, ended at logout or with their account."""

from __future__ import annotations

from typing import Final, Protocol

from services.domain import keys
from services.domain.errors import InvalidLogin
from services.domain.scope import IDENTITY_PARTITION
from services.identity.authority import CredentialReader, token_keys
from services.identity.credentials import Credential, decode_credential
from services.identity.directory_page import DirectoryReader
from services.identity.global_commands import find_global
from services.identity.global_credentials import GlobalCredential
from services.identity.login_accounts import LoginAccount
from services.identity.login_directory import find_account
from services.identity.sessions import Session, decode_session, encode_session, session_expiry
from services.identity.tokens import Token, token_from_random, verifier_of
from services.runtime.invariant import invariant

_SWEEP_ROWS: Final = 16


class SessionWriter(DirectoryReader, Protocol):
    """What opening and ending sessions needs of a transaction."""

    def put(self, partition: bytes, key: bytes, value: bytes) -> None:
        """Buffer a write."""
        ...

    def delete(self, partition: bytes, key: bytes) -> None:
        """Buffer the removal of a key."""
        ...


def session_token(account: LoginAccount, session_id: str, random_bytes: bytes) -> Token:
    """The token of a new session of an account."""
    return token_from_random(
        account.credential_id, random_bytes, is_global=account.company_id is None, session_id=session_id
    )


def open_session(transaction: SessionWriter, account: LoginAccount, token: Token, verifier_key: bytes) -> Session:
    """Store a session of an account whose password was found right.

    Args:
        transaction: The transaction of the login.
        account: As it was when its password was compared.
        token: Made before the transaction, so that a rerun after a lost commit answer finds its session.
        verifier_key: 32 bytes.

    Raises:
        InvalidLogin: The account has changed since, or its credential does not work.
    """
    invariant(token.session_id is not None, "a session has an id")
    key = token_keys(token)[-1]
    stored = transaction.get(IDENTITY_PARTITION, key)
    if stored is not None:
        return decode_session(stored)
    now_ms = transaction.clock_ms
    present = find_account(transaction, account.company_id, account.username)
    credential = find_bound(transaction, account.company_id, account.credential_id)
    if present != account or account.is_disabled or credential is None or not credential.is_active(now_ms):
        raise InvalidLogin("the login failed")
    _sweep(transaction, key, credential, now_ms)
    session = Session(
        str(token.session_id),
        account.account_id,
        credential.credential_id,
        credential.revision,
        session_expiry(now_ms, credential.spec.expires_at_millis),
        verifier_of(verifier_key, token),
    )
    transaction.put(IDENTITY_PARTITION, key, encode_session(session))
    return session


def end_session(transaction: SessionWriter, token: Token) -> None:
    """End the session of a token."""
    transaction.delete(IDENTITY_PARTITION, token_keys(token)[-1])


def end_sessions_of(transaction: SessionWriter, account: LoginAccount) -> None:
    """End every session of an account, those included that open while this is committed: one of the two runs again."""
    prefix = keys.session_prefix(account.credential_id)
    for key, stored in transaction.scan(IDENTITY_PARTITION, prefix, keys.prefix_end(prefix)):
        if decode_session(stored).account_id == account.account_id:
            transaction.delete(IDENTITY_PARTITION, key)


def find_bound(
    reader: CredentialReader, company_id: str | None, credential_id: str
) -> Credential | GlobalCredential | None:
    """The credential with this id that sessions of an owner may act with, in whatever state; None for none."""
    if company_id is None:
        return find_global(reader, credential_id)
    stored = reader.get(IDENTITY_PARTITION, bound_key(company_id, credential_id))
    credential = None if stored is None else decode_credential(stored)
    return credential if credential is not None and credential.tenant_id == company_id else None


def bound_key(company_id: str | None, credential_id: str) -> bytes:
    """The key that `find_bound` reads."""
    return (keys.global_credential_key if company_id is None else keys.credential_key)(credential_id)


def _sweep(transaction: SessionWriter, key: bytes, credential: Credential | GlobalCredential, now_ms: int) -> None:
    # A few neighbours of the new session, whose place is random: so what is over stays a small part of what is stored,
    # at a bounded price for each login.
    end = keys.prefix_end(keys.session_prefix(credential.credential_id))
    for neighbour, stored in transaction.scan(IDENTITY_PARTITION, key, end, limit=_SWEEP_ROWS):
        if decode_session(stored).is_over(credential.revision, now_ms):
            transaction.delete(IDENTITY_PARTITION, neighbour)

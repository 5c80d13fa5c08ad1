"""The stored login accounts of one owner: a company, or None for what is above companies."""

from __future__ import annotations

from services.domain import keys
from services.domain.errors import Forbidden, RevisionConflict, StorageInconsistency
from services.domain.scope import IDENTITY_PARTITION
from services.identity.authority import CredentialReader
from services.identity.directory import DirectoryWriter
from services.identity.directory_page import DirectoryReader, Page, check_page_bytes, scan_page
from services.identity.login_accounts import LoginAccount, decode_account, encode_account


def find_account(reader: CredentialReader, company_id: str | None, username: str) -> LoginAccount | None:
    """The account with this user name, None when there is none. Always one key is read."""
    stored = reader.get(IDENTITY_PARTITION, keys.login_account_key(company_id, username))
    return None if stored is None else _of_owner(stored, company_id, username.encode())


def find_account_by_id(reader: CredentialReader, account_id: str) -> LoginAccount | None:
    """The account with this id, whoever owns it; None when there is none.

    Raises:
        StorageInconsistency: The id leads to no account.
    """
    position = reader.get(IDENTITY_PARTITION, keys.login_account_id_key(account_id))
    if position is None:
        return None
    stored = reader.get(IDENTITY_PARTITION, keys.LOGIN_ACCOUNT + position)
    account = None if stored is None else decode_account(stored)
    if account is None or account.account_id != account_id:
        raise StorageInconsistency("a login account is not there")
    return account


def read_account(reader: CredentialReader, company_id: str | None, account_id: str) -> LoginAccount:
    """An account of this owner.

    Raises:
        Forbidden: It has none with this id; whether somebody else has it does not show.
    """
    account = find_account_by_id(reader, account_id)
    if account is None or account.company_id != company_id:
        raise Forbidden("there is no such account within the caller's authority")
    return account


def list_accounts(
    reader: DirectoryReader, company_id: str | None, *, limit: int, after: bytes | None
) -> Page[LoginAccount]:
    """Read one page, disabled accounts included, in the order of the UTF-8 bytes of their user names.

    Args:
        reader: A snapshot.
        company_id: The owner.
        limit: Greatest number of accounts, from 1.
        after: Only user names (UTF-8) above this one; None for the first page.

    Raises:
        InvalidRequest: The page would exceed 4 MiB.
    """
    rows = scan_page(reader, keys.login_account_prefix(company_id), limit=limit, after=after)
    items = [_of_owner(stored, company_id, position) for position, stored in rows.items]
    check_page_bytes(item.as_json() for item in items)
    return Page(items, rows.next_after)


def enter_account(transaction: DirectoryWriter, account: LoginAccount) -> None:
    """Store a new account.

    Raises:
        RevisionConflict: The user name is taken, were it by a disabled account.
    """
    key = keys.login_account_key(account.company_id, account.username)
    if transaction.get(IDENTITY_PARTITION, key) is not None:
        raise RevisionConflict("the user name is taken", member="username")
    put_account(transaction, account)
    position = key.removeprefix(keys.LOGIN_ACCOUNT)
    transaction.put(IDENTITY_PARTITION, keys.login_account_id_key(account.account_id), position)


def put_account(transaction: DirectoryWriter, account: LoginAccount) -> None:
    """Store an account."""
    key = keys.login_account_key(account.company_id, account.username)
    transaction.put(IDENTITY_PARTITION, key, encode_account(account))


def _of_owner(stored: bytes, company_id: str | None, position: bytes) -> LoginAccount:
    account = decode_account(stored)
    if account.company_id != company_id or account.username.encode() != position:
        raise StorageInconsistency("a login account lies under the key of another")
    return account

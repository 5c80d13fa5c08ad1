"""Logging in and out: admission, the password, then one transaction.

The path of a login is the same whatever is wrong with it, up to the comparison of the password: one read of one key and
one hash, also for accounts that do not exist. What is told is always the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from services.domain import keys
from services.domain.errors import InvalidLogin, Unauthorized
from services.domain.scope import IDENTITY_PARTITION
from services.identity.authority import Authority, token_keys
from services.identity.login_accounts import LoginAccount
from services.identity.login_admission import LoginAdmission
from services.identity.login_directory import find_account
from services.identity.password_workers import PasswordWorkers
from services.identity.passwords import Passwords
from services.identity.session_directory import bound_key, end_session, open_session, session_token
from services.identity.sessions import Session
from services.identity.tokens import Token
from services.runtime.identifiers import new_secret, new_uuid
from services.storage.contract import Store
from services.storage.transaction import Transaction, run_transaction


@dataclass(frozen=True, slots=True)
class OpenedSession:
    """A session that a login has opened, with the only copy of its token."""

    token: Token
    session: Session
    account: LoginAccount


@dataclass(frozen=True, slots=True)
class Logins:
    """Opens and ends sessions in a store. Safe to use from many threads."""

    store: Store
    verifier_key: bytes
    authority: Authority
    passwords: Passwords
    workers: PasswordWorkers
    admission: LoginAdmission

    def open(self, company_id: str | None, username: str, password: str) -> OpenedSession:
        """Log in.

        Args:
            company_id: The company; None for a global account.
            username: Name of the account.
            password: As presented.

        Raises:
            LoginRateLimited: Too many logins have failed lately.
            LoginBusy: All password workers are taken.
            InvalidLogin: Anything else is wrong.
        """
        key = keys.login_account_key(company_id, username)
        with self.admission.attempt(key):
            account = run_transaction(
                self.store,
                lambda transaction: find_account(transaction, company_id, username),
                prefetch={IDENTITY_PARTITION: [key]},
            )
            password_hash = None if account is None else account.password_hash
            is_right = self.workers.run(lambda: self.passwords.is_right(password, password_hash))
            if account is None or not is_right:
                raise InvalidLogin("the login failed")
            return self._open(account, key)

    def close(self, token: Token) -> None:
        """Log out: end the session of a token.

        Raises:
            Unauthorized: It is no session, or one that has ended.
        """
        if token.session_id is None:
            raise Unauthorized("only a session can be logged out")
        is_rerun = False

        def run(transaction: Transaction) -> None:
            nonlocal is_rerun
            # After a lost commit answer it is over, whoever has ended it.
            if is_rerun and transaction.get(IDENTITY_PARTITION, token_keys(token)[-1]) is None:
                return
            self.authority.authenticate(transaction, token)
            end_session(transaction, token)
            is_rerun = True

        run_transaction(self.store, run, prefetch={IDENTITY_PARTITION: token_keys(token)})

    def _open(self, account: LoginAccount, account_key: bytes) -> OpenedSession:
        token = session_token(account, new_uuid(), new_secret())
        wanted = [account_key, bound_key(account.company_id, account.credential_id), token_keys(token)[-1]]
        session = run_transaction(
            self.store,
            lambda transaction: open_session(transaction, account, token, self.verifier_key),
            prefetch={IDENTITY_PARTITION: wanted},
            pin=True,
        )
        return OpenedSession(token, session, account)

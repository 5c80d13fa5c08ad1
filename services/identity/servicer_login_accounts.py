"""LoginAccountService: the same five operations for the accounts of a company and for global ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

import grpc

from services.identity.authority import GlobalPrincipal, Principal
from services.identity.convert_login import account_message
from services.identity.credentials import CREDENTIAL_ADMIN
from services.identity.directory_page import DirectoryCursors
from services.identity.identity_calls import IdentityCalls, page_cursor, page_limit
from services.identity.login_account_commands import (
    ChangeLoginPassword,
    CreateLoginAccount,
    DisableLoginAccount,
    LoginAccountCommand,
    apply_account_command,
    committed_account_change,
)
from services.identity.login_accounts import LoginAccount
from services.identity.login_directory import list_accounts, read_account
from services.identity.password_workers import PasswordWorkers
from services.identity.passwords import Passwords
from services.storage.transaction import Transaction
from waggle.identity.v1 import login_account_service_pb2 as pb
from waggle.identity.v1 import login_account_service_pb2_grpc as pb_grpc
from waggle.identity.v1 import login_pb2

CONTRACT_VERSION: Final = 1

T = TypeVar("T")


class _Caller(Protocol):
    """Runs a function of (transaction, owner of the accounts, acting credential) for an authorized caller."""

    def __call__(
        self,
        context: grpc.ServicerContext,
        function: Callable[[Transaction, str | None, str], T],
        committed: Callable[[Transaction], T | None] = lambda _transaction: None,
    ) -> T: ...


class LoginAccountServicer(pb_grpc.LoginAccountServiceServicer):
    """Serves the administration of accounts.

    Args:
        calls: Authorizes callers.
        passwords: Hashes.
        workers: Where it hashes.
    """

    def __init__(self, calls: IdentityCalls, passwords: Passwords, workers: PasswordWorkers) -> None:
        self._calls = calls
        self._passwords = passwords
        self._workers = workers

    def CreateLoginAccount(
        self, request: pb.CreateLoginAccountRequest, context: grpc.ServicerContext
    ) -> pb.CreateLoginAccountResponse:
        """Make an account of the caller's company."""
        account = self._create(self._for_company, request, context)
        return pb.CreateLoginAccountResponse(contract_version=CONTRACT_VERSION, account=account)

    def ListLoginAccounts(
        self, request: pb.ListLoginAccountsRequest, context: grpc.ServicerContext
    ) -> pb.ListLoginAccountsResponse:
        """Read one page of the accounts of the caller's company."""
        page = self._list(self._for_company, request, context)
        return pb.ListLoginAccountsResponse(contract_version=CONTRACT_VERSION, page=page)

    def GetLoginAccount(
        self, request: pb.GetLoginAccountRequest, context: grpc.ServicerContext
    ) -> pb.GetLoginAccountResponse:
        """Read one account of the caller's company."""
        account = self._get(self._for_company, request, context)
        return pb.GetLoginAccountResponse(contract_version=CONTRACT_VERSION, account=account)

    def ChangeLoginPassword(
        self, request: pb.ChangeLoginPasswordRequest, context: grpc.ServicerContext
    ) -> pb.ChangeLoginPasswordResponse:
        """Replace the password of an account of the caller's company."""
        account = self._change_password(self._for_company, request, context)
        return pb.ChangeLoginPasswordResponse(contract_version=CONTRACT_VERSION, account=account)

    def DisableLoginAccount(
        self, request: pb.DisableLoginAccountRequest, context: grpc.ServicerContext
    ) -> pb.DisableLoginAccountResponse:
        """End an account of the caller's company."""
        account = self._disable(self._for_company, request, context)
        return pb.DisableLoginAccountResponse(contract_version=CONTRACT_VERSION, account=account)

    def CreateGlobalLoginAccount(
        self, request: pb.CreateGlobalLoginAccountRequest, context: grpc.ServicerContext
    ) -> pb.CreateGlobalLoginAccountResponse:
        """Make a global account."""
        account = self._create(self._for_master, request, context)
        return pb.CreateGlobalLoginAccountResponse(contract_version=CONTRACT_VERSION, account=account)

    def ListGlobalLoginAccounts(
        self, request: pb.ListGlobalLoginAccountsRequest, context: grpc.ServicerContext
    ) -> pb.ListGlobalLoginAccountsResponse:
        """Read one page of the global accounts."""
        page = self._list(self._for_master, request, context)
        return pb.ListGlobalLoginAccountsResponse(contract_version=CONTRACT_VERSION, page=page)

    def GetGlobalLoginAccount(
        self, request: pb.GetGlobalLoginAccountRequest, context: grpc.ServicerContext
    ) -> pb.GetGlobalLoginAccountResponse:
        """Read one global account."""
        account = self._get(self._for_master, request, context)
        return pb.GetGlobalLoginAccountResponse(contract_version=CONTRACT_VERSION, account=account)

    def ChangeGlobalLoginPassword(
        self, request: pb.ChangeGlobalLoginPasswordRequest, context: grpc.ServicerContext
    ) -> pb.ChangeGlobalLoginPasswordResponse:
        """Replace the password of a global account."""
        account = self._change_password(self._for_master, request, context)
        return pb.ChangeGlobalLoginPasswordResponse(contract_version=CONTRACT_VERSION, account=account)

    def DisableGlobalLoginAccount(
        self, request: pb.DisableGlobalLoginAccountRequest, context: grpc.ServicerContext
    ) -> pb.DisableGlobalLoginAccountResponse:
        """End a global account."""
        account = self._disable(self._for_master, request, context)
        return pb.DisableGlobalLoginAccountResponse(contract_version=CONTRACT_VERSION, account=account)

    def _create(self, caller: _Caller, request: Any, context: grpc.ServicerContext) -> login_pb2.LoginAccount:
        command = CreateLoginAccount(
            username=request.username,
            credential_id=request.credential_id,
            password_hash=self._hash(caller, request.password, context),
        )
        return self._changed(caller, command, context)

    def _list(self, caller: _Caller, request: Any, context: grpc.ServicerContext) -> login_pb2.LoginAccountPage:
        def run(transaction: Transaction, company_id: str | None, _actor_id: str) -> login_pb2.LoginAccountPage:
            cursors = DirectoryCursors(self._calls.verifier_key, "login_accounts", company_id)
            after = cursors.decode(page_cursor(request))
            page = list_accounts(transaction, company_id, limit=page_limit(request), after=after)
            return login_pb2.LoginAccountPage(
                items=map(account_message, page.items), next_cursor=cursors.encode(page.next_after)
            )

        return caller(context, run)

    def _get(self, caller: _Caller, request: Any, context: grpc.ServicerContext) -> login_pb2.LoginAccount:
        def run(transaction: Transaction, company_id: str | None, _actor_id: str) -> LoginAccount:
            return read_account(transaction, company_id, request.account_id)

        return account_message(caller(context, run))

    def _change_password(self, caller: _Caller, request: Any, context: grpc.ServicerContext) -> login_pb2.LoginAccount:
        command = ChangeLoginPassword(
            account_id=request.account_id,
            expected_revision=request.expected_revision,
            password_hash=self._hash(caller, request.password, context),
        )
        return self._changed(caller, command, context)

    def _disable(self, caller: _Caller, request: Any, context: grpc.ServicerContext) -> login_pb2.LoginAccount:
        command = DisableLoginAccount(account_id=request.account_id, expected_revision=request.expected_revision)
        return self._changed(caller, command, context)

    def _hash(self, caller: _Caller, password: str, context: grpc.ServicerContext) -> str:
        # Who has no authority takes no worker, and who finds none free learns nothing of accounts.
        caller(context, lambda _transaction, _company_id, _actor_id: True)
        return self._workers.run(lambda: self._passwords.hash(password))

    def _changed(
        self, caller: _Caller, command: LoginAccountCommand, context: grpc.ServicerContext
    ) -> login_pb2.LoginAccount:
        def run(transaction: Transaction, company_id: str | None, actor_id: str) -> LoginAccount:
            return apply_account_command(transaction, company_id, actor_id, command)

        account = caller(context, run, lambda transaction: committed_account_change(transaction, command))
        return account_message(account)

    def _for_company(
        self,
        context: grpc.ServicerContext,
        function: Callable[[Transaction, str | None, str], T],
        committed: Callable[[Transaction], T | None] = lambda _transaction: None,
    ) -> T:
        def run(transaction: Transaction, principal: Principal) -> T:
            return function(transaction, principal.company_id, principal.credential_id)

        return self._calls.company(context, run, capabilities=(CREDENTIAL_ADMIN,), committed=committed, pin=True)

    def _for_master(
        self,
        context: grpc.ServicerContext,
        function: Callable[[Transaction, str | None, str], T],
        committed: Callable[[Transaction], T | None] = lambda _transaction: None,
    ) -> T:
        def run(transaction: Transaction, principal: GlobalPrincipal) -> T:
            return function(transaction, None, principal.credential_id)

        return self._calls.administration(context, run, is_master=True, committed=committed, pin=True)

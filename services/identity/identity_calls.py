"""Authorized calls of the servicers beside the company's own credentials: one transaction each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc

from services.domain.scope import IDENTITY_PARTITION
from services.identity.authority import Authority, GlobalPrincipal, Principal, token_keys
from services.identity.call_token import call_token
from services.identity.directory_page import LIMIT_DEFAULT
from services.storage.contract import Store
from services.storage.transaction import Transaction, run_transaction

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class IdentityCalls:
    """What a servicer needs to serve a store. Safe to use from many threads."""

    store: Store
    verifier_key: bytes
    authority: Authority

    def company(
        self,
        context: grpc.ServicerContext,
        function: Callable[[Transaction, Principal], T],
        *,
        capabilities: Sequence[str],
        committed: Callable[[Transaction], T | None] = lambda _transaction: None,
        wanted: Iterable[bytes] = (),
        pin: bool = False,
    ) -> T:
        """Run a function for a caller of a company.

        Args:
            context: Of the call.
            function: May run more than once.
            capabilities: All of these are needed.
            committed: What an earlier run of this very call has committed, None for nothing. Asked first, since the
                change may have ended the key that asked for it.
            wanted: Keys in the identity partition that the function will read.
            pin: It will read others too.

        Raises:
            WaggleError: The documented refusal.
        """
        token = call_token(context)

        def run(transaction: Transaction) -> T:
            found = committed(transaction)
            if found is not None:
                return found
            return function(transaction, self.authority.authorize(transaction, token, capabilities=capabilities))

        return self._run(run, {*token_keys(token), *wanted}, pin=pin)

    def administration(
        self,
        context: grpc.ServicerContext,
        function: Callable[[Transaction, GlobalPrincipal], T],
        *,
        capabilities: Sequence[str] = (),
        is_master: bool = False,
        committed: Callable[[Transaction], T | None] = lambda _transaction: None,
        wanted: Iterable[bytes] = (),
        pin: bool = False,
    ) -> T:
        """Run a function for a caller of global administration; `is_master` admits the master only.

        The other arguments are those of `company`.
        """
        token = call_token(context)

        def run(transaction: Transaction) -> T:
            found = committed(transaction)
            if found is not None:
                return found
            principal = self.authority.authorize_global(
                transaction, token, capabilities=capabilities, is_master=is_master
            )
            return function(transaction, principal)

        return self._run(run, {*token_keys(token), *wanted}, pin=pin)

    def _run(self, run: Callable[[Transaction], T], wanted: set[bytes], *, pin: bool) -> T:
        return run_transaction(self.store, run, prefetch={IDENTITY_PARTITION: sorted(wanted)}, pin=pin)


def page_limit(request: Any) -> int:
    """The limit of a request for a page of a directory, the default when it has none."""
    limit: int = request.limit if request.HasField("limit") else LIMIT_DEFAULT
    return limit


def page_cursor(request: Any) -> str | None:
    """The cursor of a request for a page of a directory, None when it has none."""
    cursor: str | None = request.cursor if request.HasField("cursor") else None
    return cursor

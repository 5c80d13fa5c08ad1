"""Authorized access to a workspace: what every request of a service that writes to one goes through.

Order: authentication, capability and scope, admission, then whatever the request does. All of a command is one commit,
the registration of its agent included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from services.domain.scope import Scope
from services.identity.authority import Authority, FirstRound, Principal
from services.identity.directory import is_agent_registered
from services.identity.reader_registration import register_reader
from services.identity.tokens import Token
from services.runtime.admission import AdmissionPool
from services.storage.contract import Store
from services.storage.transaction import Transaction, run_transaction
from services.workspace.partition import MemoryPartition

T = TypeVar("T")

PartitionKeys = Callable[[str], Iterable[bytes]]
"""Keys of the partition that a request will want at once, for the subject that makes it."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One run of an authorized request.

    Attributes:
        principal: The caller.
        scope: Scope of the request.
        partition: The workspace that the caller reaches through it.
    """

    principal: Principal
    scope: Scope
    partition: MemoryPartition

    @property
    def transaction(self) -> Transaction:
        """The transaction of the request."""
        return self.partition.transaction


class WorkspaceAccess:
    """Runs requests for authorized callers. One for each process; safe to use from many threads."""

    def __init__(self, store: Store, authority: Authority, slots: AdmissionPool) -> None:
        self.store = store
        self.authority = authority
        self._slots = slots

    def check(self, token: Token, scope: Scope | None = None, *, capabilities: Sequence[str] = ()) -> str:
        """Return the company of a caller, before its request is carried out or even known.

        Args:
            token: Of the caller.
            scope: Must be reached; None while it is not known.
            capabilities: All of these are needed.

        Raises:
            Unauthorized: No valid credential.
            Forbidden: A capability is missing, or the scope is not reached.
        """
        principal = run_transaction(
            self.store,
            lambda transaction: self.authority.authorize(transaction, token, capabilities=capabilities, scope=scope),
            prefetch=self.authority.first_round(token, None).keys,
        )
        return principal.company_id

    def write(
        self,
        token: Token,
        scope: Scope,
        function: Callable[[Visit], T],
        *,
        capabilities: Sequence[str],
        partition_keys: PartitionKeys,
        takes_slot: bool,
    ) -> T:
        """Run a command in one transaction.

        Args:
            token: Of the caller.
            scope: Where.
            function: The command; may run more than once. It also registers the agent.
            capabilities: All of these are needed.
            partition_keys: Keys that the command will usually read.
            takes_slot: The route needs an admission slot.

        Raises:
            WaggleError: The documented refusal; then nothing was written.
        """
        first = self._first_round(token, scope, partition_keys)

        def run(transaction: Transaction) -> T:
            return function(self._enter(transaction, token, scope, capabilities, takes_slot=takes_slot))

        return run_transaction(self.store, run, prefetch=first.keys)

    def view(
        self,
        token: Token,
        scope: Scope,
        function: Callable[[Visit], T],
        *,
        capabilities: Sequence[str],
        partition_keys: PartitionKeys = lambda _subject_id: (),
        takes_slot: bool = False,
        pin: bool = False,
    ) -> T:
        """Run a read over one snapshot. Its first success for an agent registers the agent.

        Args:
            token: Of the caller.
            scope: Where.
            function: The read; may run more than once.
            capabilities: All of these are needed.
            partition_keys: Keys that the read will usually want.
            takes_slot: The route needs an admission slot.
            pin: The read is known to need more rounds than one.

        Raises:
            WaggleError: The documented refusal.
        """
        first = self._first_round(token, scope, partition_keys)

        def run(transaction: Transaction) -> tuple[T, Principal | None]:
            visit = self._enter(transaction, token, scope, capabilities, takes_slot=takes_slot)
            result = function(visit)
            return result, None if is_agent_registered(transaction, visit.principal, scope) else visit.principal

        result, unregistered = run_transaction(self.store, run, prefetch=first.keys, pin=pin)
        if unregistered is not None:
            register_reader(self.store, unregistered, scope)
        return result

    def _first_round(self, token: Token, scope: Scope, partition_keys: PartitionKeys) -> FirstRound:
        first = self.authority.first_round(token, scope, registers=True)
        if first.workspace is not None and first.subject_id is not None:
            first.keys[first.workspace.partition] += partition_keys(first.subject_id)
        return first

    def _enter(
        self, transaction: Transaction, token: Token, scope: Scope, capabilities: Sequence[str], *, takes_slot: bool
    ) -> Visit:
        principal = self.authority.authorize(transaction, token, capabilities=capabilities, scope=scope)
        if takes_slot:
            self._slots.admit()
        return Visit(principal, scope, MemoryPartition(transaction, principal.workspace(scope).partition))

"""Authorized access to a partition: what every method of this service goes through.

Order: authentication, capability and scope, admission, idempotency receipt, state. All of a command is one commit, the
registration of its agent and workspace included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from services.domain import keys
from services.domain.receipts import MEMORY_FAMILY, Receipt
from services.domain.scope import IDENTITY_PARTITION, Scope
from services.identity.authority import Authority, Principal
from services.identity.directory import (
    command_trigger,
    is_agent_registered,
    register_agent,
    register_workspace,
    request_trigger,
)
from services.identity.tokens import Token
from services.memory.execute_command import KeyedCommand, execute_command, keys_to_read
from services.memory.partition import MemoryPartition
from services.runtime.admission import AdmissionPool
from services.storage.contract import Store
from services.storage.transaction import Transaction, run_transaction

T = TypeVar("T")


class PartitionAccess:
    """Runs commands and reads for authorized callers. One for each process; safe to use from many threads."""

    def __init__(self, store: Store, authority: Authority, slots: AdmissionPool) -> None:
        self.store = store
        self.authority = authority
        self._slots = slots

    def check(self, token: Token, scope: Scope) -> None:
        """Authenticate a caller and its scope, without any capability yet.

        Raises:
            Unauthorized: No valid credential.
            Forbidden: It does not reach the scope.
        """
        run_transaction(
            self.store,
            lambda transaction: self.authority.authorize(transaction, token, scope=scope),
            prefetch=self.authority.first_round(token, None).keys,
        )

    def execute(self, token: Token, scope: Scope, keyed: KeyedCommand, *, takes_slot: bool = False) -> Receipt:
        """Carry out a command, or find that it was carried out before.

        Args:
            token: Of the caller.
            scope: Where.
            keyed: The command.
            takes_slot: The route needs an admission slot.

        Raises:
            WaggleError: The documented refusal; then nothing was written.
        """
        first = self.authority.first_round(token, scope, registers=True)
        if first.workspace is not None and first.subject_id is not None:
            first.keys[first.workspace.partition] += keys_to_read(first.subject_id, keyed)

        def run(transaction: Transaction) -> Receipt:
            principal = self.authority.authorize(
                transaction, token, capabilities=keyed.command.capabilities, scope=scope
            )
            if takes_slot:
                self._slots.admit()
            partition = MemoryPartition(transaction, principal.workspace(scope).partition)
            outcome = execute_command(partition, principal.author, keyed)
            writes_record = keyed.command.family == MEMORY_FAMILY and not outcome.is_replay
            register(transaction, principal, scope, outcome.receipt if writes_record else None)
            return outcome.receipt

        return run_transaction(self.store, run, prefetch=first.keys)

    def read(
        self,
        token: Token,
        scope: Scope,
        function: Callable[[MemoryPartition], T],
        *,
        capabilities: Sequence[str],
        partition_keys: Iterable[bytes] = (),
        takes_slot: bool = False,
        pin: bool = False,
    ) -> T:
        """Run a read over one snapshot. Its first success for an agent registers the agent.

        Args:
            token: Of the caller.
            scope: Where.
            function: The read; may run more than once.
            capabilities: All of these are needed.
            partition_keys: Keys of the partition that the read will want at once.
            takes_slot: The route needs an admission slot.
            pin: The read is known to need more rounds than one.

        Raises:
            WaggleError: The documented refusal.
        """
        first = self.authority.first_round(token, scope, registers=True)
        if first.workspace is not None:
            first.keys[first.workspace.partition] += partition_keys

        def run(transaction: Transaction) -> tuple[T, Principal | None]:
            principal = self.authority.authorize(transaction, token, capabilities=capabilities, scope=scope)
            if takes_slot:
                self._slots.admit()
            result = function(MemoryPartition(transaction, principal.workspace(scope).partition))
            return result, None if is_agent_registered(transaction, principal, scope) else principal

        result, unregistered = run_transaction(self.store, run, prefetch=first.keys, pin=pin)
        if unregistered is not None:
            self._register_reader(unregistered, scope)
        return result

    def _register_reader(self, principal: Principal, scope: Scope) -> None:
        # A transaction of its own: a read must not conflict with writes to what it has read.
        def run(transaction: Transaction) -> None:
            register_agent(transaction, principal, scope, request_trigger())

        agent_key = keys.agent_key(principal.company_id, scope.agent_id)
        run_transaction(self.store, run, prefetch={IDENTITY_PARTITION: [agent_key]})


def register(transaction: Transaction, principal: Principal, scope: Scope, receipt: Receipt | None) -> None:
    """Register the agent of a successful command, and the workspace of a new record.

    Args:
        transaction: Of the command.
        principal: Its caller.
        scope: Its scope.
        receipt: The receipt of a memory command that wrote something; None for any other command and for a replay.
    """
    if receipt is None:
        register_agent(transaction, principal, scope, request_trigger())
        return
    if receipt["action"] in ("created", "derived"):
        register_workspace(transaction, principal, scope)
    trigger = command_trigger(receipt["record_id"], receipt["revision"], receipt["action"])
    register_agent(transaction, principal, scope, trigger)

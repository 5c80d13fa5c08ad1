"""Commands and reads of this service for authorized callers, over `services.workspace.access`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from services.domain.receipts import MEMORY_FAMILY, Receipt
from services.domain.scope import Scope
from services.identity.authority import Principal
from services.identity.directory import command_trigger, register_agent, register_workspace, request_trigger
from services.identity.tokens import Token
from services.memory.execute_command import KeyedCommand, execute_command, keys_to_read
from services.runtime.fault_points import fault_point
from services.storage.transaction import Transaction
from services.workspace.access import Visit, WorkspaceAccess
from services.workspace.partition import MemoryPartition

T = TypeVar("T")


class PartitionAccess(WorkspaceAccess):
    """Runs commands and reads for authorized callers. One for each process; safe to use from many threads."""

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

        def run(visit: Visit) -> Receipt:
            outcome = execute_command(visit.partition, visit.principal.author, keyed)
            writes_record = keyed.command.family == MEMORY_FAMILY and not outcome.is_replay
            register(visit.transaction, visit.principal, scope, outcome.receipt if writes_record else None)
            fault_point("memory.before_commit")
            return outcome.receipt

        receipt = self.write(
            token,
            scope,
            run,
            capabilities=keyed.command.capabilities,
            partition_keys=lambda subject_id: keys_to_read(subject_id, keyed),
            takes_slot=takes_slot,
        )
        fault_point("memory.after_commit")
        return receipt

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
        """Run a read over one snapshot; see `WorkspaceAccess.view`."""
        return self.view(
            token,
            scope,
            lambda visit: function(visit.partition),
            capabilities=capabilities,
            partition_keys=lambda _subject_id: partition_keys,
            takes_slot=takes_slot,
            pin=pin,
        )


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

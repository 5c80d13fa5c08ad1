"""One import: each batch of commands becomes one durable commit."""

from __future__ import annotations

from dataclasses import dataclass

from services.domain.errors import InvalidRequest
from services.domain.records import SourceRef
from services.domain.scope import Scope
from services.identity.tokens import Token
from services.memory.access import PartitionAccess, register
from services.memory.import_commands import BatchResult, ImportItem, ImportOutcome, batch_keys, import_commands
from services.storage.transaction import Transaction, run_transaction
from services.workspace.partition import MemoryPartition


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an import is; counts run from its start.

    Attributes:
        committed: Commands carried out by this import; they are durable.
        replayed: Commands that had been carried out before.
        sequence: Sequence of the storage commit that holds the last committed command; 0 while there is none.
    """

    committed: int = 0
    replayed: int = 0
    sequence: int = 0


class ImportSession:
    """The state of one import. Used by one thread.

    Attributes:
        progress: What is durable so far.
    """

    def __init__(self, access: PartitionAccess, token: Token, scope: Scope) -> None:
        """Begin an import.

        Args:
            access: Authorizes each batch.
            token: Of the caller.
            scope: Where every command applies.

        Raises:
            Unauthorized: The caller has no valid credential.
            Forbidden: The credential does not reach the scope.
        """
        self._access = access
        self._token = token
        self._scope = scope
        self._sequence = 0
        self._created: dict[str, SourceRef] = {}
        self.progress = Progress()
        access.check(token, scope)

    def commit(self, items: list[ImportItem]) -> list[ImportOutcome]:
        """Carry out a batch durably.

        Args:
            items: At least one command, within the bounds of `import_batches`.

        Returns:
            One outcome for each command, in order.

        Raises:
            ImportRefused: A command was refused; nothing of the batch was written.
            Unauthorized: The credential is no longer valid.
            Forbidden: It no longer reaches the scope.
        """
        result = self._commit(items)
        self._created.update(result.created)
        replayed = sum(outcome.is_replay for outcome in result.outcomes)
        before = self.progress
        self.progress = Progress(
            before.committed + len(items) - replayed, before.replayed + replayed, self._sequence or before.sequence
        )
        return result.outcomes

    def _commit(self, items: list[ImportItem]) -> BatchResult:
        authority, scope = self._access.authority, self._scope
        self._sequence = 0

        def run(transaction: Transaction) -> BatchResult:
            principal = authority.authorize(transaction, self._token, scope=scope)
            partition = MemoryPartition(transaction, principal.workspace(scope).partition)
            held = frozenset(principal.credential.held_capabilities)
            result = import_commands(partition, principal.author, held, items, self._created)
            register(transaction, principal, scope, result.first_written)
            return result

        def note(sequence: int) -> None:
            self._sequence = sequence

        first = authority.first_round(self._token, scope, registers=True)
        if first.workspace is None or first.subject_id is None:
            return run_transaction(self._access.store, run, prefetch=first.keys, on_commit=note)
        ahead = {partition: list(wanted) for partition, wanted in first.keys.items()}
        ahead[first.workspace.partition] += batch_keys(first.subject_id, items, self._created)
        try:
            return run_transaction(self._access.store, run, prefetch=ahead, on_commit=note)
        except InvalidRequest:
            # Refusals of commands come as ImportRefused. This one is of storage: the records that the batch names are
            # together larger than one answer may be, so they are read one by one.
            return run_transaction(self._access.store, run, prefetch=first.keys, on_commit=note)

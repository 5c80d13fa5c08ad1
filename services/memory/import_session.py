"""One import: commands are gathered into batches, and each batch becomes one durable commit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from services.domain.errors import InvalidRequest
from services.domain.records import SourceRef
from services.domain.scope import Scope
from services.identity.tokens import Token
from services.memory.access import PartitionAccess, register
from services.memory.import_commands import BatchResult, ImportItem, ImportOutcome, batch_keys, import_commands
from services.memory.partition import MemoryPartition
from services.storage.contract import KEYS_MAX
from services.storage.transaction import Transaction, run_transaction

BATCH_COMMANDS_DEFAULT: Final = 1_024
BATCH_BYTES: Final = 8 * 1024 * 1024
# The registration of agent and workspace needs a few keys of its own.
_BATCH_KEYS_MAX: Final = KEYS_MAX - 8


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

    def __init__(self, access: PartitionAccess, token: Token, scope: Scope, *, batch_commands: int) -> None:
        """Begin an import.

        Args:
            access: Authorizes each batch.
            token: Of the caller.
            scope: Where every command applies.
            batch_commands: Greatest number of commands in a batch.

        Raises:
            Unauthorized: The caller has no valid credential.
            Forbidden: The credential does not reach the scope.
        """
        self._access = access
        self._token = token
        self._scope = scope
        self._batch_commands = batch_commands
        self._items: list[ImportItem] = []
        self._bytes = 0
        self._key_count = 0
        self._created: dict[str, SourceRef] = {}
        self.progress = Progress()
        access.check(token, scope)

    @property
    def is_full(self) -> bool:
        """The batch has as many commands or bytes as it may."""
        return len(self._items) >= self._batch_commands or self._bytes >= BATCH_BYTES

    def has_room(self, item: ImportItem, size_bytes: int) -> bool:
        """Whether the batch can take one more command; a batch without any always can."""
        if not self._items:
            return True
        has_keys = self._key_count + item.key_count_max <= _BATCH_KEYS_MAX
        return has_keys and not self.is_full and self._bytes + size_bytes <= BATCH_BYTES

    def add(self, item: ImportItem, size_bytes: int) -> None:
        """Add a command to the batch.

        Args:
            item: The command.
            size_bytes: Its size as a request.
        """
        self._items.append(item)
        self._bytes += size_bytes
        self._key_count += item.key_count_max

    def commit_batch(self) -> list[ImportOutcome]:
        """Carry out the batch durably and begin the next one.

        Returns:
            One outcome for each command, in order.

        Raises:
            ImportRefused: A command was refused; nothing of the batch was written.
            Unauthorized: The credential is no longer valid.
            Forbidden: It no longer reaches the scope.
        """
        items, self._items, self._bytes, self._key_count = self._items, [], 0, 0
        if not items:
            return []
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

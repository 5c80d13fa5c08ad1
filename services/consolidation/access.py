"""Commands and reads of jobs for authorized callers, over `services.workspace.access`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from services.consolidation.commands import ClaimJob, CreateJob, PublishJob
from services.consolidation.execute_command import KeyedCommand, execute_command
from services.consolidation.instruments import counted
from services.consolidation.job_partition import JobPartition
from services.consolidation.manifest_memory import ManifestMemory
from services.domain import keys
from services.domain.receipts import CONSOLIDATION_FAMILY, Receipt
from services.domain.scope import Scope
from services.identity.authority import Authority, Principal
from services.identity.directory import register_agent, request_trigger
from services.identity.tokens import Token
from services.runtime.admission import AdmissionPool
from services.runtime.fault_points import fault_point
from services.storage.contract import Store
from services.workspace.access import Visit, WorkspaceAccess

READ: Final = ("memory_read",)
READ_AND_WRITE: Final = ("memory_read", "memory_write")

T = TypeVar("T")


class JobAccess:
    """Runs commands and reads for the owners of jobs. One for each process; safe to use from many threads.

    Every request takes an admission slot.
    """

    def __init__(self, store: Store, authority: Authority, slots: AdmissionPool) -> None:
        self._workspaces = WorkspaceAccess(store, authority, slots)
        self._manifests = ManifestMemory()

    def execute(self, token: Token, scope: Scope, keyed: KeyedCommand) -> Receipt:
        """Carry out a command, or find that it was carried out before.

        Args:
            token: Of the caller, who is also the owner.
            scope: Where.
            keyed: The command.

        Raises:
            WaggleError: The documented refusal; then nothing was written.
        """

        def run(visit: Visit) -> Receipt:
            author = visit.principal.author
            receipt = execute_command(self._jobs(visit), author, keyed)
            register_agent(visit.transaction, visit.principal, scope, request_trigger())
            fault_point("consolidation.before_commit")
            return receipt

        with counted(keyed.command.action):
            receipt = self._workspaces.write(
                token,
                scope,
                run,
                capabilities=READ_AND_WRITE,
                partition_keys=lambda subject_id: self._keys_to_read(subject_id, keyed),
                takes_slot=True,
            )
        fault_point("consolidation.after_commit")
        return receipt

    def read(
        self,
        token: Token,
        scope: Scope,
        function: Callable[[JobPartition, Principal], T],
        *,
        capabilities: Sequence[str] = READ,
        partition_keys: Callable[[str], Iterable[bytes]] = lambda _subject_id: (),
        pin: bool = False,
    ) -> T:
        """Run a read over one snapshot; see `WorkspaceAccess.view`.

        Args:
            token: Of the caller.
            scope: Where.
            function: The read, of the caller's own jobs.
            capabilities: All of these are needed.
            partition_keys: Keys that the read will usually want, for the subject that makes it.
            pin: The read is known to need more rounds than one.

        Raises:
            WaggleError: The documented refusal.
        """
        return self._workspaces.view(
            token,
            scope,
            lambda visit: function(self._jobs(visit), visit.principal),
            capabilities=capabilities,
            partition_keys=partition_keys,
            takes_slot=True,
            pin=pin,
        )

    def job_and_sources(self, job_id: str) -> Callable[[str], list[bytes]]:
        """Keys of a job and of its sources, as far as they are known, for the subject that owns it."""
        return lambda subject_id: [keys.job_key(subject_id, job_id), *self._manifests.source_keys(job_id)]

    def _jobs(self, visit: Visit) -> JobPartition:
        return JobPartition(visit.partition, visit.principal.subject_id, on_job=self._manifests.note)

    def _keys_to_read(self, subject_id: str, keyed: KeyedCommand) -> list[bytes]:
        command = keyed.command
        wanted = [keys.receipt_key(CONSOLIDATION_FAMILY, subject_id, keyed.idempotency_key)]
        if isinstance(command, CreateJob):
            return wanted + [keys.record_key(source.record_id) for source in command.spec.sources]
        wanted.append(keys.job_key(subject_id, command.job_id))
        if isinstance(command, ClaimJob | PublishJob):
            wanted += self._manifests.source_keys(command.job_id)
        return wanted

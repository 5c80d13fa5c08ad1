"""Access of a company's administrators to any of its workspaces: what every request of theirs goes through.

Order: authentication, capability, admission, then the workspace is looked up. The company is that of the credential. No
data grant is asked for, no subject's rights are borrowed and no agent is registered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

from services.domain import keys
from services.domain.scope import Workspace
from services.identity.authority import Authority, Principal
from services.identity.credentials import CREDENTIAL_ADMIN
from services.identity.tokens import Token
from services.runtime.admission import AdmissionPool
from services.storage.contract import Store
from services.storage.transaction import Transaction, run_transaction
from services.workspace.company_directory import checked_workspace
from services.workspace.partition import MemoryPartition

COMPANY_CAPABILITIES: Final = (CREDENTIAL_ADMIN,)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CompanyVisit:
    """One run of a request of an administrator.

    Attributes:
        principal: The administrator.
        partition: The workspace that it looks at.
    """

    principal: Principal
    partition: MemoryPartition


class CompanyAccess:
    """Runs requests for administrators of companies. One for each process; safe to use from many threads."""

    def __init__(self, store: Store, authority: Authority, slots: AdmissionPool) -> None:
        self._store = store
        self._authority = authority
        self._slots = slots

    def survey(self, token: Token, function: Callable[[Transaction, str], T]) -> tuple[str, T]:
        """Run a read of the whole company over one pinned snapshot. Returns the company and what was read.

        Args:
            token: Of the caller.
            function: The read, given the company's id; may run more than once.

        Raises:
            WaggleError: The documented refusal.
        """

        def run(transaction: Transaction) -> tuple[str, T]:
            company_id = self._enter(transaction, token).company_id
            return company_id, function(transaction, company_id)

        return run_transaction(self._store, run, prefetch=self._authority.first_round(token, None).keys, pin=True)

    def visit(
        self,
        token: Token,
        workspace_id: str,
        function: Callable[[CompanyVisit], T],
        *,
        partition_keys: Iterable[bytes] = (),
        pin: bool = False,
    ) -> tuple[Workspace, T]:
        """Run a read or a command in one workspace, in one transaction. Returns the workspace and the result.

        Args:
            token: Of the caller.
            workspace_id: 64 hexadecimal digits.
            function: What to run; may run more than once.
            partition_keys: Keys of the partition that it will usually read.
            pin: It is known to need more rounds than one.

        Raises:
            RecordNotFound: The company has no such workspace.
            WaggleError: The documented refusal; then nothing was written.
        """
        partition = bytes.fromhex(workspace_id)
        wanted = self._authority.first_round(token, None).keys
        wanted.setdefault(partition, []).extend((keys.WORKSPACE, *partition_keys))

        def run(transaction: Transaction) -> tuple[Workspace, T]:
            principal = self._enter(transaction, token)
            stored = transaction.get(partition, keys.WORKSPACE)
            workspace = checked_workspace(stored, principal.company_id, partition)
            return workspace, function(CompanyVisit(principal, MemoryPartition(transaction, partition)))

        return run_transaction(self._store, run, prefetch=wanted, pin=pin)

    def _enter(self, transaction: Transaction, token: Token) -> Principal:
        principal = self._authority.authorize(transaction, token, capabilities=COMPANY_CAPABILITIES)
        self._slots.admit()
        return principal

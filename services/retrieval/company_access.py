"""Access of a company's administrators to any of its partitions in memory.

Order: authentication, capability, admission, then the workspace is looked up. Warm and cold alike, this costs one
storage read, since the workspace says itself which company it belongs to.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from services.domain import keys
from services.domain.eligibility import DependencyCache
from services.domain.scope import Workspace
from services.identity.authority import Authority
from services.identity.tokens import Token
from services.retrieval.access import Retrieval
from services.retrieval.replica import Replica
from services.runtime.admission import AdmissionPool
from services.storage.contract import Store
from services.storage.reader import SnapshotReader
from services.workspace.company_access import COMPANY_CAPABILITIES
from services.workspace.company_directory import checked_workspace

T = TypeVar("T")


class CompanyRetrievalAccess:
    """Runs retrievals for administrators of companies. One for each process; safe to use from many threads."""

    def __init__(self, store: Store, authority: Authority, slots: AdmissionPool, replica: Replica) -> None:
        self._store = store
        self._authority = authority
        self._slots = slots
        self._replica = replica

    def run(self, token: Token, workspace_id: str, function: Callable[[Retrieval], T]) -> tuple[Workspace, T]:
        """Run a retrieval in one workspace. Returns the workspace and the result.

        Args:
            token: Of the caller.
            workspace_id: 64 hexadecimal digits.
            function: The retrieval and the making of its answer.

        Raises:
            RecordNotFound: The company has no such workspace.
            WaggleError: The documented refusal.
            StorageFailure: Storage cannot serve.
        """
        partition_id = bytes.fromhex(workspace_id)
        wanted = self._authority.first_round(token, None).keys
        wanted.setdefault(partition_id, []).append(keys.WORKSPACE)
        found = SnapshotReader(self._store, wanted, pin=False)
        principal = self._authority.authorize(found, token, capabilities=COMPANY_CAPABILITIES)
        self._slots.admit()
        started_ns = time.perf_counter_ns()
        workspace = checked_workspace(found.get(partition_id, keys.WORKSPACE), principal.company_id, partition_id)
        head, incarnation = found.head(partition_id), found.incarnation
        with self._replica.open(partition_id, head=head, incarnation=incarnation) as partition:
            retrieval = Retrieval(partition, found.clock_ms, DependencyCache(partition), started_ns)
            return workspace, function(retrieval)

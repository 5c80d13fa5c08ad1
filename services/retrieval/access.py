"""Authorized access to a partition in memory: what every method of this service goes through.

Order: authentication, capability and scope, admission; then the replica is brought up to the head that was read
together with the credential, and the answer is worked out at that sequence and clock. Warm, this costs one storage
read.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from services.domain.eligibility import DependencyCache
from services.domain.scope import IDENTITY_PARTITION, Scope
from services.identity.authority import Authority
from services.identity.reader_registration import register_reader
from services.identity.tokens import Token
from services.retrieval.partition import Partition
from services.retrieval.replica import Replica
from services.runtime.admission import AdmissionPool
from services.storage.contract import PartitionRead, Store

_CAPABILITIES: Final = ("memory_read",)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Retrieval:
    """One admitted request on one partition.

    Attributes:
        partition: Not changed meanwhile.
        now_ms: The request's clock.
        cache: The request's dependency lookups.
        started_ns: Monotonic time of admission, nanoseconds.
    """

    partition: Partition
    now_ms: int
    cache: DependencyCache
    started_ns: int

    def elapsed_micros(self) -> int:
        """Microseconds since admission."""
        return (time.perf_counter_ns() - self.started_ns) // 1000


class RetrievalAccess:
    """Runs retrievals for authorized callers. One for each process; safe to use from many threads."""

    def __init__(self, store: Store, authority: Authority, slots: AdmissionPool, replica: Replica) -> None:
        self._store = store
        self._authority = authority
        self._slots = slots
        self._replica = replica

    def check(self, token: Token) -> None:
        """Let a caller see what belongs to no scope.

        Raises:
            Unauthorized: No valid credential.
            Forbidden: It may not read memories.
        """
        first = self._authority.first_round(token, None)
        found = self._store.read([PartitionRead(IDENTITY_PARTITION, first.keys[IDENTITY_PARTITION])])
        values = found.partitions[0].values
        self._authority.authorize_stored(
            values[0].value, token, session=values[-1].value, now_ms=found.clock_ms, capabilities=_CAPABILITIES
        )

    def run(self, token: Token, scope: Scope, function: Callable[[Retrieval], T]) -> T:
        """Run a retrieval. Its first success for an agent registers the agent.

        Args:
            token: Of the caller.
            scope: Where.
            function: The retrieval and the making of its answer.

        Raises:
            WaggleError: The documented refusal.
            StorageFailure: Storage cannot serve.
        """
        while True:
            first = self._authority.first_round(token, scope, registers=True)
            found = self._store.read([PartitionRead(partition, wanted) for partition, wanted in first.keys.items()])
            identity = found.partitions[0]
            principal = self._authority.authorize_stored(
                identity.values[0].value,
                token,
                session=identity.values[-1].value,
                now_ms=found.clock_ms,
                capabilities=_CAPABILITIES,
                scope=scope,
            )
            self._slots.admit()
            if first.workspace is not None:
                break
            # Seen for the first time in this process: only now is it known which partition to ask for.
        started_ns = time.perf_counter_ns()
        with self._replica.open(
            first.workspace.partition, head=found.partitions[1].head, incarnation=found.incarnation
        ) as partition:
            result = function(Retrieval(partition, found.clock_ms, DependencyCache(partition), started_ns))
        if identity.values[1].value is None:
            register_reader(self._store, principal, scope)
        return result

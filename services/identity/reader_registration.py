"""Registering the agent of a request that wrote nothing else."""

from __future__ import annotations

from services.domain import keys
from services.domain.errors import StorageFull, StorageInconsistency
from services.domain.scope import IDENTITY_PARTITION, Scope
from services.identity.authority import Principal
from services.identity.directory import register_agent, request_trigger
from services.runtime.logging import get_logger
from services.storage.contract import Store
from services.storage.errors import StorageFailure
from services.storage.transaction import Transaction, run_transaction

log = get_logger()


def register_reader(store: Store, principal: Principal, scope: Scope) -> None:
    """Register the scope's agent after a successful read, in a transaction of its own, so that no read conflicts.

    While writes are refused or fail, reads go on all the same, and the next one registers.
    """

    def run(transaction: Transaction) -> None:
        register_agent(transaction, principal, scope, request_trigger())

    agent_key = keys.agent_key(principal.company_id, scope.agent_id)
    try:
        run_transaction(store, run, prefetch={IDENTITY_PARTITION: [agent_key]})
    except (StorageFailure, StorageFull, StorageInconsistency) as error:
        log.warning("agent_not_registered", cause=type(error).__name__)

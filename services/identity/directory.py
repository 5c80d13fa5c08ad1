"""What a company's first requests leave behind: its agents and its workspaces.

Both entries are written once and never change, so that commands which only read them never conflict over them. Commands
write them in their own commit; `Authority.first_round(registers=True)` reads them ahead.
"""

from __future__ import annotations

from typing import Any, Protocol

from services.domain import keys
from services.domain.canonical_json import canonical_bytes
from services.domain.scope import IDENTITY_PARTITION, Scope
from services.identity.authority import CredentialReader, Principal


class DirectoryWriter(CredentialReader, Protocol):
    """What registration needs of a transaction."""

    def put(self, partition: bytes, key: bytes, value: bytes) -> None:
        """Buffer a write."""
        ...


def request_trigger() -> dict[str, Any]:
    """The trigger of a registration by a successful request that writes nothing else."""
    return {"kind": "successful_resource_request"}


def command_trigger(record_id: str, revision: int, action: str) -> dict[str, Any]:
    """The trigger of a registration by a memory command.

    Args:
        record_id: The record that the command wrote.
        revision: Its revision after the command.
        action: "created", "updated", "deleted" or "derived".
    """
    return {"kind": "memory_command", "record_id": record_id, "revision": revision, "action": action}


def is_agent_registered(reader: CredentialReader, principal: Principal, scope: Scope) -> bool:
    """Whether the scope's agent is registered with the caller's company."""
    return reader.get(IDENTITY_PARTITION, keys.agent_key(principal.company_id, scope.agent_id)) is not None


def register_agent(transaction: DirectoryWriter, principal: Principal, scope: Scope, trigger: dict[str, Any]) -> None:
    """Register the scope's agent with the caller's company unless it is registered already.

    Args:
        transaction: The transaction of the request.
        principal: The authorized caller.
        scope: Scope of the request.
        trigger: What made the registration: `command_trigger` or `request_trigger`.
    """
    if is_agent_registered(transaction, principal, scope):
        return
    registration = {
        "agent_id": scope.agent_id,
        "registered_at_millis": transaction.clock_ms,
        "registered_by": principal.author.as_json(),
        "first_scope": scope.as_json(),
        "private_subject_id": principal.workspace(scope).private_subject_id,
        "trigger": trigger,
    }
    key = keys.agent_key(principal.company_id, scope.agent_id)
    transaction.put(IDENTITY_PARTITION, key, canonical_bytes(registration))


def register_workspace(transaction: DirectoryWriter, principal: Principal, scope: Scope) -> None:
    """Enter the caller's workspace in its company's directory unless it is there already.

    Called by whatever commits a record: a workspace exists once a record was ever committed in it. The entry in the
    workspace's own partition tells whether the directory has it, since both are written in one commit.
    """
    workspace = principal.workspace(scope)
    partition = workspace.partition
    if transaction.get(partition, keys.WORKSPACE) is not None:
        return
    entry = canonical_bytes(workspace.as_json())
    transaction.put(partition, keys.WORKSPACE, entry)
    transaction.put(IDENTITY_PARTITION, keys.company_workspace_key(principal.company_id, partition), entry)

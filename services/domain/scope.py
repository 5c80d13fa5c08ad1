"""Scope and partition: which memory a request may touch."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

Visibility = Literal["private", "shared"]

# The partition that holds credentials and directories. It has no address, so its id cannot meet a workspace's.
IDENTITY_PARTITION = hashlib.sha256(b"waggle.partition.identity.v1").digest()


@dataclass(frozen=True, slots=True)
class Scope:
    """The part of a partition's address that a request names. No mission means the missionless scope, no wildcard."""

    project_id: str
    mission_id: str | None
    agent_id: str
    visibility: Visibility

    def as_json(self) -> dict[str, Any]:
        """The documented object, with `mission_id` null when missing."""
        return {
            "project_id": self.project_id,
            "mission_id": self.mission_id,
            "agent_id": self.agent_id,
            "visibility": self.visibility,
        }


def scope_from_json(value: dict[str, Any]) -> Scope:
    """Read the documented object; `mission_id` may be absent."""
    return Scope(value["project_id"], value.get("mission_id"), value["agent_id"], value["visibility"])


@dataclass(frozen=True, slots=True)
class Workspace:
    """The whole address of a partition."""

    company_id: str
    scope: Scope
    private_subject_id: str | None

    def as_json(self) -> dict[str, Any]:
        """Stored form; the workspace id is derived, not stored."""
        return {
            "company_id": self.company_id,
            "scope": self.scope.as_json(),
            "private_subject_id": self.private_subject_id,
        }

    @property
    def partition(self) -> bytes:
        """Partition id, 32 bytes."""
        return partition_id(self.company_id, self.scope, self.private_subject_id)


def workspace_from_json(value: dict[str, Any]) -> Workspace:
    """Read the stored form."""
    return Workspace(value["company_id"], scope_from_json(value["scope"]), value["private_subject_id"])


def workspace_for(company_id: str, scope: Scope, subject_id: str) -> Workspace:
    """The workspace that a subject reaches through a scope: its own when private, the common one when shared."""
    return Workspace(company_id, scope, subject_id if scope.visibility == "private" else None)


@lru_cache(maxsize=4096)
def partition_id(company_id: str, scope: Scope, private_subject_id: str | None) -> bytes:
    """SHA-256 over the canonical tuple of the address, 32 bytes.

    Each component is written as a presence byte, its length and its UTF-8 bytes, so that no separator inside a name can
    make two addresses alike.
    """
    parts = [b"waggle.partition.v1"]
    components = (company_id, scope.project_id, scope.mission_id, scope.agent_id, scope.visibility, private_subject_id)
    for component in components:
        if component is None:
            parts.append(b"\x00")
        else:
            encoded = component.encode()
            parts.append(b"\x01" + len(encoded).to_bytes(4, "big") + encoded)
    return hashlib.sha256(b"".join(parts)).digest()

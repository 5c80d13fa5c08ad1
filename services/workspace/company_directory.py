"""The workspaces of a company, found by id or listed, whoever writes to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from services.domain import keys
from services.domain.canonical_json import parse_canonical
from services.domain.errors import RecordNotFound, StorageInconsistency
from services.domain.scope import IDENTITY_PARTITION, Visibility, Workspace, workspace_from_json

LIMIT_DEFAULT: Final = 25

MEMBER: Final = "workspace_id"


class DirectoryReader(Protocol):
    """What listing needs of a snapshot."""

    def scan(self, partition: bytes, start: bytes, end: bytes = b"", *, limit: int = 0) -> list[tuple[bytes, bytes]]:
        """Return rows in key order."""
        ...


@dataclass(frozen=True, slots=True)
class WorkspacePage:
    """Workspaces in ascending order of their ids, and the last id, 64 hexadecimal digits, when more follow."""

    workspaces: tuple[Workspace, ...]
    next_after: str | None


@dataclass(frozen=True, slots=True)
class WorkspaceSelection:
    """Parts of addresses; all that are not None must hold. `workspace_id` is 64 hexadecimal digits."""

    project_id: str | None = None
    agent_id: str | None = None
    private_subject_id: str | None = None
    workspace_id: str | None = None
    visibility: Visibility | None = None

    def as_json(self) -> dict[str, str | None]:
        """The selection as cursors are bound to it."""
        return {
            "project_id": self.project_id,
            "agent_id": self.agent_id,
            "private_subject_id": self.private_subject_id,
            "workspace_id": self.workspace_id,
            "visibility": self.visibility,
        }

    def matches(self, workspace: Workspace) -> bool:
        """Whether a workspace is selected."""
        scope = workspace.scope
        pairs = (
            (self.project_id, scope.project_id),
            (self.agent_id, scope.agent_id),
            (self.private_subject_id, workspace.private_subject_id),
            (self.workspace_id, workspace.partition.hex()),
            (self.visibility, scope.visibility),
        )
        return all(wanted is None or wanted == found for wanted, found in pairs)


def checked_workspace(stored: bytes | None, company_id: str, partition: bytes, *, member: str = MEMBER) -> Workspace:
    """The workspace of a company whose id an administrator has named.

    Args:
        stored: Value of the workspace entry in the partition itself, None when absent.
        company_id: Company of the administrator.
        partition: The id, 32 bytes.
        member: Where the request names it.

    Raises:
        RecordNotFound: There is none, or it is another company's: which one is not told.
        StorageInconsistency: The entry lies in the partition of another workspace.
    """
    workspace = None if stored is None else workspace_from_json(parse_canonical(stored))
    if workspace is None or workspace.company_id != company_id:
        raise RecordNotFound("no such workspace", member=member)
    if workspace.partition != partition:
        raise StorageInconsistency("a workspace entry lies in the partition of another")
    return workspace


def list_workspaces(reader: DirectoryReader, company_id: str, *, limit: int, after: str | None) -> WorkspacePage:
    """Read one page of a company's directory.

    Args:
        reader: A snapshot that can be read in several rounds.
        company_id: The company.
        limit: Greatest number of workspaces, from 1.
        after: Only ids above this one, 64 hexadecimal digits; None for the first page.

    Raises:
        StorageInconsistency: An entry does not belong to its key.
    """
    after_key = None if after is None else keys.company_workspace_key(company_id, bytes.fromhex(after))
    found = _entries(reader, company_id, after_key, limit=limit + 1)
    return WorkspacePage(tuple(found[:limit]), found[limit - 1].partition.hex() if len(found) > limit else None)


def select_workspaces(reader: DirectoryReader, company_id: str, selection: WorkspaceSelection) -> list[Workspace]:
    """All workspaces of a company that are selected, in ascending order of their ids.

    Raises:
        RecordNotFound: The selection names a workspace that the company does not have.
        StorageInconsistency: An entry does not belong to its key.
    """
    found = _entries(reader, company_id, None, limit=0)
    wanted = selection.workspace_id
    if wanted is not None and all(workspace.partition.hex() != wanted for workspace in found):
        raise RecordNotFound("no such workspace", member=f"selection.{MEMBER}")
    return [workspace for workspace in found if selection.matches(workspace)]


def _entries(reader: DirectoryReader, company_id: str, after_key: bytes | None, *, limit: int) -> list[Workspace]:
    prefix = keys.COMPANY_WORKSPACE + keys.company_tag(company_id)
    start = prefix if after_key is None else after_key + b"\x00"
    workspaces = []
    for key, value in reader.scan(IDENTITY_PARTITION, start, keys.prefix_end(prefix), limit=limit):
        workspace = workspace_from_json(parse_canonical(value))
        if keys.company_workspace_key(company_id, workspace.partition) != key:
            raise StorageInconsistency("a company's directory names a workspace that is not its own")
        workspaces.append(workspace)
    return workspaces

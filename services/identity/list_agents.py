"""The directory of a company's agents, page by page in the order of their ids' UTF-8 bytes."""

from __future__ import annotations

from typing import Any

from services.domain import keys
from services.domain.canonical_json import parse_canonical
from services.domain.errors import StorageInconsistency
from services.identity.authority import Principal
from services.identity.directory_page import DirectoryReader, Page, scan_page


def list_agents(
    reader: DirectoryReader, principal: Principal, *, limit: int, after_agent_id: str | None
) -> Page[dict[str, Any]]:
    """Read one page of the caller's company.

    Args:
        reader: A snapshot.
        principal: The caller, authorized with `credential_admin`.
        limit: Greatest number of agents, from 1.
        after_agent_id: Only agents after this one, which need not exist; None for the first page.

    Returns:
        The documented registrations.

    Raises:
        StorageInconsistency: A stored registration cannot be read, or lies under the key of another agent.
    """
    prefix = keys.AGENT + keys.company_tag(principal.company_id)
    after = None if after_agent_id is None else after_agent_id.encode()
    rows = scan_page(reader, prefix, limit=limit, after=after)
    return Page([_registration(*row) for row in rows.items], rows.next_after)


def _registration(position: bytes, stored: bytes) -> dict[str, Any]:
    try:
        value: dict[str, Any] = parse_canonical(stored)
        if value["agent_id"].encode() == position:
            return value
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StorageInconsistency("a stored agent registration cannot be read") from error
    raise StorageInconsistency("a stored agent registration lies under the key of another agent")

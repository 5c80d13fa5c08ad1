"""Companies: their markers, the registrations of those that a global credential created, and their administrators.

A marker is written once and never changes; it stays when every administrator of the company is gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from services.domain import keys
from services.domain.canonical_json import canonical_bytes, parse_canonical
from services.domain.errors import RevisionConflict, StorageInconsistency, TenantNotFound
from services.domain.scope import IDENTITY_PARTITION
from services.identity.authority import CredentialReader, GlobalPrincipal
from services.identity.credential_commands import MakesCredential, enter_credential
from services.identity.credentials import Credential
from services.identity.directory import DirectoryWriter
from services.identity.directory_page import DirectoryReader, Page, check_page_bytes, scan_page
from services.identity.history import Change
from services.identity.transitions import appoint_administrator

REGISTRATION_SCHEMA_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTenant(MakesCredential):
    """Make a company and its first administrator."""

    tenant_id: str
    subject_id: str
    display_name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IssueTenantAdmin(MakesCredential):
    """Appoint another administrator of a company."""

    tenant_id: str
    subject_id: str


TenantCommand = CreateTenant | IssueTenantAdmin


def apply_tenant_command(
    transaction: DirectoryWriter, principal: GlobalPrincipal, command: TenantCommand
) -> Credential:
    """Apply a command of a global credential and buffer what it changes.

    Args:
        transaction: The transaction of the request.
        principal: The caller, authorized with `tenant_create` or `tenant_admin`.
        command: What to do.

    Returns:
        The administrator's credential.

    Raises:
        RevisionConflict: The company to create exists.
        TenantNotFound: The company to appoint for does not.
    """
    change = Change(change_id=command.change_id, actor_id=principal.credential_id, at_millis=transaction.clock_ms)
    is_first = isinstance(command, CreateTenant)
    credential = appoint_administrator(
        command.credential_id, command.tenant_id, command.subject_id, command.key.verifier, change, is_first=is_first
    )
    if isinstance(command, CreateTenant):
        registration = {
            "schema_version": REGISTRATION_SCHEMA_VERSION,
            "tenant_id": command.tenant_id,
            "created_at_millis": change.at_millis,
            "created_by": principal.credential_id,
            "initial_admin_id": command.credential_id,
        }
        if command.display_name is not None:
            registration["display_name"] = command.display_name
        enter_company(transaction, credential, registration)
    else:
        read_tenant(transaction, command.tenant_id)
        enter_credential(transaction, credential)
    return credential


def enter_company(transaction: DirectoryWriter, admin: Credential, registration: dict[str, Any] | None) -> None:
    """Store a new company with its first administrator.

    Args:
        transaction: The transaction.
        admin: At revision 1.
        registration: The documented object; None when the operator makes the company on the host.

    Raises:
        RevisionConflict: The company exists already.
    """
    if transaction.get(IDENTITY_PARTITION, keys.company_key(admin.tenant_id)) is not None:
        raise RevisionConflict("the company exists already", member="tenant_id")
    marker = {
        "company_id": admin.tenant_id,
        "created_at_millis": transaction.clock_ms,
        "initial_admin_id": admin.credential_id,
        "registration": registration,
    }
    transaction.put(IDENTITY_PARTITION, keys.company_key(admin.tenant_id), canonical_bytes(marker))
    enter_credential(transaction, admin)


def read_tenant(reader: CredentialReader, tenant_id: str) -> dict[str, Any]:
    """`{"tenant_id", "registration"}` of a company; the registration is None for one made on the host.

    Raises:
        TenantNotFound: There is no such company.
        StorageInconsistency: Its marker cannot be read.
    """
    stored = reader.get(IDENTITY_PARTITION, keys.company_key(tenant_id))
    if stored is None:
        raise TenantNotFound("there is no such company")
    return _entry(tenant_id.encode(), stored)


def list_tenants(reader: DirectoryReader, *, limit: int, after: bytes | None) -> Page[dict[str, Any]]:
    """Read one page of all companies, as `read_tenant` shows them, in the order of their names' UTF-8 bytes.

    Args:
        reader: A snapshot.
        limit: Greatest number of companies, from 1.
        after: Only names (UTF-8) above this one; None for the first page.

    Raises:
        InvalidRequest: The page would exceed 4 MiB.
        StorageInconsistency: A marker cannot be read.
    """
    rows = scan_page(reader, keys.COMPANY, limit=limit, after=after)
    items = [_entry(*row) for row in rows.items]
    check_page_bytes(items)
    return Page(items, rows.next_after)


def _entry(position: bytes, stored: bytes) -> dict[str, Any]:
    try:
        marker = parse_canonical(stored)
        entry = {"tenant_id": marker["company_id"], "registration": marker["registration"]}
        if entry["tenant_id"].encode() == position:
            return entry
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StorageInconsistency("a company's marker cannot be read") from error
    raise StorageInconsistency("a company's marker lies under the key of another company")

"""The directory of a company's credentials, page by page in ascending order of their ids."""

from __future__ import annotations

from services.domain import keys
from services.domain.errors import StorageInconsistency
from services.domain.scope import IDENTITY_PARTITION
from services.identity.authority import Principal
from services.identity.credentials import Credential, decode_credential
from services.identity.directory_page import DirectoryReader, Page, check_page_bytes, scan_page


def list_credentials(
    reader: DirectoryReader, principal: Principal, *, limit: int, after: bytes | None
) -> Page[Credential]:
    """Read one page of the caller's company, revoked credentials included.

    Args:
        reader: A snapshot that can be read in several rounds.
        principal: The caller, authorized with `credential_admin`.
        limit: Greatest number of credentials, from 1.
        after: Only ids (16 bytes) above this one; None for the first page.

    Raises:
        InvalidRequest: The page would exceed 4 MiB; a lower limit helps.
        StorageInconsistency: The directory names a credential that is not there.
    """
    prefix = keys.COMPANY_CREDENTIAL + keys.company_tag(principal.company_id)
    rows = scan_page(reader, prefix, limit=limit, after=after)
    wanted = [keys.credential_key(keys.id_text(position)) for position, _ in rows.items]
    items = [_listed(value, principal.company_id) for value in reader.get_many(IDENTITY_PARTITION, wanted)]
    check_page_bytes(item.as_json() for item in items)
    return Page(items, rows.next_after)


def _listed(stored: bytes | None, company_id: str) -> Credential:
    credential = None if stored is None else decode_credential(stored)
    if credential is None or credential.tenant_id != company_id:
        raise StorageInconsistency("a company's directory names a credential that is not there")
    return credential

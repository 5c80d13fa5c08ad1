"""The directory of a company's credentials, page by page in ascending order of their ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from services.domain import keys
from services.domain.canonical_json import canonical_bytes
from services.domain.errors import InvalidRequest, StorageInconsistency
from services.domain.scope import IDENTITY_PARTITION
from services.identity.authority import CredentialReader, Principal
from services.identity.credentials import Credential, decode_credential

LIMIT_DEFAULT: Final = 25
PAGE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Greatest sum of the canonical sizes of the credentials on a page."""


class DirectoryReader(CredentialReader, Protocol):
    """What listing needs of a snapshot."""

    def get_many(self, partition: bytes, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return values in the order of their keys."""
        ...

    def scan(self, partition: bytes, start: bytes, end: bytes = b"", *, limit: int = 0) -> list[tuple[bytes, bytes]]:
        """Return rows in key order."""
        ...


@dataclass(frozen=True, slots=True)
class CredentialPage:
    """Credentials, and the id of the last one when more follow."""

    items: list[Credential]
    next_after: str | None


def list_credentials(reader: DirectoryReader, principal: Principal, *, limit: int, after: str | None) -> CredentialPage:
    """Read one page of the caller's company, revoked credentials included.

    Args:
        reader: A snapshot that can be read in several rounds.
        principal: The caller, authorized with `credential_admin`.
        limit: Greatest number of credentials, from 1.
        after: Only ids above this one; None for the first page.

    Raises:
        InvalidRequest: The page would exceed 4 MiB; a lower limit helps.
        StorageInconsistency: The directory names a credential that is not there.
    """
    prefix = keys.COMPANY_CREDENTIAL + keys.company_tag(principal.company_id)
    start = prefix if after is None else keys.company_credential_key(principal.company_id, after) + b"\x00"
    rows = reader.scan(IDENTITY_PARTITION, start, keys.prefix_end(prefix), limit=limit + 1)
    ids = [keys.id_text(key[len(prefix) :]) for key, _ in rows[:limit]]
    stored = reader.get_many(IDENTITY_PARTITION, [keys.credential_key(credential_id) for credential_id in ids])
    items = [_listed(value, principal.company_id) for value in stored]
    if sum(len(canonical_bytes(item.as_json())) for item in items) > PAGE_BYTES_MAX:
        raise InvalidRequest("the page would exceed 4 MiB", member="limit")
    return CredentialPage(items, ids[-1] if len(rows) > limit else None)


def _listed(stored: bytes | None, company_id: str) -> Credential:
    credential = None if stored is None else decode_credential(stored)
    if credential is None or credential.tenant_id != company_id:
        raise StorageInconsistency("a company's directory names a credential that is not there")
    return credential

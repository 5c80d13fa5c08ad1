"""Pages of the directories that administrators list, and their cursors.

A cursor is a position, sealed under the verifier key and bound to one directory of one owner. It holds across restarts
and has no expiry. Only its exact spelling is accepted.
"""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from services.domain import keys
from services.domain.canonical_json import canonical_bytes
from services.domain.errors import InvalidRequest
from services.domain.scope import IDENTITY_PARTITION
from services.identity.authority import CredentialReader

LIMIT_DEFAULT: Final = 25
PAGE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Greatest sum of the canonical sizes of the entries on a page."""

_TAG: Final = b"waggle.cursor.directory.v1\x00"
_SEAL_BYTES: Final = 32
_SPELLING: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)

Item = TypeVar("Item")


class DirectoryReader(CredentialReader, Protocol):
    """What listing needs of a snapshot."""

    def get_many(self, partition: bytes, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return values in the order of their keys."""
        ...

    def scan(self, partition: bytes, start: bytes, end: bytes = b"", *, limit: int = 0) -> list[tuple[bytes, bytes]]:
        """Return rows in key order."""
        ...


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """Entries, and the position of the last one when more follow."""

    items: list[Item]
    next_after: bytes | None


def scan_page(reader: DirectoryReader, prefix: bytes, *, limit: int, after: bytes | None) -> Page[tuple[bytes, bytes]]:
    """Read rows of the identity partition in key order.

    Args:
        reader: A snapshot that can be read in several rounds.
        prefix: Prefix of the directory's keys.
        limit: Greatest number of rows, from 1.
        after: Only positions (what follows the prefix) above this one; None for the first page.

    Returns:
        (position, value) of each row.
    """
    start = prefix if after is None else prefix + after + b"\x00"
    rows = reader.scan(IDENTITY_PARTITION, start, keys.prefix_end(prefix), limit=limit + 1)
    items = [(key[len(prefix) :], value) for key, value in rows[:limit]]
    return Page(items, items[-1][0] if len(rows) > limit else None)


def check_page_bytes(entries: Iterable[Any]) -> None:
    """Raise InvalidRequest when the documented objects of a page are together over 4 MiB; a lower limit helps."""
    if sum(len(canonical_bytes(entry)) for entry in entries) > PAGE_BYTES_MAX:
        raise InvalidRequest("the page would exceed 4 MiB", member="limit")


@dataclass(frozen=True, slots=True)
class DirectoryCursors:
    """The cursors of one directory.

    Attributes:
        verifier_key: 32 bytes.
        directory: Name of the directory.
        company_id: Its owner; None above companies.
    """

    verifier_key: bytes
    directory: str
    company_id: str | None

    def encode(self, position: bytes | None) -> str | None:
        """Seal a position; None for the end."""
        if position is None:
            return None
        return base64.urlsafe_b64encode(self._seal(position) + position).rstrip(b"=").decode("ascii")

    def decode(self, cursor: str | None) -> bytes | None:
        """Open a cursor; None for the start.

        Raises:
            InvalidRequest: Not a cursor of this directory and owner.
        """
        if cursor is None:
            return None
        content = b""
        if _SPELLING.fullmatch(cursor) and len(cursor) % 4 != 1:
            content = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        position = content[_SEAL_BYTES:]
        is_sealed = hmac.compare_digest(content[:_SEAL_BYTES], self._seal(position))
        # Spare bits of the last character would give one content several spellings.
        if not is_sealed or self.encode(position) != cursor:
            raise InvalidRequest("not a cursor of this directory", member="cursor")
        return position

    def _seal(self, position: bytes) -> bytes:
        owner = keys.owner_tag(self.company_id)
        return hmac.digest(self.verifier_key, _TAG + self.directory.encode() + b"\x00" + owner + position, "sha256")

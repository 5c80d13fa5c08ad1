"""Cursors of the ordered queries: a position, sealed under the verifier key and bound to what it continues.

They hold across restarts and have no expiry. Only their exact spelling is accepted.
"""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass
from typing import Any, Final

from services.domain.canonical_json import canonical_bytes
from services.domain.errors import InvalidRequest

POSITION_BYTES: Final = 24
"""A place in one workspace: time and record id."""
COMPANY_POSITION_BYTES: Final = 56
"""A place in a company: time, workspace id and record id."""

_SEAL_BYTES: Final = 32
_SPELLING: Final = re.compile(r"[0-9a-f]*")


@dataclass(frozen=True, slots=True)
class CursorSeal:
    """Seals and opens the cursors of one walk.

    Attributes:
        key: Verifier key, 32 bytes.
        walk: What a cursor belongs to: partition, order and filters, as a JSON value.
        endpoint: Name of the query.
        position_bytes: Length of its positions.
    """

    key: bytes
    walk: dict[str, Any]
    endpoint: str = "records_ordered"
    position_bytes: int = POSITION_BYTES

    def encode(self, position: bytes) -> str:
        """Seal a position. Returns two lower-case hexadecimal digits for each byte of it and of the seal."""
        return (position + self._seal(position)).hex()

    def decode(self, cursor: str) -> bytes:
        """Open a cursor of this walk.

        Raises:
            InvalidRequest: It is not one.
        """
        is_spelled = len(cursor) == 2 * (self.position_bytes + _SEAL_BYTES) and _SPELLING.fullmatch(cursor)
        content = bytes.fromhex(cursor) if is_spelled else b""
        position, seal = content[: self.position_bytes], content[self.position_bytes :]
        if not hmac.compare_digest(seal, self._seal(position)):
            raise InvalidRequest("does not belong to this query", member="query.cursor")
        return position

    def _seal(self, position: bytes) -> bytes:
        tag = f"waggle.cursor.{self.endpoint}.v1".encode() + b"\x00"
        return hmac.digest(self.key, tag + position + canonical_bytes(self.walk), "sha256")

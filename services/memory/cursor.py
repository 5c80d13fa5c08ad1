"""Cursors of the ordered query: a position, sealed under the verifier key and bound to what it continues.

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

_TAG: Final = b"waggle.cursor.records_ordered.v1\x00"
_SPELLING: Final = re.compile(r"[0-9a-f]{112}")


@dataclass(frozen=True, slots=True)
class CursorSeal:
    """Seals and opens the cursors of one walk.

    Attributes:
        key: Verifier key, 32 bytes.
        walk: What a cursor belongs to: partition, order and filters, as a JSON value.
    """

    key: bytes
    walk: dict[str, Any]

    def encode(self, position: bytes) -> str:
        """Seal a position: the rest of a key of the time index, 24 bytes. Returns 112 hexadecimal digits."""
        return (position + self._seal(position)).hex()

    def decode(self, cursor: str) -> bytes:
        """Open a cursor of this walk.

        Raises:
            InvalidRequest: It is not one.
        """
        content = bytes.fromhex(cursor) if _SPELLING.fullmatch(cursor) else b""
        position, seal = content[:POSITION_BYTES], content[POSITION_BYTES:]
        if not hmac.compare_digest(seal, self._seal(position)):
            raise InvalidRequest("does not belong to this query", member="query.cursor")
        return position

    def _seal(self, position: bytes) -> bytes:
        return hmac.digest(self.key, _TAG + position + canonical_bytes(self.walk), "sha256")

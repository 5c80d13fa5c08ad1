"""Cursors of the credential directory: a position, sealed under the verifier key and bound to endpoint and company.

They hold across restarts and have no expiry. Only their exact spelling is accepted.
"""

from __future__ import annotations

import base64
import hmac
from typing import Final

from services.domain.errors import InvalidRequest
from services.domain.keys import company_tag, id_bytes, id_text

_TAG: Final = b"waggle.cursor.credentials.v1\x00"
_ID_BYTES: Final = 16
_CURSOR_CHARS: Final = 64


def encode_cursor(verifier_key: bytes, company_id: str, credential_id: str) -> str:
    """Seal the id of the last credential of a page: 64 characters of url-safe base64."""
    position = id_bytes(credential_id)
    return base64.urlsafe_b64encode(position + _seal(verifier_key, company_id, position)).decode("ascii")


def decode_cursor(verifier_key: bytes, company_id: str, cursor: str) -> str:
    """Open a cursor of this company.

    Returns:
        The credential id after which the next page starts.

    Raises:
        InvalidRequest: Not a cursor of this endpoint and company.
    """
    content = b""
    if len(cursor) == _CURSOR_CHARS and cursor.isascii():
        # 48 bytes fill 64 characters without a spare bit, so that each content has one spelling; characters outside
        # of the alphabet are skipped by the decoder and leave too few bytes.
        try:
            content = base64.urlsafe_b64decode(cursor)
        except ValueError:
            content = b""
    position, seal = content[:_ID_BYTES], content[_ID_BYTES:]
    if not hmac.compare_digest(seal, _seal(verifier_key, company_id, position)):
        raise InvalidRequest("not a cursor of this directory", member="cursor")
    if base64.urlsafe_b64encode(content).decode("ascii") != cursor:
        raise InvalidRequest("not a cursor of this directory", member="cursor")
    return id_text(position)


def _seal(verifier_key: bytes, company_id: str, position: bytes) -> bytes:
    return hmac.digest(verifier_key, _TAG + company_tag(company_id) + position, "sha256")

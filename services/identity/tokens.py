"""Company keys: their text, and the keyed verifier that is all that is ever stored of them."""

from __future__ import annotations

import base64
import hmac
import re
from dataclasses import dataclass, field
from typing import Final

from services.domain.errors import Unauthorized
from services.domain.keys import id_bytes, id_text

SECRET_BYTES: Final = 32
VERIFIER_KEY_BYTES: Final = 32

_PREFIX: Final = "qdb1"
_TOKEN: Final = re.compile(r"qdb1_([0-9a-f]{32})_([A-Za-z0-9_-]{43})", re.ASCII)
_TOKEN_CHARS: Final = 81
_VERIFIER_TAG: Final = b"waggle.credential.verifier.v1\x00"

_REFUSED: Final = "a valid bearer token is required"


@dataclass(frozen=True, slots=True)
class Token:
    """A presented company key.

    Attributes:
        credential_id: Canonical UUID text of the credential that it claims to be.
        secret: The last 43 characters, exactly as sent; kept out of representations.
    """

    credential_id: str
    secret: str = field(repr=False)

    @property
    def text(self) -> str:
        """The key as its holder writes it."""
        return f"{_PREFIX}_{self.credential_id.replace('-', '')}_{self.secret}"


def token_from_random(credential_id: str, random_bytes: bytes) -> Token:
    """Make the key of a credential.

    Args:
        credential_id: Canonical UUID text.
        random_bytes: 32 bytes from the operating system's generator.

    Raises:
        ValueError: Another number of bytes.
    """
    if len(random_bytes) != SECRET_BYTES:
        raise ValueError(f"a secret has {SECRET_BYTES} bytes, not {len(random_bytes)}")
    return Token(credential_id, base64.urlsafe_b64encode(random_bytes).rstrip(b"=").decode())


def parse_token(text: str) -> Token:
    """Read a company key; nothing but its exact spelling is accepted.

    Raises:
        Unauthorized: It is anything else, keys and sessions of other kinds included.
    """
    match = _TOKEN.fullmatch(text) if len(text) == _TOKEN_CHARS else None
    if match is None:
        raise Unauthorized(_REFUSED)
    return Token(id_text(bytes.fromhex(match[1])), match[2])


def parse_authorization(value: str | None) -> Token:
    """Read the value of the one `Authorization` header: `Bearer`, in any case, a space, a company key.

    Raises:
        Unauthorized: Absent, or anything else.
    """
    if value is None:
        raise Unauthorized(_REFUSED)
    scheme, _, text = value.partition(" ")
    if scheme.lower() != "bearer":
        raise Unauthorized(_REFUSED)
    return parse_token(text)


def verifier_of(verifier_key: bytes, token: Token) -> bytes:
    """The stored stand-in of a key: HMAC-SHA-256 over its kind, credential and secret, 32 bytes.

    The message has fields of fixed length, so no two keys share one. The secret enters as text: of several base64
    spellings of the same bytes only the issued one verifies.
    """
    message = _VERIFIER_TAG + b"company\x00" + id_bytes(token.credential_id) + token.secret.encode("ascii")
    return hmac.digest(verifier_key, message, "sha256")


def is_verified(verifier_key: bytes, token: Token, verifier: bytes) -> bool:
    """Whether the key is the one that the verifier stands for, in time that does not depend on where they differ."""
    return hmac.compare_digest(verifier_of(verifier_key, token), verifier)

"""Keys and sessions: their text, and the keyed verifier that is all that is ever stored of them."""

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

_PREFIX_BY_KIND: Final = {
    "company": "qdb1",
    "global": "qdbg1",
    "company_session": "qdbst1",
    "global_session": "qdbsg1",
}
_KEY: Final = re.compile(r"(qdb1|qdbg1)_([0-9a-f]{32})_([A-Za-z0-9_-]{43})", re.ASCII)
_SESSION: Final = re.compile(r"(qdbst1|qdbsg1)_([0-9a-f]{32})_([0-9a-f]{32})_([A-Za-z0-9_-]{43})", re.ASCII)
_TOKEN_CHARS_MAX: Final = 116
_VERIFIER_TAG: Final = b"waggle.credential.verifier.v1\x00"

_REFUSED: Final = "a valid bearer token is required"


@dataclass(frozen=True, slots=True)
class Token:
    """A presented key, or a login session.

    Attributes:
        credential_id: Canonical UUID text of the credential that it claims to be, or to act with.
        secret: The last 43 characters, exactly as sent; kept out of representations.
        is_global: It belongs to no company.
        session_id: Canonical UUID text of the session; None for a key.
    """

    credential_id: str
    secret: str = field(repr=False)
    is_global: bool = False
    session_id: str | None = None

    @property
    def kind(self) -> str:
        """What it is: "company", "global", "company_session" or "global_session"."""
        owner = "global" if self.is_global else "company"
        return owner if self.session_id is None else f"{owner}_session"

    @property
    def text(self) -> str:
        """The token as its holder writes it."""
        ids = [self.credential_id] if self.session_id is None else [self.credential_id, self.session_id]
        return "_".join([_PREFIX_BY_KIND[self.kind], *(text.replace("-", "") for text in ids), self.secret])


def token_from_random(
    credential_id: str, random_bytes: bytes, *, is_global: bool = False, session_id: str | None = None
) -> Token:
    """Make a key of a credential, or a session that acts with it.

    Args:
        credential_id: Canonical UUID text.
        random_bytes: 32 bytes from the operating system's generator.
        is_global: The credential is a global one.
        session_id: Canonical UUID text of the session; None for a key.

    Raises:
        ValueError: Another number of bytes.
    """
    if len(random_bytes) != SECRET_BYTES:
        raise ValueError(f"a secret has {SECRET_BYTES} bytes, not {len(random_bytes)}")
    secret = base64.urlsafe_b64encode(random_bytes).rstrip(b"=").decode()
    return Token(credential_id, secret, is_global, session_id)


def parse_token(text: str) -> Token:
    """Read a key or session of any kind; nothing but its exact spelling is accepted.

    Raises:
        Unauthorized: It is anything else.
    """
    if len(text) <= _TOKEN_CHARS_MAX:
        if match := _KEY.fullmatch(text):
            return Token(id_text(bytes.fromhex(match[2])), match[3], match[1] == _PREFIX_BY_KIND["global"])
        if match := _SESSION.fullmatch(text):
            credential_id, session_id = id_text(bytes.fromhex(match[2])), id_text(bytes.fromhex(match[3]))
            return Token(credential_id, match[4], match[1] == _PREFIX_BY_KIND["global_session"], session_id)
    raise Unauthorized(_REFUSED)


def parse_authorization(value: str | None) -> Token:
    """Read the value of the one `Authorization` header: `Bearer`, in any case, a space, a token.

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
    """The stored stand-in of a token: HMAC-SHA-256 over its kind, ids and secret, 32 bytes.

    The kind fixes the lengths of the other fields, so no two tokens share a message. The secret enters as text: of
    several base64 spellings of the same bytes only the issued one verifies.
    """
    ids = id_bytes(token.credential_id)
    if token.session_id is not None:
        ids += id_bytes(token.session_id)
    message = _VERIFIER_TAG + token.kind.encode("ascii") + b"\x00" + ids + token.secret.encode("ascii")
    return hmac.digest(verifier_key, message, "sha256")


def is_verified(verifier_key: bytes, token: Token, verifier: bytes) -> bool:
    """Whether the token is the one that the verifier stands for, in time that does not depend on where they differ."""
    return hmac.compare_digest(verifier_of(verifier_key, token), verifier)

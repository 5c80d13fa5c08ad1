"""Login sessions as they are stored: who acts, until when, with which revision of the credential."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from services.domain.canonical_json import canonical_bytes, parse_canonical
from services.domain.errors import StorageInconsistency

SESSION_MILLIS: Final = 15 * 60 * 1000
"""Greatest life of a session."""


@dataclass(frozen=True, slots=True)
class Session:
    """One login.

    Attributes:
        session_id: Canonical UUID text.
        account_id: The account that logged in.
        credential_id: The credential that it acts with.
        credential_revision: Revision of that credential at login; any other ends the session.
        expires_at_millis: First millisecond at which it no longer works.
        verifier: Keyed stand-in of the secret, 32 bytes.
    """

    session_id: str
    account_id: str
    credential_id: str
    credential_revision: int
    expires_at_millis: int
    verifier: bytes = field(repr=False)

    def is_expired(self, now_ms: int) -> bool:
        """Whether its time has come."""
        return now_ms >= self.expires_at_millis

    def is_over(self, credential_revision: int, now_ms: int) -> bool:
        """Whether it no longer works: expired, or the credential has another revision than at login."""
        return self.is_expired(now_ms) or self.credential_revision != credential_revision


def session_expiry(now_ms: int, credential_expires_at_millis: int | None) -> int:
    """When a session that opens now ends: after 15 minutes, or with its credential."""
    latest = now_ms + SESSION_MILLIS
    return latest if credential_expires_at_millis is None else min(latest, credential_expires_at_millis)


def encode_session(session: Session) -> bytes:
    """Stored form: canonical JSON, the verifier in hexadecimal."""
    return canonical_bytes(
        {
            "session_id": session.session_id,
            "account_id": session.account_id,
            "credential_id": session.credential_id,
            "credential_revision": session.credential_revision,
            "expires_at_millis": session.expires_at_millis,
            "verifier": session.verifier.hex(),
        }
    )


def decode_session(stored: bytes) -> Session:
    """Read the stored form.

    Raises:
        StorageInconsistency: It is not one.
    """
    try:
        value = parse_canonical(stored)
        return Session(
            value["session_id"],
            value["account_id"],
            value["credential_id"],
            value["credential_revision"],
            value["expires_at_millis"],
            bytes.fromhex(value["verifier"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise StorageInconsistency("a stored session cannot be read") from error

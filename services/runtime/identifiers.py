"""Random identifiers and secrets, from the operating system's generator."""

from __future__ import annotations

import secrets
import uuid


def new_uuid() -> str:
    """Return a new random UUID (version 4) as canonical lower-case text, 36 characters."""
    return str(uuid.uuid4())


def new_secret(byte_count: int = 32) -> bytes:
    """Return `byte_count` random bytes fit for a secret."""
    return secrets.token_bytes(byte_count)

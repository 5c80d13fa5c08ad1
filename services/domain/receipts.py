"""Idempotency: one key, one command, one receipt.

The digest compares normalised commands, never raw bytes: member order, absent against null against default, and the
spelling of UUIDs do not matter.
"""

from __future__ import annotations

from typing import Any

from services.domain.canonical_json import canonical_bytes, digest_value, parse_canonical
from services.domain.errors import IdempotencyConflict

MEMORY_FAMILY = b"m"
EMBEDDING_FAMILY = b"e"
REVIEW_FAMILY = b"v"
RELATION_FAMILY = b"r"


def command_digest(family: bytes, command: dict[str, Any]) -> str:
    """Digest of a normalised command.

    Args:
        family: The key space of the command.
        command: The command's effective content with defaults written out; without scope and key, which the receipt's
            own key already holds.
    """
    return digest_value(f"waggle.command.{family.decode()}.v1", command)


def encode_receipt(digest: str, receipt: dict[str, Any]) -> bytes:
    """Stored form of a receipt together with the digest of its command."""
    return canonical_bytes({"command_digest": digest, "receipt": receipt})


def replayed_receipt(stored: bytes | None, digest: str) -> dict[str, Any] | None:
    """The original receipt when this command was already committed, None when the key is unused.

    Raises:
        IdempotencyConflict: The key was used with another command.
    """
    if stored is None:
        return None
    value = parse_canonical(stored)
    if value["command_digest"] != digest:
        raise IdempotencyConflict("the idempotency key was used with another command", member="idempotency_key")
    receipt: dict[str, Any] = value["receipt"]
    return receipt

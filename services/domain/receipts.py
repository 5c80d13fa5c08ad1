"""Idempotency: one key, one command, one receipt.

The digest compares normalised commands, never raw bytes: member order, absent against null against default, and the
spelling of UUIDs do not matter.
"""

from __future__ import annotations

from typing import Any, Literal

from services.domain.canonical_json import canonical_bytes, digest_value, parse_canonical
from services.domain.errors import IdempotencyConflict
from services.domain.records import Author, Review

# A receipt is the documented object itself: what is stored, replayed and answered is one and the same value.
Receipt = dict[str, Any]

RecordAction = Literal["created", "updated", "deleted", "derived"]
RelationAction = Literal["asserted", "retired", "restored", "reviewed"]
JobAction = Literal[
    "created", "claimed", "renewed", "published", "failed", "recovered", "cancelled", "usage_reconciled"
]

MEMORY_FAMILY = b"m"
EMBEDDING_FAMILY = b"e"
REVIEW_FAMILY = b"v"
RELATION_FAMILY = b"r"
CONSOLIDATION_FAMILY = b"j"


def command_digest(family: bytes, command: dict[str, Any]) -> str:
    """Digest of a normalised command.

    Args:
        family: The key space of the command.
        command: The command's effective content with defaults written out; without scope and key, which the receipt's
            own key already holds.
    """
    return digest_value(f"waggle.command.{family.decode()}.v1", command)


def encode_receipt(digest: str, receipt: Receipt) -> bytes:
    """Stored form of a receipt together with the digest of its command."""
    return canonical_bytes({"command_digest": digest, "receipt": receipt})


def replayed_receipt(stored: bytes | None, digest: str) -> Receipt | None:
    """The original receipt when this command was already committed, None when the key is unused.

    Raises:
        IdempotencyConflict: The key was used with another command.
    """
    if stored is None:
        return None
    value = parse_canonical(stored)
    if value["command_digest"] != digest:
        raise IdempotencyConflict("the idempotency key was used with another command", member="idempotency_key")
    receipt: Receipt = value["receipt"]
    return receipt


def record_receipt(
    *, idempotency_key: str, record_id: str, revision: int, action: RecordAction, author: Author, now_ms: int
) -> Receipt:
    """The documented receipt of a memory command."""
    return {
        "contract_version": 1,
        "idempotency_key": idempotency_key,
        "record_id": record_id,
        "revision": revision,
        "action": action,
        "committed_at_millis": now_ms,
        "author": author.as_json(),
    }


def review_receipt(*, partition: bytes, idempotency_key: str, record_id: str, revision: int, review: Review) -> Receipt:
    """The documented receipt of a review decision; its digest is bound to the partition.

    Args:
        revision: The revision that the decision made.
    """
    receipt: Receipt = {
        "contract_version": 1,
        "idempotency_key": idempotency_key,
        "record_id": record_id,
        "revision": revision,
        "review": review.as_json(),
    }
    receipt["receipt_digest"] = _bound_digest("waggle.review_receipt.v1", partition, receipt)
    return receipt


def relation_receipt(
    *,
    partition: bytes,
    idempotency_key: str,
    relation_id: str,
    revision: int,
    action: RelationAction,
    author: Author,
    now_ms: int,
    evidence_ref: str,
    relation_digest: str,
    command_digest: str,
) -> Receipt:
    """The documented receipt of a relation command; its own digest is bound to the partition."""
    receipt: Receipt = {
        "contract_version": 1,
        "idempotency_key": idempotency_key,
        "relation_id": relation_id,
        "revision": revision,
        "action": action,
        "author": author.as_json(),
        "committed_at_millis": now_ms,
        "evidence_ref": evidence_ref,
        "relation_digest": relation_digest,
        "command_digest": command_digest,
    }
    receipt["receipt_digest"] = _bound_digest("waggle.relation_receipt.v1", partition, receipt)
    return receipt


def job_receipt(
    *,
    partition: bytes,
    idempotency_key: str,
    job_id: str,
    revision: int,
    action: JobAction,
    author: Author,
    now_ms: int,
    job_digest: str,
    command_digest: str,
) -> Receipt:
    """The documented receipt of a consolidation command; its own digest is bound to the partition."""
    receipt: Receipt = {
        "contract_version": 1,
        "idempotency_key": idempotency_key,
        "job_id": job_id,
        "revision": revision,
        "action": action,
        "author": author.as_json(),
        "committed_at_millis": now_ms,
        "job_digest": job_digest,
        "command_digest": command_digest,
    }
    receipt["receipt_digest"] = _bound_digest("waggle.job_receipt.v1", partition, receipt)
    return receipt


def _bound_digest(tag: str, partition: bytes, receipt: Receipt) -> str:
    return digest_value(tag, {"receipt": receipt, "workspace_id": partition.hex()})

"""Every key of the key space is built and read here; docs/keyspace.md is the map."""

from __future__ import annotations

import hashlib

from services.domain.canonical_json import canonical_bytes, parse_canonical

RECORD = b"R"
RECORD_BY_TIME = b"T"
BINDING = b"B"
REVIEW = b"V"
RELATION = b"L"
RELATION_HISTORY = b"M"
OUTGOING = b"O"
INCOMING = b"I"
OUTGOING_COUNT = b"o"
INCOMING_COUNT = b"i"
RECEIPT = b"K"
WORKSPACE = b"W"
JOB = b"J"
JOB_HISTORY = b"H"
JOB_SUMMARY = b"Q"

CREDENTIAL = b"C"
COMPANY_CREDENTIAL = b"D"
COMPANY = b"T"
AGENT = b"A"
COMPANY_WORKSPACE = b"S"
GLOBAL_CREDENTIAL = b"G"
MASTER = b"N"
SESSION = b"X"
LOGIN_ACCOUNT = b"U"
LOGIN_ACCOUNT_ID = b"P"

_TIME_OFFSET = 1 << 63


def id_bytes(uuid_text: str) -> bytes:
    """16 raw bytes of a canonical UUID text."""
    return bytes.fromhex(uuid_text.replace("-", ""))


def id_text(raw: bytes) -> str:
    """Canonical UUID text of 16 raw bytes."""
    digits = raw.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def number_bytes(value: int) -> bytes:
    """8 big-endian bytes of an unsigned number; byte order is number order."""
    return value.to_bytes(8, "big")


def time_bytes(millis: int) -> bytes:
    """8 bytes of a signed time in milliseconds; byte order is time order."""
    return (millis + _TIME_OFFSET).to_bytes(8, "big")


def time_value(raw: bytes) -> int:
    """The time that `time_bytes` encoded."""
    return int.from_bytes(raw, "big") - _TIME_OFFSET


def space_tag(space: dict[str, object]) -> bytes:
    """16 bytes that stand for an embedding space in keys: a prefix of SHA-256 over its canonical JSON."""
    return hashlib.sha256(b"waggle.space.v1\x00" + canonical_bytes(space)).digest()[:16]


def record_key(record_id: str) -> bytes:
    """Key of a record."""
    return RECORD + id_bytes(record_id)


def record_time_key(created_at_millis: int, record_id: str) -> bytes:
    """Key of a record in chronological order."""
    return RECORD_BY_TIME + time_bytes(created_at_millis) + id_bytes(record_id)


def binding_key(record_id: str, tag: bytes) -> bytes:
    """Key of a record's binding in the space with this `space_tag`."""
    return BINDING + id_bytes(record_id) + tag


def review_key(record_id: str, revision: int) -> bytes:
    """Key of the review decision that made this revision."""
    return REVIEW + id_bytes(record_id) + number_bytes(revision)


def relation_key(relation_id: str) -> bytes:
    """Key of a relation."""
    return RELATION + id_bytes(relation_id)


def relation_history_key(relation_id: str, revision: int) -> bytes:
    """Key of a relation as it was at a revision."""
    return RELATION_HISTORY + id_bytes(relation_id) + number_bytes(revision)


def adjacency_prefix(kind: bytes, record_id: str, revision: int) -> bytes:
    """Prefix of the adjacency entries (kind OUTGOING or INCOMING) of one endpoint revision."""
    return kind + id_bytes(record_id) + number_bytes(revision)


def adjacency_key(kind: bytes, record_id: str, revision: int, relation_id: str) -> bytes:
    """Key of one adjacency entry."""
    return adjacency_prefix(kind, record_id, revision) + id_bytes(relation_id)


def adjacency_count_key(kind: bytes, record_id: str, revision: int) -> bytes:
    """Key of the number of entries (kind OUTGOING or INCOMING) of one endpoint revision: its completeness data."""
    return adjacency_prefix(OUTGOING_COUNT if kind == OUTGOING else INCOMING_COUNT, record_id, revision)


def receipt_key(family: bytes, subject_id: str, idempotency_key: str) -> bytes:
    """Key of an idempotency receipt.

    Args:
        family: One byte: b"m" memory commands, b"e" embeddings, b"v" reviews, b"r" relations, b"j" consolidation.
        subject_id: Authenticated subject; another credential of the same subject finds the same receipt.
        idempotency_key: As sent.
    """
    subject = subject_id.encode()
    content = len(subject).to_bytes(4, "big") + subject + idempotency_key.encode()
    return RECEIPT + family + hashlib.sha256(content).digest()


def job_key(owner_id: str, job_id: str) -> bytes:
    """Key of a job."""
    return JOB + canonical_bytes(owner_id) + id_bytes(job_id)


def job_summary_prefix(owner_id: str) -> bytes:
    """Prefix of the summaries of one owner's jobs.

    The owner stands as its JSON text, whose closing quote ends it: no such text is the beginning of another, so byte
    order over all summaries is the documented order of a company's list, by JSON text of the owner and then by job id.
    """
    return JOB_SUMMARY + canonical_bytes(owner_id)


def job_summary_key(owner_id: str, job_id: str) -> bytes:
    """Key of a job's summary."""
    return job_summary_prefix(owner_id) + id_bytes(job_id)


def job_summary_owner(key: bytes) -> str:
    """The owner in the key of a summary."""
    owner_id: str = parse_canonical(key[len(JOB_SUMMARY) : -16])
    return owner_id


def job_history_key(owner_id: str, job_id: str, revision: int) -> bytes:
    """Key of a job as it was at a revision."""
    return JOB_HISTORY + canonical_bytes(owner_id) + id_bytes(job_id) + number_bytes(revision)


def company_tag(company_id: str) -> bytes:
    """32 bytes that stand for a company in keys of the identity partition."""
    return hashlib.sha256(b"waggle.company.v1\x00" + company_id.encode()).digest()


def credential_key(credential_id: str) -> bytes:
    """Key of a credential."""
    return CREDENTIAL + id_bytes(credential_id)


def company_credential_key(company_id: str, credential_id: str) -> bytes:
    """Key of a credential in its company's directory."""
    return COMPANY_CREDENTIAL + company_tag(company_id) + id_bytes(credential_id)


def company_key(company_id: str) -> bytes:
    """Key of a company's marker; byte order is the documented order of companies."""
    return COMPANY + company_id.encode()


def global_credential_key(credential_id: str) -> bytes:
    """Key of a global credential."""
    return GLOBAL_CREDENTIAL + id_bytes(credential_id)


def owner_tag(company_id: str | None) -> bytes:
    """32 bytes that stand for the owner of directories: a company, or None for what is above companies."""
    return hashlib.sha256(b"waggle.global.v1").digest() if company_id is None else company_tag(company_id)


def session_prefix(credential_id: str) -> bytes:
    """Prefix of the sessions that act with a credential."""
    return SESSION + id_bytes(credential_id)


def session_key(credential_id: str, session_id: str) -> bytes:
    """Key of a login session."""
    return session_prefix(credential_id) + id_bytes(session_id)


def login_account_prefix(company_id: str | None) -> bytes:
    """Prefix of the login accounts of a company, or of those above companies."""
    return LOGIN_ACCOUNT + owner_tag(company_id)


def login_account_key(company_id: str | None, username: str) -> bytes:
    """Key of a login account; byte order is the order of user names within their owner."""
    return login_account_prefix(company_id) + username.encode()


def login_account_id_key(account_id: str) -> bytes:
    """Key under which the rest of an account's key stands."""
    return LOGIN_ACCOUNT_ID + id_bytes(account_id)


def agent_key(company_id: str, agent_id: str) -> bytes:
    """Key of an agent registration; byte order is the documented order of agents."""
    return AGENT + company_tag(company_id) + agent_id.encode()


def company_workspace_key(company_id: str, partition: bytes) -> bytes:
    """Key of a workspace in its company's directory."""
    return COMPANY_WORKSPACE + company_tag(company_id) + partition


def prefix_end(prefix: bytes) -> bytes:
    """The first key after every key that starts with the prefix."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else b""

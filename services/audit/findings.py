"""What an audit finds: the kind of thing, which one, and what does not hold. Never content, never secrets."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from services.domain import keys
from services.domain.scope import IDENTITY_PARTITION

_ID = slice(1, 17)
_REVISION = slice(17, 25)

_WORKSPACE_KINDS: Final = {
    keys.RECORD: "record",
    keys.RECORD_BY_TIME: "time index",
    keys.BINDING: "embedding",
    keys.REVIEW: "review",
    keys.RELATION: "relation",
    keys.RELATION_HISTORY: "relation history",
    keys.OUTGOING: "adjacency",
    keys.INCOMING: "adjacency",
    keys.OUTGOING_COUNT: "adjacency count",
    keys.INCOMING_COUNT: "adjacency count",
    keys.RECEIPT: "receipt",
    keys.WORKSPACE: "workspace",
    keys.JOB: "job",
    keys.JOB_HISTORY: "job history",
    keys.JOB_SUMMARY: "job summary",
}
_IDENTITY_KINDS: Final = {
    keys.CREDENTIAL: "credential",
    keys.COMPANY_CREDENTIAL: "credential directory",
    keys.COMPANY: "company",
    keys.AGENT: "agent",
    keys.COMPANY_WORKSPACE: "workspace directory",
    keys.GLOBAL_CREDENTIAL: "global credential",
    keys.MASTER: "master",
    keys.SESSION: "session",
    keys.LOGIN_ACCOUNT: "login account",
    keys.LOGIN_ACCOUNT_ID: "login account directory",
}
_WITH_REVISION: Final = (
    keys.REVIEW,
    keys.RELATION_HISTORY,
    keys.OUTGOING,
    keys.INCOMING,
    keys.OUTGOING_COUNT,
    keys.INCOMING_COUNT,
)
_WITH_ID: Final = (keys.RECORD, keys.BINDING, keys.RELATION, *_WITH_REVISION)


class Finding(NamedTuple):
    """Something that does not hold."""

    kind: str
    """What it is about, for example "record" or "change log"."""
    key: str
    """Which one, in readable form; empty when it is about the whole."""
    problem: str
    """What is wrong with it, as the end of a sentence."""
    workspace_id: str | None = None
    """Where, 64 hexadecimal digits; None for the identity partition and the store as a whole."""

    def __str__(self) -> str:
        where = f"workspace {self.workspace_id}: " if self.workspace_id else ""
        subject = f"{self.kind} {self.key}".rstrip()
        return f"{where}{subject}: {self.problem}"

    def as_json(self) -> dict[str, Any]:
        """The finding as `waggle verify --json` prints it."""
        return self._asdict()


class Findings:
    """Collects what is found in one partition.

    Args:
        partition: 32 bytes; None for the store as a whole.
    """

    def __init__(self, partition: bytes | None) -> None:
        self._workspace_id = None if partition in (None, IDENTITY_PARTITION) else (partition or b"").hex()
        self.items: list[Finding] = []

    def add(self, kind: str, key: str, problem: str) -> None:
        """Note a finding."""
        self.items.append(Finding(kind, key, problem, self._workspace_id))


def words_of_key(partition: bytes, key: bytes) -> tuple[str, str]:
    """(kind, which one) of a key in readable form. Names that stand in keys of the identity partition are told."""
    is_identity = partition == IDENTITY_PARTITION
    tag = key[:1]
    kind = (_IDENTITY_KINDS if is_identity else _WORKSPACE_KINDS).get(tag)
    if kind is None:
        return "key", key.hex()
    if is_identity:
        return kind, _identity_words(tag, key)
    if tag in (keys.OUTGOING, keys.OUTGOING_COUNT):
        kind = f"outgoing {kind}"
    elif tag in (keys.INCOMING, keys.INCOMING_COUNT):
        kind = f"incoming {kind}"
    return kind, _workspace_words(tag, key)


def is_known_kind(partition: bytes, key: bytes) -> bool:
    """Whether keys of this kind are written to the partition at all."""
    return key[:1] in (_IDENTITY_KINDS if partition == IDENTITY_PARTITION else _WORKSPACE_KINDS)


def _workspace_words(tag: bytes, key: bytes) -> str:
    if tag in _WITH_ID:
        revision = f" revision {int.from_bytes(key[_REVISION], 'big')}" if tag in _WITH_REVISION else ""
        return keys.id_text(key[_ID]) + revision
    if tag == keys.RECORD_BY_TIME:
        return keys.id_text(key[-16:])
    if tag in (keys.JOB, keys.JOB_SUMMARY):
        return keys.id_text(key[-16:])
    if tag == keys.JOB_HISTORY:
        return f"{keys.id_text(key[-24:-8])} revision {int.from_bytes(key[-8:], 'big')}"
    if tag == keys.RECEIPT:
        return f"{key[1:2].decode('ascii', 'replace')}/{key[2:].hex()}"
    return ""


def _identity_words(tag: bytes, key: bytes) -> str:
    if tag in (keys.CREDENTIAL, keys.GLOBAL_CREDENTIAL, keys.LOGIN_ACCOUNT_ID):
        return keys.id_text(key[_ID])
    if tag in (keys.COMPANY_CREDENTIAL, keys.SESSION):
        return keys.id_text(key[-16:])
    if tag == keys.COMPANY:
        return key[1:].decode("utf-8", "replace")
    if tag in (keys.AGENT, keys.LOGIN_ACCOUNT):
        return key[33:].decode("utf-8", "replace")
    if tag == keys.COMPANY_WORKSPACE:
        return key[33:].hex()
    return ""

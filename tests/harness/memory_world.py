"""A small company with a memory: a store in this process, credentials, and commands that fail loudly."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from services.domain import keys
from services.domain.embeddings import Space
from services.domain.receipts import Receipt
from services.domain.records import Content, Derivation, RecordInput, SourceRef
from services.domain.relations import Provenance, RelationInput, RelationKind
from services.domain.scope import IDENTITY_PARTITION, Scope, workspace_for
from services.identity.authority import Authority
from services.identity.credentials import CredentialSpec, ScopeAuthority, decode_credential, encode_credential
from services.identity.history import Change
from services.identity.scope_policy import ScopePolicy, Selector
from services.identity.tokens import Token, token_from_random, verifier_of
from services.identity.transitions import issue_credential, revoke_credential
from services.memory.access import PartitionAccess
from services.memory.commands import AttachEmbedding, Command, CreateRecord, attach_embedding_command
from services.memory.execute_command import keyed_command
from services.runtime.admission import AdmissionPool, release_slot
from services.runtime.identifiers import new_uuid
from services.storage.contract import Commit, PartitionCommit, Put, Row, Store
from services.storage.core import LocalStore
from services.workspace.partition import MemoryPartition

T = TypeVar("T")

VERIFIER_KEY = bytes(range(32))
SCOPE = Scope("p1", None, "a1", "shared")
START_MS = 1_700_000_000_000
ALL_MEMORY = ("memory_read", "memory_write", "memory_review")
SPACE = Space("local", "test", "1", 4)


class ManualClock:
    """A host clock that stands still until it is moved."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self.ms = now_ms

    def now_ms(self) -> int:
        """The present time."""
        return self.ms


class MemoryWorld:
    """One store with a credential that may do everything in every scope of its company."""

    def __init__(self, *, slot_count: int = 2) -> None:
        self.clock = ManualClock()
        self.store = self.open_store()
        self.authority = Authority(VERIFIER_KEY)
        self.slots = AdmissionPool(slot_count)
        self.access = PartitionAccess(self.store, self.authority, self.slots)
        self._numbers = itertools.count(1)
        self.token = self.issue()

    def open_store(self) -> Store:
        """The store of this world."""
        return LocalStore.in_memory(clock=self.clock)

    def close(self) -> None:
        """Let the store go."""
        self.store.close()

    def issue(
        self,
        *,
        company: str = "acme",
        subject: str = "svc",
        capabilities: tuple[str, ...] = ALL_MEMORY,
        grants: tuple[Scope, ...] | None = None,
    ) -> Token:
        """Put a credential into the store and return its key; without grants it reaches every scope."""
        number = next(self._numbers)
        everything = Selector(None)
        policy = ScopePolicy(everything, everything, everything, True, ("private", "shared"))
        authority = ScopeAuthority((), policy) if grants is None else ScopeAuthority(grants, None)
        token = token_from_random(new_uuid(), bytes([number]) * 32)
        change = Change(change_id=new_uuid(), actor_id=token.credential_id, at_millis=self.clock.ms)
        credential = issue_credential(
            token.credential_id,
            company,
            CredentialSpec(subject, capabilities, authority, None),
            verifier_of(VERIFIER_KEY, token),
            change,
        )
        self.put(IDENTITY_PARTITION, keys.credential_key(token.credential_id), encode_credential(credential))
        return token

    def revoke(self, token: Token) -> None:
        """Revoke a credential."""
        key = keys.credential_key(token.credential_id)
        credential = decode_credential(self.partition_rows(IDENTITY_PARTITION)[key])
        change = Change(change_id=new_uuid(), actor_id=token.credential_id, at_millis=self.clock.ms)
        self.put(IDENTITY_PARTITION, key, encode_credential(revoke_credential(credential, 1, change)))

    def put(self, partition: bytes, key: bytes, value: bytes) -> None:
        """Write a value past all rules."""
        self.store.commit(Commit([PartitionCommit(partition, writes=[Put(key, value)])]))

    def authorization(self, token: Token | None = None) -> tuple[tuple[str, str], ...]:
        """Metadata of a call with a key."""
        return (("authorization", f"Bearer {(token or self.token).text}"),)

    def execute(
        self,
        command: Command,
        key: str | None = None,
        *,
        scope: Scope = SCOPE,
        token: Token | None = None,
        takes_slot: bool = False,
    ) -> Receipt:
        """Carry out a command under a key, a new one by default."""
        keyed = keyed_command(key or f"key-{next(self._numbers)}", command, new_id=new_uuid(), member="operation")
        try:
            return self.access.execute(token or self.token, scope, keyed, takes_slot=takes_slot)
        finally:
            release_slot()

    def read(
        self,
        function: Callable[[MemoryPartition], T],
        *,
        scope: Scope = SCOPE,
        capabilities: tuple[str, ...] = (),
        token: Token | None = None,
    ) -> T:
        """Run a read."""
        return self.access.read(token or self.token, scope, function, capabilities=capabilities)

    def create(self, text: str = "hello", **members: Any) -> SourceRef:
        """Create a record and return it at its revision."""
        receipt = self.execute(CreateRecord(record_input(text, **members)))
        return SourceRef(receipt["record_id"], receipt["revision"])

    def rows(self, scope: Scope = SCOPE, *, company: str = "acme", subject: str = "svc") -> dict[bytes, bytes]:
        """Every key and value of a partition."""
        return self.partition_rows(workspace_for(company, scope, subject).partition)

    def partition_rows(self, partition: bytes) -> dict[bytes, bytes]:
        """Every key and value of a partition by its id."""
        rows: list[Row] = []
        for page in self.store.changed_since(partition, 0):
            rows += page.rows
        return {row.key: row.value for row in rows}


def scope_of(**members: Any) -> Scope:
    """SCOPE with other members."""
    return replace(SCOPE, **members)


def record_input(text: str = "hello", **members: Any) -> RecordInput:
    """A payload; members override the defaults."""
    content = Content(text, members.pop("secondary", None), members.pop("context", None))
    values: dict[str, Any] = {"episode_type": "Observation", "event_time_millis": START_MS}
    return RecordInput(content=content, **(values | members))


def relation_input(
    source: SourceRef, target: SourceRef, kind: RelationKind = "supports", **members: Any
) -> RelationInput:
    """An assertion by a tool."""
    return RelationInput(source, target, kind, Provenance("tool_observation", "m", "1", "ref:1"), **members)


def derivation(*sources: SourceRef) -> Derivation:
    """A derivation from these sources."""
    return Derivation(tuple(sources), "summary", "1", "ref:1")


def embedding(record: SourceRef, numbers: tuple[float, ...] = (1.0, 0.0, 0.0, 0.0)) -> AttachEmbedding:
    """Bind a vector of SPACE to a record."""
    vector = np.asarray(numbers, dtype=np.float32)
    return attach_embedding_command(
        record_id=record.record_id, record_revision=record.revision, space=SPACE, vector=vector
    )

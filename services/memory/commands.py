"""What an agent can ask to be changed, as values.

`family` is the key space of the idempotency key, `capabilities` what the credential must hold, and `normalized` the
effective content that the command's digest covers: defaults written out, without scope and key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from services.domain.embeddings import Float32Vector, Space, vector_digest
from services.domain.receipts import EMBEDDING_FAMILY, MEMORY_FAMILY, RELATION_FAMILY, REVIEW_FAMILY
from services.domain.records import Derivation, Disposition, RecordInput, SourceRef
from services.domain.relations import RelationInput


@dataclass(frozen=True, slots=True)
class CreateRecord:
    """Write a new memory."""

    family: ClassVar[bytes] = MEMORY_FAMILY
    capabilities: ClassVar[tuple[str, ...]] = ("memory_write",)

    record: RecordInput

    def normalized(self) -> dict[str, Any]:
        """Effective content."""
        return {"type": "create", "record": self.record.as_json()}


@dataclass(frozen=True, slots=True)
class UpdateRecord:
    """Replace a memory's whole payload."""

    family: ClassVar[bytes] = MEMORY_FAMILY
    capabilities: ClassVar[tuple[str, ...]] = ("memory_write",)

    record_id: str
    expected_revision: int
    record: RecordInput

    def normalized(self) -> dict[str, Any]:
        """Effective content."""
        return {
            "type": "update",
            "record_id": self.record_id,
            "expected_revision": self.expected_revision,
            "record": self.record.as_json(),
        }


@dataclass(frozen=True, slots=True)
class DeleteRecord:
    """Leave a tombstone in a memory's place."""

    family: ClassVar[bytes] = MEMORY_FAMILY
    capabilities: ClassVar[tuple[str, ...]] = ("memory_write",)

    record_id: str
    expected_revision: int

    def normalized(self) -> dict[str, Any]:
        """Effective content."""
        return {"type": "delete", "record_id": self.record_id, "expected_revision": self.expected_revision}


@dataclass(frozen=True, slots=True)
class DeriveRecord:
    """Write a new memory that stands on exact revisions of others."""

    family: ClassVar[bytes] = MEMORY_FAMILY
    capabilities: ClassVar[tuple[str, ...]] = ("memory_read", "memory_write")

    record: RecordInput
    derivation: Derivation

    def normalized(self) -> dict[str, Any]:
        """Effective content."""
        return {"type": "derive", "record": self.record.as_json(), "derivation": self.derivation.as_json()}


@dataclass(frozen=True, slots=True)
class AttachEmbedding:
    """Bind a vector to the current revision of a memory in one space.

    Attributes:
        vector: (space.dimensions,) float32, finite, not zero.
        digest: `vector_digest` of the vector.
    """

    family: ClassVar[bytes] = EMBEDDING_FAMILY
    capabilities: ClassVar[tuple[str, ...]] = ("memory_write",)

    record_id: str
    record_revision: int
    space: Space
    vector: Float32Vector
    digest: str

    def bound_to(self, record: SourceRef) -> AttachEmbedding:
        """The same vector for another record."""
        return AttachEmbedding(record.record_id, record.revision, self.space, self.vector, self.digest)

    def normalized(self) -> dict[str, Any]:
        """Effective content; the vector by its digest."""
        return {
            "record_id": self.record_id,
            "record_revision": self.record_revision,
            "space": self.space.as_json(),
            "vector_digest": self.digest,
        }


def attach_embedding_command(
    *, record_id: str, record_revision: int, space: Space, vector: Float32Vector
) -> AttachEmbedding:
    """The command with its vector's digest filled in."""
    return AttachEmbedding(record_id, record_revision, space, vector, vector_digest(vector))


@dataclass(frozen=True, slots=True)
class ReviewRecord:
    """Put a reviewer's decision on a memory."""

    family: ClassVar[bytes] = REVIEW_FAMILY
    capabilities: ClassVar[tuple[str, ...]] = ("memory_review",)

    record_id: str
    expected_revision: int
    disposition: Disposition
    evidence_ref: str

    def normalized(self) -> dict[str, Any]:
        """Effective content."""
        return {
            "record_id": self.record_id,
            "expected_revision": self.expected_revision,
            "disposition": self.disposition,
            "evidence_ref": self.evidence_ref,
        }


@dataclass(frozen=True, slots=True)
class AssertRelation:
    """Assert a new typed relation between two memories at exact revisions."""

    family: ClassVar[bytes] = RELATION_FAMILY
    capabilities: ClassVar[tuple[str, ...]] = ("memory_read", "memory_write")

    relation: RelationInput

    def normalized(self) -> dict[str, Any]:
        """Effective content."""
        return {"type": "assert", "relation": self.relation.as_json()}


@dataclass(frozen=True, slots=True)
class RetireRelation:
    """Take an active relation out of service."""

    family: ClassVar[bytes] = RELATION_FAMILY
    capabilities: ClassVar[tuple[str, ...]] = ("memory_read", "memory_write")

    relation_id: str
    expected_revision: int
    evidence_ref: str

    def normalized(self) -> dict[str, Any]:
        """Effective content."""
        return {
            "type": "retire",
            "relation_id": self.relation_id,
            "expected_revision": self.expected_revision,
            "evidence_ref": self.evidence_ref,
        }


@dataclass(frozen=True, slots=True)
class RestoreRelation:
    """Bring a retired relation back, if its endpoints and evidence still hold exactly."""

    family: ClassVar[bytes] = RELATION_FAMILY
    capabilities: ClassVar[tuple[str, ...]] = ("memory_read", "memory_write")

    relation_id: str
    expected_revision: int
    evidence_ref: str

    def normalized(self) -> dict[str, Any]:
        """Effective content."""
        return {
            "type": "restore",
            "relation_id": self.relation_id,
            "expected_revision": self.expected_revision,
            "evidence_ref": self.evidence_ref,
        }


@dataclass(frozen=True, slots=True)
class ReviewRelation:
    """Put a reviewer's decision on a relation."""

    family: ClassVar[bytes] = RELATION_FAMILY
    capabilities: ClassVar[tuple[str, ...]] = ("memory_read", "memory_review")

    relation_id: str
    expected_revision: int
    evidence_ref: str
    disposition: Disposition

    def normalized(self) -> dict[str, Any]:
        """Effective content."""
        return {
            "type": "review",
            "relation_id": self.relation_id,
            "expected_revision": self.expected_revision,
            "evidence_ref": self.evidence_ref,
            "disposition": self.disposition,
        }


RecordCommand = CreateRecord | UpdateRecord | DeleteRecord | DeriveRecord
RelationCommand = AssertRelation | RetireRelation | RestoreRelation | ReviewRelation
Command = RecordCommand | AttachEmbedding | ReviewRecord | RelationCommand

"""Memory records: the documented object, its stored form, and the state that eligibility looks at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from services.domain import limits
from services.domain.canonical_json import canonical_bytes, parse_canonical
from services.domain.errors import InvalidRequest

Disposition = Literal["approved", "rejected", "unreviewed"]

# A standard word, or {"Custom": name}.
EpisodeType = str | dict[str, str]

STANDARD_EPISODE_TYPES = ("Conversation", "TaskExecution", "Observation", "Decision", "Error")


@dataclass(frozen=True, slots=True)
class SourceRef:
    """A record at an exact revision."""

    record_id: str
    revision: int

    def as_json(self) -> dict[str, Any]:
        """The documented object."""
        return {"record_id": self.record_id, "revision": self.revision}


def source_ref_from_json(value: Mapping[str, Any]) -> SourceRef:
    """Read the documented object."""
    return SourceRef(value["record_id"], value["revision"])


@dataclass(frozen=True, slots=True)
class Author:
    """The acting credential and its subject."""

    credential_id: str
    subject_id: str

    def as_json(self) -> dict[str, Any]:
        """The documented object."""
        return {"credential_id": self.credential_id, "subject_id": self.subject_id}


def author_from_json(value: Mapping[str, Any]) -> Author:
    """Read the documented object."""
    return Author(value["credential_id"], value["subject_id"])


@dataclass(frozen=True, slots=True)
class Review:
    """A reviewer's present decision on a record or relation."""

    disposition: Disposition
    evidence_ref: str
    author: Author
    reviewed_at_millis: int

    def as_json(self) -> dict[str, Any]:
        """The documented object."""
        return {
            "disposition": self.disposition,
            "evidence_ref": self.evidence_ref,
            "author": self.author.as_json(),
            "reviewed_at_millis": self.reviewed_at_millis,
        }


def review_from_json(value: Mapping[str, Any] | None) -> Review | None:
    """Read the documented object or null."""
    if value is None:
        return None
    return Review(
        value["disposition"], value["evidence_ref"], author_from_json(value["author"]), value["reviewed_at_millis"]
    )


@dataclass(frozen=True, slots=True)
class Derivation:
    """Where a derived record comes from: 1 to 16 sources at exact revisions, and the method."""

    sources: tuple[SourceRef, ...]
    method: str
    method_revision: str
    evidence_ref: str

    def as_json(self) -> dict[str, Any]:
        """The documented object."""
        return {
            "sources": [source.as_json() for source in self.sources],
            "method": self.method,
            "method_revision": self.method_revision,
            "evidence_ref": self.evidence_ref,
        }


def derivation_from_json(value: Mapping[str, Any] | None) -> Derivation | None:
    """Read the documented object or null."""
    if value is None:
        return None
    return Derivation(
        tuple(map(source_ref_from_json, value["sources"])),
        value["method"],
        value["method_revision"],
        value["evidence_ref"],
    )


@dataclass(frozen=True, slots=True)
class Content:
    """The text and data of a memory. `embedding` is plain data: never searched, never assigned a model."""

    primary: str
    secondary: str | None = None
    context: str | None = None
    data: Any = None
    embedding: tuple[float, ...] | None = None

    def as_json(self) -> dict[str, Any]:
        """The documented object with every default written out."""
        return {
            "primary": self.primary,
            "secondary": self.secondary,
            "context": self.context,
            "data": self.data,
            "embedding": None if self.embedding is None else list(self.embedding),
        }


@dataclass(frozen=True, slots=True)
class RecordInput:
    """What an agent writes: the payload of a record."""

    episode_type: EpisodeType
    content: Content
    event_time_millis: int
    valid_until_millis: int | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        """The documented object with every default written out."""
        return {
            "episode_type": self.episode_type,
            "content": self.content.as_json(),
            "event_time_millis": self.event_time_millis,
            "valid_until_millis": self.valid_until_millis,
            "tags": list(self.tags),
            "metadata": {} if self.metadata is None else dict(self.metadata),
        }


def record_input_from_json(value: Mapping[str, Any]) -> RecordInput:
    """Read the stored object."""
    content = value["content"]
    embedding = content["embedding"]
    return RecordInput(
        value["episode_type"],
        Content(
            content["primary"],
            content["secondary"],
            content["context"],
            content["data"],
            None if embedding is None else tuple(embedding),
        ),
        value["event_time_millis"],
        value["valid_until_millis"],
        tuple(value["tags"]),
        value["metadata"],
    )


def check_record_input(value: RecordInput, *, member: str) -> None:
    """Check the rules of a payload that no single member's bound covers.

    Raises:
        InvalidRequest: The event time lies outside the calendar, or an embedding value outside float32.
    """
    if not limits.EVENT_TIME_MIN_MILLIS <= value.event_time_millis <= limits.EVENT_TIME_MAX_MILLIS:
        raise InvalidRequest("must fall in the years 1 to 9999", member=f"{member}.event_time_millis")
    for index, number in enumerate(value.content.embedding or ()):
        if not abs(number) <= limits.FLOAT32_MAX:
            raise InvalidRequest("must be a finite float32", member=f"{member}.content.embedding[{index}]")


@dataclass(frozen=True, slots=True)
class Record:
    """A memory at its current revision. `payload` is None for a tombstone."""

    record_id: str
    revision: int
    created_at_millis: int
    modified_at_millis: int
    author: Author
    payload: RecordInput | None
    review: Review | None = None
    derivation: Derivation | None = None

    def as_json(self) -> dict[str, Any]:
        """The documented MemoryRecord, unset members null."""
        return {
            "schema_version": 1,
            "record_id": self.record_id,
            "revision": self.revision,
            "created_at_millis": self.created_at_millis,
            "modified_at_millis": self.modified_at_millis,
            "author": self.author.as_json(),
            "payload": None if self.payload is None else self.payload.as_json(),
            "review": None if self.review is None else self.review.as_json(),
            "derivation": None if self.derivation is None else self.derivation.as_json(),
        }

    def encode(self) -> bytes:
        """Stored form: canonical JSON. Its length is the documented byte count of the record."""
        return canonical_bytes(self.as_json())

    def updated(self, payload: RecordInput, *, author: Author, now_ms: int) -> Record:
        """The next revision with another payload; the review is cleared."""
        return replace(
            self,
            revision=self.revision + 1,
            modified_at_millis=now_ms,
            author=author,
            payload=payload,
            review=None,
        )

    def reviewed(self, review: Review) -> Record:
        """The next revision with a review; content and author stay."""
        return replace(self, revision=self.revision + 1, modified_at_millis=review.reviewed_at_millis, review=review)

    def deleted(self, *, author: Author, now_ms: int) -> Record:
        """The next revision as a tombstone."""
        return replace(
            self,
            revision=self.revision + 1,
            modified_at_millis=now_ms,
            author=author,
            payload=None,
            review=None,
        )


def decode_record(value: bytes) -> Record:
    """Read the stored form."""
    return record_from_json(parse_canonical(value))


def record_from_json(value: Mapping[str, Any]) -> Record:
    """Read the stored object."""
    payload = value["payload"]
    return Record(
        value["record_id"],
        value["revision"],
        value["created_at_millis"],
        value["modified_at_millis"],
        author_from_json(value["author"]),
        None if payload is None else record_input_from_json(payload),
        review_from_json(value["review"]),
        derivation_from_json(value["derivation"]),
    )


@dataclass(frozen=True, slots=True)
class RecordState:
    """What eligibility needs to know of a record.

    Attributes:
        valid_until_millis: Exclusive end of visibility; None means none.
        size_bytes: Length of the stored form.
    """

    record_id: str
    revision: int
    deleted: bool
    valid_until_millis: int | None
    rejected: bool
    sources: Sequence[SourceRef]
    size_bytes: int


def state_of_record(record: Record, *, size_bytes: int) -> RecordState:
    """The state of a decoded record."""
    return RecordState(
        record.record_id,
        record.revision,
        record.payload is None,
        None if record.payload is None else record.payload.valid_until_millis,
        record.review is not None and record.review.disposition == "rejected",
        () if record.derivation is None else record.derivation.sources,
        size_bytes,
    )


def state_from_json(value: Mapping[str, Any], *, size_bytes: int) -> RecordState:
    """The state of a stored object, without building the whole record."""
    payload, review, derivation = value["payload"], value["review"], value["derivation"]
    return RecordState(
        value["record_id"],
        value["revision"],
        payload is None,
        None if payload is None else payload["valid_until_millis"],
        review is not None and review["disposition"] == "rejected",
        () if derivation is None else tuple(map(source_ref_from_json, derivation["sources"])),
        size_bytes,
    )

"""What one client knows of its own memories: documented JSON, as the acknowledged commands left it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.harness import builders

Json = dict[str, Any]
DERIVATION_DEPTH_MAX = 3


@dataclass(eq=False, slots=True)
class Known:
    """Something with revisions.

    Attributes:
        json: The documented object; for a tombstone with payload null.
        in_doubt: An unanswered command may have changed it, so nothing is expected of it until that is settled.
    """

    json: Json
    in_doubt: bool = False

    @property
    def revision(self) -> int:
        """The present revision."""
        revision: int = self.json["revision"]
        return revision


@dataclass(eq=False, slots=True)
class KnownRecord(Known):
    """A record.

    Attributes:
        vector: The vector of the latest binding; stale when the record has moved on since.
        binding: Receipt of that binding.
    """

    vector: list[float] = field(default_factory=list)
    binding: Json | None = None

    @property
    def id(self) -> str:
        """The record's id."""
        record_id: str = self.json["record_id"]
        return record_id

    @property
    def reference(self) -> Json:
        """The record at its present revision."""
        return builders.reference(self.id, self.revision)

    @property
    def word(self) -> str:
        """The word that only this record's text holds."""
        text: str = self.json["payload"]["content"]["primary"]
        return text.split()[-1]

    @property
    def is_deleted(self) -> bool:
        """The record is a tombstone."""
        return self.json["payload"] is None

    @property
    def is_rejected(self) -> bool:
        """Its present review rejects it."""
        return is_rejected(self.json)

    @property
    def is_bound(self) -> bool:
        """It has a vector at its present revision."""
        return self.binding is not None and self.binding["record_revision"] == self.revision

    @property
    def sources(self) -> list[Json]:
        """References that it is derived from."""
        return [] if self.json["derivation"] is None else list(self.json["derivation"]["sources"])


@dataclass(eq=False, slots=True)
class KnownRelation(Known):
    """A relation."""

    @property
    def id(self) -> str:
        """The relation's id."""
        relation_id: str = self.json["relation_id"]
        return relation_id

    @property
    def ends(self) -> list[Json]:
        """References of source and target."""
        return [self.json["input"]["source"], self.json["input"]["target"]]

    @property
    def is_served(self) -> bool:
        """Active and not rejected."""
        return self.json["state"] == "active" and not is_rejected(self.json)


@dataclass(eq=False, slots=True)
class KnownJob(Known):
    """A job; `json` holds job_id, revision and status only."""


@dataclass(eq=False, slots=True)
class KnownCredential(Known):
    """A credential; `json` holds credential_id, revision, secret and is_revoked only."""


def is_rejected(json: Json) -> bool:
    """Whether the present review of a record or relation rejects it."""
    return json["review"] is not None and json["review"]["disposition"] == "rejected"


class KnownMemory:
    """All that one client has made. Used by one thread at a time."""

    def __init__(self) -> None:
        self.records: dict[str, KnownRecord] = {}
        self.relations: dict[str, KnownRelation] = {}
        self.jobs: dict[str, KnownJob] = {}
        self.credentials: dict[str, KnownCredential] = {}

    def settled_records(self) -> list[KnownRecord]:
        """Records of which everything is known, whatever they are derived from included."""
        return [record for record in self.records.values() if self.is_settled(record)]

    def eligible_records(self) -> list[KnownRecord]:
        """Settled records that can be read, related and found."""
        return [record for record in self.settled_records() if self.is_eligible(record)]

    def settled_relations(self) -> list[KnownRelation]:
        """Relations that no unanswered command may have changed, nor their ends."""
        return [
            relation
            for relation in self.relations.values()
            if not relation.in_doubt and all(self.is_settled(self.records[end["record_id"]]) for end in relation.ends)
        ]

    def is_settled(self, record: KnownRecord) -> bool:
        """No unanswered command may have changed the record or what it is derived from."""
        return not record.in_doubt and all(self.is_settled(self.records[ref["record_id"]]) for ref in record.sources)

    def is_eligible(self, record: KnownRecord) -> bool:
        """The documented rule: not deleted, not rejected, and the same for every source at its pinned revision."""
        return not record.is_deleted and not record.is_rejected and all(map(self.is_current, record.sources))

    def is_current(self, reference: Json) -> bool:
        """A record has a pinned revision still and is eligible."""
        record = self.records[reference["record_id"]]
        return record.revision == reference["revision"] and self.is_eligible(record)

    def with_sources(self, records: list[KnownRecord]) -> list[KnownRecord]:
        """Records with all that they are derived from: whatever an outcome can depend on."""
        sources = [self.records[ref["record_id"]] for record in records for ref in record.sources]
        return [*records, *self.with_sources(sources)] if sources else records

    def derivation_depth(self, record: KnownRecord) -> int:
        """Number of derivation steps below a record."""
        return max((1 + self.derivation_depth(self.records[ref["record_id"]]) for ref in record.sources), default=0)

    def edges_at(self, record: KnownRecord) -> set[tuple[str, int]] | None:
        """Relations that a walk of depth 1 from a record finds, with revisions; None when some of them are in doubt."""
        touching = [
            relation for relation in self.relations.values() if record.id in (end["record_id"] for end in relation.ends)
        ]
        settled = self.settled_relations()
        if any(relation not in settled for relation in touching):
            return None
        return {
            (relation.id, relation.revision)
            for relation in touching
            if relation.is_served and all(map(self.is_current, relation.ends))
        }


def payload_json(body: Json) -> Json:
    """The documented payload of a RecordInput as sent, every default written out."""
    content = {"secondary": None, "context": None, "data": None, "embedding": None, **body["content"]}
    return {"valid_until_millis": None, "tags": [], "metadata": {}, **body, "content": content}


def relation_input_json(body: Json) -> Json:
    """The documented RelationInput as sent, every default written out."""
    provenance = {"model": None, **body["provenance"]}
    return {"valid_from_millis": None, "valid_until_millis": None, **body, "provenance": provenance}


def created_record(receipt: Json, payload: Json, derivation: Json | None) -> Json:
    """The documented record after the command that made it."""
    return {
        "schema_version": 1,
        "record_id": receipt["record_id"],
        "revision": receipt["revision"],
        "created_at_millis": receipt["committed_at_millis"],
        "modified_at_millis": receipt["committed_at_millis"],
        "author": receipt["author"],
        "payload": payload,
        "review": None,
        "derivation": derivation,
    }


def changed_record(record: Json, receipt: Json, payload: Json | None) -> Json:
    """The documented record after an update; with payload None after a deletion."""
    return {
        **record,
        "revision": receipt["revision"],
        "modified_at_millis": receipt["committed_at_millis"],
        "author": receipt["author"],
        "payload": payload,
        "review": None,
    }


def reviewed_record(record: Json, receipt: Json) -> Json:
    """The documented record after a review decision."""
    review = receipt["review"]
    modified = {"revision": receipt["revision"], "modified_at_millis": review["reviewed_at_millis"]}
    return {**record, **modified, "review": review}


def asserted_relation(receipt: Json, relation_input: Json) -> Json:
    """The documented relation after its assertion."""
    return {
        "schema_version": 1,
        "relation_id": receipt["relation_id"],
        "revision": receipt["revision"],
        "input": relation_input,
        "reported_by": receipt["author"],
        "created_at_millis": receipt["committed_at_millis"],
        "modified_at_millis": receipt["committed_at_millis"],
        "state": "active",
        "review": None,
    }


def changed_relation(relation: Json, receipt: Json, disposition: str | None = None) -> Json:
    """The documented relation after it was retired, restored or, with a disposition, reviewed."""
    changed = {
        **relation,
        "revision": receipt["revision"],
        "modified_at_millis": receipt["committed_at_millis"],
    }
    if disposition is None:
        return {**changed, "state": "retired" if receipt["action"] == "retired" else "active"}
    review = {
        "disposition": disposition,
        "evidence_ref": receipt["evidence_ref"],
        "author": receipt["author"],
        "reviewed_at_millis": receipt["committed_at_millis"],
    }
    return {**changed, "review": review}

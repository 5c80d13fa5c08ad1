"""Typed relations: the documented object, its stored form and its eligibility."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from services.domain import limits
from services.domain.canonical_json import canonical_bytes, digest_bytes, parse_canonical
from services.domain.eligibility import DependencyCache, Failure, is_eligible, judge_evidence
from services.domain.errors import InvalidRequest
from services.domain.records import (
    Author,
    RecordState,
    Review,
    SourceRef,
    author_from_json,
    review_from_json,
    source_ref_from_json,
)

RelationKind = Literal["semantic_related", "same_entity", "temporal_before", "causal_claim", "supports", "contradicts"]
RelationOrigin = Literal["model_inference", "tool_observation", "human_statement", "imported_assertion"]
RelationState = Literal["active", "retired"]

# In the documented order, which is also the order of weights and of echoed kinds.
RELATION_KINDS: tuple[RelationKind, ...] = (
    "semantic_related",
    "same_entity",
    "temporal_before",
    "causal_claim",
    "supports",
    "contradicts",
)

RelationReason = Literal[
    "eligible",
    "retired",
    "rejected",
    "not_yet_valid",
    "expired",
    "endpoint_unavailable",
    "endpoint_revision_changed",
    "evidence_unavailable",
]


@dataclass(frozen=True, slots=True)
class Model:
    """Identity of the model behind an inference."""

    provider: str
    model: str
    revision: str

    def as_json(self) -> dict[str, Any]:
        """The documented object."""
        return {"provider": self.provider, "model": self.model, "revision": self.revision}


@dataclass(frozen=True, slots=True)
class Provenance:
    """Who or what says so, by which method, on which evidence."""

    origin: RelationOrigin
    method: str
    method_revision: str
    evidence_ref: str
    model: Model | None = None

    def as_json(self) -> dict[str, Any]:
        """The documented object, `model` null when unset."""
        return {
            "origin": self.origin,
            "method": self.method,
            "method_revision": self.method_revision,
            "evidence_ref": self.evidence_ref,
            "model": None if self.model is None else self.model.as_json(),
        }


@dataclass(frozen=True, slots=True)
class RelationInput:
    """What is asserted; immutable. The interval is half open: from <= clock < until."""

    source: SourceRef
    target: SourceRef
    kind: RelationKind
    provenance: Provenance
    valid_from_millis: int | None = None
    valid_until_millis: int | None = None
    evidence_sources: tuple[SourceRef, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The documented object; `evidence_sources` is left out when empty."""
        value: dict[str, Any] = {
            "source": self.source.as_json(),
            "target": self.target.as_json(),
            "kind": self.kind,
            "provenance": self.provenance.as_json(),
            "valid_from_millis": self.valid_from_millis,
            "valid_until_millis": self.valid_until_millis,
        }
        if self.evidence_sources:
            value["evidence_sources"] = [source.as_json() for source in self.evidence_sources]
        return value


def check_relation_input(value: RelationInput, *, member: str) -> None:
    """Check the rules that span several members of an assertion.

    Raises:
        InvalidRequest: Self-relation, missing model, empty interval, or evidence that repeats or names an endpoint.
    """
    if value.source.record_id == value.target.record_id:
        raise InvalidRequest("must differ from the source", member=f"{member}.target.record_id")
    if value.provenance.origin == "model_inference" and value.provenance.model is None:
        raise InvalidRequest("is required when the origin is model_inference", member=f"{member}.provenance.model")
    if (
        value.valid_from_millis is not None
        and value.valid_until_millis is not None
        and value.valid_from_millis >= value.valid_until_millis
    ):
        raise InvalidRequest("must be later than valid_from_millis", member=f"{member}.valid_until_millis")
    seen = {value.source.record_id, value.target.record_id}
    for index, source in enumerate(value.evidence_sources):
        if source.record_id in seen:
            raise InvalidRequest(
                "must be distinct and not an endpoint", member=f"{member}.evidence_sources[{index}].record_id"
            )
        seen.add(source.record_id)


@dataclass(frozen=True, slots=True)
class Relation:
    """An assertion at its current revision."""

    relation_id: str
    revision: int
    input: RelationInput
    reported_by: Author
    created_at_millis: int
    modified_at_millis: int
    state: RelationState
    review: Review | None = None

    def as_json(self) -> dict[str, Any]:
        """The documented MemoryRelation."""
        return {
            "schema_version": 1,
            "relation_id": self.relation_id,
            "revision": self.revision,
            "input": self.input.as_json(),
            "reported_by": self.reported_by.as_json(),
            "created_at_millis": self.created_at_millis,
            "modified_at_millis": self.modified_at_millis,
            "state": self.state,
            "review": None if self.review is None else self.review.as_json(),
        }

    def encode(self) -> bytes:
        """Stored form: canonical JSON. Its length is the documented byte count of the relation."""
        return canonical_bytes(self.as_json())

    @property
    def is_served(self) -> bool:
        """Active and not rejected: exactly then it has adjacency entries."""
        return self.state == "active" and not self.is_rejected

    @property
    def is_rejected(self) -> bool:
        """The present review rejects it."""
        return self.review is not None and self.review.disposition == "rejected"

    def reviewed(self, review: Review) -> Relation:
        """The next revision with a review; the state stays."""
        return replace(self, revision=self.revision + 1, modified_at_millis=review.reviewed_at_millis, review=review)

    def moved(self, state: RelationState, *, now_ms: int) -> Relation:
        """The next revision in another state; the review stays."""
        return replace(self, revision=self.revision + 1, modified_at_millis=now_ms, state=state)


def relation_digest(encoded: bytes) -> str:
    """Digest of a relation's stored form."""
    return digest_bytes("waggle.relation.v1", encoded)


def encode_history(relation: Relation, receipt: Mapping[str, Any]) -> bytes:
    """Stored form of a relation as it was at a revision, with the receipt of the command that made it."""
    return canonical_bytes({"relation": relation.as_json(), "receipt": receipt})


def check_relation_bytes(encoded: bytes, history: bytes) -> None:
    """Check the bound of a relation's stored values.

    Raises:
        InvalidRequest: The relation or the history value is larger than 16 KiB.
    """
    if max(len(encoded), len(history)) > limits.RELATION_VALUE_BYTES_MAX:
        raise InvalidRequest(f"the relation would have more than {limits.RELATION_VALUE_BYTES_MAX} bytes")


def check_temporal_order(kind: RelationKind, source_millis: int, target_millis: int, *, member: str) -> None:
    """Check that the source of `temporal_before` happened strictly before its target.

    Args:
        kind: Only `temporal_before` is checked.
        source_millis: Event time of the source record.
        target_millis: Event time of the target record.
        member: Path of the member to name.

    Raises:
        InvalidRequest: It did not.
    """
    if kind == "temporal_before" and source_millis >= target_millis:
        raise InvalidRequest("needs a source whose event time is before that of its target", member=member)


def provenance_from_json(value: Mapping[str, Any]) -> Provenance:
    """Read the stored object."""
    model = value["model"]
    return Provenance(
        value["origin"],
        value["method"],
        value["method_revision"],
        value["evidence_ref"],
        None if model is None else Model(model["provider"], model["model"], model["revision"]),
    )


def relation_input_from_json(value: Mapping[str, Any]) -> RelationInput:
    """Read the stored object."""
    return RelationInput(
        source_ref_from_json(value["source"]),
        source_ref_from_json(value["target"]),
        value["kind"],
        provenance_from_json(value["provenance"]),
        value["valid_from_millis"],
        value["valid_until_millis"],
        tuple(map(source_ref_from_json, value.get("evidence_sources", ()))),
    )


def relation_from_json(value: Mapping[str, Any]) -> Relation:
    """Read the stored object."""
    return Relation(
        value["relation_id"],
        value["revision"],
        relation_input_from_json(value["input"]),
        author_from_json(value["reported_by"]),
        value["created_at_millis"],
        value["modified_at_millis"],
        value["state"],
        review_from_json(value["review"]),
    )


def decode_relation(value: bytes) -> Relation:
    """Read the stored form."""
    return relation_from_json(parse_canonical(value))


@dataclass(frozen=True, slots=True)
class RelationVerdict:
    """Why a relation may or may not be served now.

    Attributes:
        endpoint: The failing endpoint, for the two endpoint reasons only.
        evidence_failure: Only and always with `evidence_unavailable`.
    """

    reason: RelationReason
    endpoint: SourceRef | None = None
    evidence_failure: Failure | None = None

    @property
    def eligible(self) -> bool:
        """The relation may be served."""
        return self.reason == "eligible"


def interval_reason(value: RelationInput, now_ms: int) -> RelationReason | None:
    """`not_yet_valid` or `expired` when the clock lies outside the interval."""
    if value.valid_from_millis is not None and now_ms < value.valid_from_millis:
        return "not_yet_valid"
    if value.valid_until_millis is not None and now_ms >= value.valid_until_millis:
        return "expired"
    return None


def judge_endpoint(
    endpoint: SourceRef, state: RecordState | None, cache: DependencyCache, now_ms: int
) -> RelationReason | None:
    """Why an endpoint cannot carry a relation: not servable is told before another revision."""
    if state is None or not is_eligible(state, cache, now_ms):
        return "endpoint_unavailable"
    return "endpoint_revision_changed" if state.revision != endpoint.revision else None


def judge_relation(
    relation: Relation,
    endpoint_state: Callable[[str], RecordState | None],
    cache: DependencyCache,
    now_ms: int,
) -> RelationVerdict:
    """Judge a relation in the documented order: state, review, interval, source, target, evidence.

    Args:
        endpoint_state: Looks an endpoint up; endpoints do not count as dependency work, their sources do.

    Raises:
        InvalidRequest: The request's dependency work is spent.
    """
    if relation.state == "retired":
        return RelationVerdict("retired")
    if relation.is_rejected:
        return RelationVerdict("rejected")
    outside = interval_reason(relation.input, now_ms)
    if outside is not None:
        return RelationVerdict(outside)
    for endpoint in (relation.input.source, relation.input.target):
        reason = judge_endpoint(endpoint, endpoint_state(endpoint.record_id), cache, now_ms)
        if reason is not None:
            return RelationVerdict(reason, endpoint=endpoint)
    failure = judge_evidence(relation.input.evidence_sources, cache, now_ms)
    if failure is not None:
        return RelationVerdict("evidence_unavailable", evidence_failure=failure)
    return RelationVerdict("eligible")

"""Consolidation jobs: the documented objects and their stored form. `job_transitions` has the rules by which they move.

An unset usage is None: nothing is known of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from services.domain import limits
from services.domain.canonical_json import canonical_bytes, digest_bytes, parse_canonical
from services.domain.errors import InvalidRequest
from services.domain.lease import Lease, Moment, is_lease_active
from services.domain.receipts import Receipt
from services.domain.records import Author, SourceRef, author_from_json, source_ref_from_json
from services.domain.relations import Provenance, RelationInput, RelationKind, provenance_from_json

JobStatus = Literal["ready", "running", "published", "cancelled", "exhausted"]
AttemptOutcome = Literal["running", "published", "failed", "unknown"]


@dataclass(frozen=True, slots=True)
class JobSpec:
    """What a job asks for; immutable. `max_attempt_millis` bounds one attempt however often it is renewed."""

    sources: tuple[SourceRef, ...]
    objective: str
    policy_ref: str
    extractor: Provenance
    max_relations: int
    max_attempts: int
    lease_millis: int
    max_attempt_millis: int

    def as_json(self) -> dict[str, Any]:
        """The documented ConsolidationSpec."""
        return {
            "sources": [source.as_json() for source in self.sources],
            "objective": self.objective,
            "policy_ref": self.policy_ref,
            "extractor": self.extractor.as_json(),
            "max_relations": self.max_relations,
            "max_attempts": self.max_attempts,
            "lease_millis": self.lease_millis,
            "max_attempt_millis": self.max_attempt_millis,
        }


def spec_from_json(value: Mapping[str, Any]) -> JobSpec:
    """Read the stored object."""
    return JobSpec(
        tuple(map(source_ref_from_json, value["sources"])),
        value["objective"],
        value["policy_ref"],
        provenance_from_json(value["extractor"]),
        value["max_relations"],
        value["max_attempts"],
        value["lease_millis"],
        value["max_attempt_millis"],
    )


def check_spec(spec: JobSpec, *, member: str) -> None:
    """Check the rules that span several members of a specification.

    Raises:
        InvalidRequest: An attempt would be shorter than its lease, or an inference names no model.
    """
    if spec.max_attempt_millis < spec.lease_millis:
        raise InvalidRequest("must not be less than lease_millis", member=f"{member}.max_attempt_millis")
    if spec.extractor.origin == "model_inference" and spec.extractor.model is None:
        raise InvalidRequest("is required when the origin is model_inference", member=f"{member}.extractor.model")


@dataclass(frozen=True, slots=True)
class ReportedUsage:
    """What an attempt has used, in figures; `cost_microusd` None when the cost is not known."""

    model_calls: int
    input_tokens: int
    output_tokens: int
    cost_microusd: int | None = None


Usage = ReportedUsage | None


def usage_as_json(usage: Usage) -> dict[str, Any]:
    """The documented ConsolidationUsage."""
    if usage is None:
        return {"status": "unknown"}
    return {
        "status": "reported",
        "model_calls": usage.model_calls,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost_microusd": usage.cost_microusd,
    }


def usage_from_json(value: Mapping[str, Any]) -> Usage:
    """Read the stored object."""
    if value["status"] == "unknown":
        return None
    return ReportedUsage(value["model_calls"], value["input_tokens"], value["output_tokens"], value["cost_microusd"])


@dataclass(frozen=True, slots=True)
class Assertion:
    """One relation that an extractor has found between two sources of its job."""

    source: SourceRef
    target: SourceRef
    kind: RelationKind
    evidence_ref: str
    valid_from_millis: int | None = None
    valid_until_millis: int | None = None

    def as_json(self) -> dict[str, Any]:
        """The documented ConsolidationAssertion."""
        return {
            "source": self.source.as_json(),
            "target": self.target.as_json(),
            "kind": self.kind,
            "valid_from_millis": self.valid_from_millis,
            "valid_until_millis": self.valid_until_millis,
            "evidence_ref": self.evidence_ref,
        }

    def relation_input(self, spec: JobSpec) -> RelationInput:
        """The relation to publish: the extractor's provenance with this evidence, resting on every other source."""
        extractor = spec.extractor
        return RelationInput(
            self.source,
            self.target,
            self.kind,
            Provenance(
                extractor.origin, extractor.method, extractor.method_revision, self.evidence_ref, extractor.model
            ),
            self.valid_from_millis,
            self.valid_until_millis,
            tuple(source for source in spec.sources if source not in (self.source, self.target)),
        )


@dataclass(frozen=True, slots=True)
class Attempt:
    """One claim of a job and what became of it.

    Attributes:
        ended_at_millis: None exactly while it runs, as is `evidence_ref`.
        usage_evidence_ref: Evidence of the latest reconciliation; None before the first.
    """

    number: int
    worker_id: str
    lease: Lease
    outcome: AttemptOutcome = "running"
    ended_at_millis: int | None = None
    usage: Usage = None
    evidence_ref: str | None = None
    usage_evidence_ref: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The documented ConsolidationAttempt."""
        return {
            "number": self.number,
            "worker_id": self.worker_id,
            "credential_id": self.lease.credential_id,
            "fence": self.lease.fence,
            "storage_incarnation": self.lease.incarnation,
            "claimed_at_millis": self.lease.claimed_at_millis,
            "expires_at_millis": self.lease.expires_at_millis,
            "ended_at_millis": self.ended_at_millis,
            "outcome": self.outcome,
            "usage": usage_as_json(self.usage),
            "evidence_ref": self.evidence_ref,
            "usage_evidence_ref": self.usage_evidence_ref,
        }


def attempt_from_json(value: Mapping[str, Any]) -> Attempt:
    """Read the stored object."""
    return Attempt(
        value["number"],
        value["worker_id"],
        Lease(
            value["credential_id"],
            value["fence"],
            value["storage_incarnation"],
            value["claimed_at_millis"],
            value["expires_at_millis"],
        ),
        value["outcome"],
        value["ended_at_millis"],
        usage_from_json(value["usage"]),
        value["evidence_ref"],
        value["usage_evidence_ref"],
    )


@dataclass(frozen=True, slots=True)
class Job:
    """A job at one revision. Its owner, the subject of `created_by`, never changes."""

    job_id: str
    revision: int
    created_by: Author
    created_at_millis: int
    modified_at_millis: int
    spec: JobSpec
    status: JobStatus
    attempts: tuple[Attempt, ...] = ()
    output_receipts: tuple[Receipt, ...] = ()

    @property
    def owner_id(self) -> str:
        """The subject that the job belongs to."""
        return self.created_by.subject_id

    @property
    def running_attempt(self) -> Attempt | None:
        """The attempt that has not been closed; there is one exactly while the job is running."""
        return self.attempts[-1] if self.status == "running" else None

    def is_lease_active(self, moment: Moment) -> bool:
        """The job is running and its lease can be used, by whoever holds it."""
        attempt = self.running_attempt
        return attempt is not None and is_lease_active(attempt.lease, moment)

    def is_recoverable(self, moment: Moment) -> bool:
        """The job is running and its lease cannot be used any more."""
        return self.status == "running" and not self.is_lease_active(moment)

    def as_json(self) -> dict[str, Any]:
        """The documented ConsolidationJob."""
        return {
            "schema_version": 1,
            "job_id": self.job_id,
            "revision": self.revision,
            "created_by": self.created_by.as_json(),
            "created_at_millis": self.created_at_millis,
            "modified_at_millis": self.modified_at_millis,
            "spec": self.spec.as_json(),
            "status": self.status,
            "attempts": [attempt.as_json() for attempt in self.attempts],
            "output_receipts": list(self.output_receipts),
        }

    def encode(self) -> bytes:
        """Stored form: canonical JSON. Its length is the documented byte count of the job."""
        return canonical_bytes(self.as_json())


def job_from_json(value: Mapping[str, Any]) -> Job:
    """Read the stored object."""
    return Job(
        value["job_id"],
        value["revision"],
        author_from_json(value["created_by"]),
        value["created_at_millis"],
        value["modified_at_millis"],
        spec_from_json(value["spec"]),
        value["status"],
        tuple(map(attempt_from_json, value["attempts"])),
        tuple(value["output_receipts"]),
    )


def decode_job(value: bytes) -> Job:
    """Read the stored form."""
    return job_from_json(parse_canonical(value))


def job_digest(encoded: bytes) -> str:
    """Digest of a job's stored form."""
    return digest_bytes("waggle.job.v1", encoded)


def encode_job_history(job: Job, receipt: Receipt) -> bytes:
    """Stored form of a job as it was at a revision, with the receipt of the command that made it."""
    return canonical_bytes({"job": job.as_json(), "receipt": receipt})


def check_job_bytes(encoded: bytes, history: bytes) -> None:
    """Check the bounds of a job's stored values.

    Raises:
        InvalidRequest: The job is larger than 512 KiB, or the history value than 1 MiB.
    """
    if len(encoded) > limits.JOB_VALUE_BYTES_MAX:
        raise InvalidRequest(f"the job would have more than {limits.JOB_VALUE_BYTES_MAX} bytes")
    if len(history) > limits.JOB_HISTORY_BYTES_MAX:
        raise InvalidRequest(
            f"the history of the job would have more than {limits.JOB_HISTORY_BYTES_MAX} bytes a value"
        )

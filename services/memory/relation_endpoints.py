"""What assert and restore ask of the records that a relation names."""

from __future__ import annotations

from services.domain import limits
from services.domain.eligibility import BOUND_REASONS, judge_evidence
from services.domain.errors import InvalidRequest, RevisionConflict
from services.domain.relations import RelationInput, judge_endpoint
from services.workspace.partition import MemoryPartition, StoredRecord


def check_endpoints(partition: MemoryPartition, value: RelationInput) -> tuple[StoredRecord, StoredRecord]:
    """Return source and target after checking them and the evidence sources: current as pinned, and eligible.

    Raises:
        RevisionConflict: An endpoint or evidence source is missing, not eligible, or has another revision.
        InvalidRequest: The endpoints have more than 8 MiB together, the evidence sources and what they stand on are
            more than 64 records or deeper than 8 edges, or the dependency work is spent.
    """
    partition.load_ancestry(reference.record_id for reference in (value.source, value.target, *value.evidence_sources))
    cache = partition.dependency_cache()
    found: list[StoredRecord] = []
    for name, endpoint in (("source", value.source), ("target", value.target)):
        stored = partition.stored_record(endpoint.record_id)
        reason = judge_endpoint(endpoint, None if stored is None else stored.state, cache, partition.now_ms)
        if stored is None or reason is not None:
            raise RevisionConflict(f"the {name} is not current and eligible: {reason}", member=f"relation.{name}")
        found.append(stored)
    check_endpoint_bytes(*found)
    failure = judge_evidence(value.evidence_sources, cache, partition.now_ms)
    if failure is not None and failure.reason in BOUND_REASONS:
        raise InvalidRequest(f"the evidence breaks a bound: {failure.reason}", member="relation.evidence_sources")
    if failure is not None:
        raise RevisionConflict(
            f"an evidence source is not current and eligible: {failure.reason}", member="relation.evidence_sources"
        )
    return found[0], found[1]


def check_endpoint_bytes(*endpoints: StoredRecord | None) -> None:
    """Check the bound on both endpoints of a relation together.

    Raises:
        InvalidRequest: They have more than 8 MiB.
    """
    if sum(endpoint.size_bytes for endpoint in endpoints if endpoint is not None) > limits.RECORD_BYTES_MAX:
        raise InvalidRequest(f"the endpoints have more than {limits.RECORD_BYTES_MAX} bytes")

"""What is asked of the sources of a job: present at exactly the named revision, eligible, and within bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from services.domain import limits
from services.domain.eligibility import BOUND_REASONS, DependencyWork, Failure, judge_evidence
from services.domain.errors import InvalidRequest, RevisionConflict
from services.domain.records import SourceRef
from services.workspace.partition import MemoryPartition, StoredRecord

# A cycle is no limit that is passed: its members are not eligible, whatever a job asks for.
_HARD_LIMITS = BOUND_REASONS - {"dependency_cycle"}


@dataclass(frozen=True, slots=True)
class Examination:
    """How the sources of a job stand at one clock value in one snapshot.

    Attributes:
        failure: The first check that fails in one combined walk in manifest order; None while all hold.
        work: Look-ups of the sources' own sources; the sources themselves count as record bytes.
    """

    failure: Failure | None
    work: DependencyWork


@dataclass(frozen=True, slots=True)
class Manifest:
    """Sources that hold, in manifest order.

    Attributes:
        record_bytes: Length of their stored forms, at most 8 MiB.
        work: Look-ups of the sources' own sources.
    """

    records: tuple[StoredRecord, ...]
    record_bytes: int
    work: DependencyWork


def examine_manifest(memory: MemoryPartition, sources: Sequence[SourceRef]) -> Examination:
    """Judge sources together: at most 64 distinct records, at most 8 derivation edges below each source.

    Raises:
        InvalidRequest: The dependency work is spent.
    """
    roots = [source.record_id for source in sources]
    memory.load_ancestry(roots)
    cache = memory.dependency_cache()
    cache.exempt({record_id: memory.record_state(record_id) for record_id in roots})
    return Examination(judge_evidence(sources, cache, memory.now_ms), cache.work)


def current_manifest(memory: MemoryPartition, sources: Sequence[SourceRef], *, member: str) -> Manifest:
    """Return the sources if all of them hold.

    Args:
        memory: Where they are.
        sources: The manifest.
        member: Path of the member to name.

    Raises:
        RevisionConflict: A source is missing, has another revision, or it or its ancestry is not eligible.
        InvalidRequest: The ancestry passes depth 8 or 64 distinct records, the dependency work is spent, or the sources
            have more than 8 MiB.
    """
    examination = examine_manifest(memory, sources)
    failure = examination.failure
    if failure is not None:
        if failure.reason in _HARD_LIMITS:
            raise InvalidRequest(f"the ancestry of the sources breaks a bound: {failure.reason}", member=member)
        raise RevisionConflict(f"a source is not current and eligible: {failure.reason}", member=member)
    found = [memory.stored_record(source.record_id) for source in sources]
    records = tuple(stored for stored in found if stored is not None)
    record_bytes = sum(stored.size_bytes for stored in records)
    if record_bytes > limits.RECORD_BYTES_MAX:
        raise InvalidRequest(f"the sources have more than {limits.RECORD_BYTES_MAX} bytes", member=member)
    return Manifest(records, record_bytes, examination.work)

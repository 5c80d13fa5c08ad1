"""Eligibility: may this record be served, at one clock value, in one snapshot?

A record is eligible when it exists, is not deleted, not expired, not rejected, and, if it is derived, every source it
names, recursively, exists at exactly the recorded revision and passes the same checks, within bounds: no cycle, at most
8 dependency edges below the root, at most 64 distinct sources.

Sources are walked depth first in their stored order and the first failed check is the answer. For each reference the
order of checks is: cycle, depth, number of nodes, existence, recorded revision, then deleted, expired, rejected, and at
last the source's own sources.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from services.domain import limits
from services.domain.errors import InvalidRequest
from services.domain.records import RecordState, SourceRef

FailureReason = Literal[
    "deleted",
    "expired",
    "rejected",
    "source_missing",
    "source_revision_changed",
    "dependency_cycle",
    "depth_limit",
    "node_limit",
]


BOUND_REASONS: Final[frozenset[FailureReason]] = frozenset({"dependency_cycle", "depth_limit", "node_limit"})
"""What the sources are too many, too deep or too entangled for. A command that asks for it is `invalid_request`; every
other reason is about the present state of a source."""


class RecordReader(Protocol):
    """Looks records up in one snapshot of one partition: a transaction for writers, the replica for searches."""

    def record_state(self, record_id: str) -> RecordState | None:
        """State of the record, tombstones included; None when no such record ever was."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The first check that failed. `expected_revision` is None for a root, `actual_revision` when not established."""

    record_id: str
    expected_revision: int | None
    actual_revision: int | None
    reason: FailureReason


@dataclass(frozen=True, slots=True)
class DependencyWork:
    """Source lookups of one request so far, missing ones included, and the stored bytes of the sources found."""

    records_examined: int = 0
    bytes_examined: int = 0


@dataclass(frozen=True, slots=True)
class DependencyLookups:
    """What a request has looked up, to be handed to another request on the same snapshot."""

    work: DependencyWork
    states: Mapping[str, RecordState | None]


@dataclass(slots=True)
class DependencyCache:
    """Source lookups of one request: each source is read and counted once.

    Attributes:
        records_examined: Distinct lookups, missing ones included.
        bytes_examined: Sum of the stored bytes of the sources found.
    """

    reader: RecordReader
    records_examined: int = 0
    bytes_examined: int = 0
    _states: dict[str, RecordState | None] = field(default_factory=dict)

    def look_up(self, record_id: str) -> RecordState | None:
        """Read a source.

        Raises:
            InvalidRequest: The request's dependency work is spent (4,096 lookups or 16 MiB).
        """
        if record_id in self._states:
            return self._states[record_id]
        if self.records_examined >= limits.DEPENDENCY_RECORDS_MAX:
            raise InvalidRequest(f"needs more than {limits.DEPENDENCY_RECORDS_MAX} dependency lookups")
        state = self.reader.record_state(record_id)
        self.records_examined += 1
        if state is not None:
            self.bytes_examined += state.size_bytes
            if self.bytes_examined > limits.DEPENDENCY_BYTES_MAX:
                raise InvalidRequest(f"needs more than {limits.DEPENDENCY_BYTES_MAX} bytes of dependencies")
        self._states[record_id] = state
        return state

    def exempt(self, states: Mapping[str, RecordState | None]) -> None:
        """Take over records that the request has read as its roots: looking them up is no dependency work."""
        self._states.update(states)

    @property
    def work(self) -> DependencyWork:
        """The counters as they stand."""
        return DependencyWork(self.records_examined, self.bytes_examined)

    @property
    def lookups(self) -> DependencyLookups:
        """A copy of all lookups so far."""
        return DependencyLookups(self.work, dict(self._states))

    def adopt(self, lookups: DependencyLookups) -> None:
        """Hold these lookups as if this request had made them; they must be of the same snapshot.

        Lookups that were made before are forgotten, so the cache must be fresh.
        """
        self.records_examined = lookups.work.records_examined
        self.bytes_examined = lookups.work.bytes_examined
        self._states = dict(lookups.states)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome for one root.

    Attributes:
        failure: The first failed check; None when eligible.
        dependencies_checked: Distinct source ids visited, at most 64.
        max_depth_examined: Deepest edge count looked at; one more than a bound that was broken.
        all_dependencies_checked: The whole bounded source graph was found valid.
    """

    failure: Failure | None
    dependencies_checked: int
    max_depth_examined: int
    all_dependencies_checked: bool

    @property
    def eligible(self) -> bool:
        """The record may be served."""
        return self.failure is None


def own_failure_reason(state: RecordState, now_ms: int) -> FailureReason | None:
    """The first check that the record fails by itself, sources aside: deleted, expired, rejected."""
    if state.deleted:
        return "deleted"
    if state.valid_until_millis is not None and now_ms >= state.valid_until_millis:
        return "expired"
    if state.rejected:
        return "rejected"
    return None


def judge_record(state: RecordState, cache: DependencyCache, now_ms: int) -> Verdict:
    """Judge a record that was already read; only its sources count as dependency work.

    Raises:
        InvalidRequest: The request's dependency work is spent.
    """
    reason = own_failure_reason(state, now_ms)
    if reason is not None:
        return Verdict(Failure(state.record_id, None, state.revision, reason), 0, 0, all_dependencies_checked=False)
    if not state.sources:
        return _SOURCELESS
    walk = _Walk(cache, now_ms)
    failure = walk.first_failure(state.sources, depth=1, path=(state.record_id,))
    return Verdict(failure, len(walk.heights), walk.max_depth, failure is None)


def is_eligible(state: RecordState, cache: DependencyCache, now_ms: int) -> bool:
    """`judge_record` without the details."""
    if own_failure_reason(state, now_ms) is not None:
        return False
    return not state.sources or judge_record(state, cache, now_ms).eligible


def judge_evidence(sources: Sequence[SourceRef], cache: DependencyCache, now_ms: int) -> Failure | None:
    """The first failure of a relation's evidence sources, in one combined walk.

    At most 64 distinct records in all; depth is counted from each declared source, so one with 8 derivation edges below
    it still passes.

    Raises:
        InvalidRequest: The request's dependency work is spent.
    """
    if not sources:
        return None
    return _Walk(cache, now_ms).first_failure(sources, depth=0, path=())


_SOURCELESS = Verdict(None, 0, 0, all_dependencies_checked=True)


class _Walk:
    """One bounded walk over a source graph."""

    def __init__(self, cache: DependencyCache, now_ms: int) -> None:
        self._cache = cache
        self._now_ms = now_ms
        self.max_depth = 0
        # Longest chain of edges below each source seen so far; a source met again deeper is judged by it.
        self.heights: dict[str, int] = {}

    def first_failure(self, sources: Sequence[SourceRef], *, depth: int, path: tuple[str, ...]) -> Failure | None:
        for source in sources:
            failure = self._check(source, depth, path)
            if failure is not None:
                return failure
        return None

    def _check(self, source: SourceRef, depth: int, path: tuple[str, ...]) -> Failure | None:
        record_id, revision = source.record_id, source.revision
        if record_id in path:
            return Failure(record_id, revision, None, "dependency_cycle")
        known_height = self.heights.get(record_id)
        deepest = depth + (known_height or 0)
        self.max_depth = max(self.max_depth, deepest)
        if deepest > limits.ANCESTRY_DEPTH_MAX:
            return Failure(record_id, revision, None, "depth_limit")
        if known_height is None and len(self.heights) >= limits.ANCESTRY_NODES_MAX:
            return Failure(record_id, revision, None, "node_limit")
        state = self._cache.look_up(record_id)
        if known_height is None:
            self.heights[record_id] = 0
        if state is None:
            return Failure(record_id, revision, None, "source_missing")
        if state.revision != revision:
            return Failure(record_id, revision, state.revision, "source_revision_changed")
        reason = own_failure_reason(state, self._now_ms)
        if reason is not None:
            return Failure(record_id, revision, state.revision, reason)
        if known_height is not None:
            return None
        failure = self.first_failure(state.sources, depth=depth + 1, path=(*path, record_id))
        if failure is None and state.sources:
            self.heights[record_id] = 1 + max(self.heights[child.record_id] for child in state.sources)
        return failure

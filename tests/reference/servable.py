"""Eligibility restated: slow, recursive, nothing remembered but what was looked up."""

from __future__ import annotations

from collections.abc import Sequence

from services.domain.records import Record, SourceRef
from tests.reference.world import World


class Refused(Exception):
    """The reference refuses the whole request; production must raise InvalidRequest."""


class Lookups:
    """Dependency lookups of one request: each source once, the bytes of those found."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.bytes_of: dict[str, int] = {}

    def read(self, record_id: str) -> Record | None:
        if record_id not in self.bytes_of:
            if len(self.bytes_of) == 4096:
                raise Refused
            self.bytes_of[record_id] = self.world.size(record_id) if record_id in self.world.records else 0
            if sum(self.bytes_of.values()) > 16 * 2**20:
                raise Refused
        return self.world.records.get(record_id)

    def as_pair(self) -> tuple[int, int]:
        return len(self.bytes_of), sum(self.bytes_of.values())


def is_servable(record: Record, lookups: Lookups) -> bool:
    """May the record be served at the world's clock."""
    if not _passes_alone(record, lookups.world.now_ms):
        return False
    if record.derivation is None:
        return True
    return _all_pass(record.derivation.sources, 1, [record.record_id], set(), lookups)


def is_evidence_servable(sources: Sequence[SourceRef], lookups: Lookups) -> bool:
    """May a relation with these evidence sources be served: one walk, depth counted from each declared source."""
    return _all_pass(sources, 0, [], set(), lookups)


def _passes_alone(record: Record, now_ms: int) -> bool:
    if record.payload is None:
        return False
    if record.payload.valid_until_millis is not None and record.payload.valid_until_millis <= now_ms:
        return False
    return record.review is None or record.review.disposition != "rejected"


def _all_pass(sources: Sequence[SourceRef], depth: int, path: list[str], visited: set[str], lookups: Lookups) -> bool:
    for source in sources:
        if source.record_id in path or depth > 8:
            return False
        visited.add(source.record_id)
        if len(visited) > 64:
            return False
        record = lookups.read(source.record_id)
        if record is None or record.revision != source.revision or not _passes_alone(record, lookups.world.now_ms):
            return False
        if record.derivation is not None and not _all_pass(
            record.derivation.sources, depth + 1, [*path, record.record_id], visited, lookups
        ):
            return False
    return True

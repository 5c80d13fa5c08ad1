"""Read a relation together with whether it is served."""

from __future__ import annotations

from dataclasses import dataclass

from services.domain.eligibility import DependencyWork
from services.domain.errors import RecordNotFound
from services.domain.relations import Relation, RelationVerdict, judge_relation
from services.memory.relation_endpoints import check_endpoint_bytes
from services.workspace.partition import MemoryPartition


@dataclass(frozen=True, slots=True)
class Inspection:
    """A relation and the verdict on it, with the work that it took."""

    relation: Relation
    verdict: RelationVerdict
    evaluated_at_millis: int
    dependency_work: DependencyWork


def inspect_relation(partition: MemoryPartition, relation_id: str) -> Inspection:
    """Judge a relation, retired and rejected ones included.

    Raises:
        RecordNotFound: No such relation.
        InvalidRequest: Its endpoints have more than 8 MiB together, or it needs too much dependency work.
    """
    relation = partition.relation(relation_id)
    if relation is None:
        raise RecordNotFound("no such relation", member="relation_id")
    value = relation.input
    named = (value.source, value.target, *value.evidence_sources)
    partition.load_ancestry(reference.record_id for reference in named)
    endpoints = [partition.stored_record(reference.record_id) for reference in (value.source, value.target)]
    check_endpoint_bytes(*endpoints)
    cache = partition.dependency_cache()
    verdict = judge_relation(relation, partition.record_state, cache, partition.now_ms)
    return Inspection(relation, verdict, partition.now_ms, cache.work)

"""A replica's partition in words that do not depend on how it came about: no rows, slots, codes or packing."""

from __future__ import annotations

from typing import Any

import numpy as np

from services.domain.eligibility import DependencyCache
from services.domain.errors import InvalidRequest
from services.domain.relations import RELATION_KINDS
from services.retrieval.base_selection import select_base
from services.retrieval.partition import Partition
from services.retrieval.seed import Seed
from services.retrieval.view import Filter


def describe_partition(partition: Partition, words: set[str], tags: set[str]) -> dict[str, Any]:
    """Everything that a partition holds, by ids.

    Args:
        words: Terms whose postings are told.
        tags: Tags whose records are told.
    """
    records, ids = partition.records, partition.records.ids
    document_row = partition.texts.document_row.living
    postings = {}
    for word in words:
        found = partition.texts.postings(word)
        if found is not None:
            rows = document_row[found.documents].tolist()
            postings[word] = {ids[row]: count for row, count in zip(rows, found.frequencies.tolist(), strict=True)}
    lengths = partition.texts.document_length.living[partition.texts.living].tolist()
    living_rows = document_row[partition.texts.living].tolist()
    return {
        "records": {
            record_id: (
                partition.record_state(record_id),
                records.answers[row],
                bool(records.is_candidate.living[row]),
                bool(records.is_derived.living[row]),
                sorted(tag for tag in tags if partition.matches(row, Filter(tag=tag))),
            )
            for row, record_id in enumerate(ids)
        },
        "order": [ids[row] for row in records.order.tolist()],
        "ranks": {ids[row]: rank for row, rank in enumerate(records.id_rank.tolist())},
        "postings": postings,
        "lengths": {ids[row]: length for row, length in zip(living_rows, lengths, strict=True)},
        "bindings": {
            (ids[row], space): (
                vectors.binding_of(row),
                vectors.answers[slot],
                partition.cosines(space, np.eye(1, space.dimensions, dtype=np.float32)[0], [row]).tolist(),
            )
            for space, vectors in partition.spaces.items()
            for slot, row in enumerate(vectors.slot_row.living.tolist())
        },
        "adjacency": {
            (ids[row], direction): [(_named(partition, index), partition.graph.answer(index)) for index in indexes(row)]
            for direction, indexes in (("outgoing", partition.outgoing), ("incoming", partition.incoming))
            for row in range(len(ids))
        },
        "endpoints": {
            (ids[row], revision, direction)
            for direction in ("outgoing", "incoming")
            for row, revision in partition.graph.endpoints(direction)  # type: ignore[arg-type]
        },
    }


def _named(partition: Partition, index: int) -> tuple[Any, ...]:
    relation = partition.relation(index)
    return (
        relation.relation_id,
        relation.revision,
        RELATION_KINDS[relation.kind_code],
        (partition.record_id(relation.source_row), relation.source_revision),
        (partition.record_id(relation.target_row), relation.target_revision),
        relation.size_bytes,
        (relation.valid_from_millis, relation.valid_until_millis),
        relation.evidence_sources,
    )


def describe_search(partition: Partition, seed: Seed, *, now_ms: int, **bounds: Any) -> dict[str, Any] | str:
    """What a search finds, its hits by id; the words of the refusal when it is refused."""
    cache = DependencyCache(partition)
    asked: dict[str, Any] = {"narrowing": Filter(), "limit": 100, "scan_limit": 10_000, "scan_bytes_limit": None}
    try:
        selection = select_base(partition, seed, **(asked | {"after": None} | bounds), cache=cache, now_ms=now_ms)
    except InvalidRequest as refusal:
        return str(refusal)
    members = {name: getattr(selection, name) for name in selection.__slots__ if name != "hits"}
    hits = [(partition.record_id(hit.row), *hit[1:]) for hit in selection.hits]
    return {**members, "hits": hits, "work": cache.work}

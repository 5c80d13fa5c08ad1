"""A partition in memory in words that do not depend on how it came about: no rows, slots, codes or packing.

A replica that has followed the change log and one that was just loaded say the same, section by section, when both are
right. `digest_sections` makes that comparable between processes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

from services.domain.canonical_json import canonical_bytes
from services.domain.errors import StorageInconsistency
from services.domain.relations import RELATION_KINDS
from services.retrieval.partition import Partition
from services.retrieval.relation_graph import Direction

Entry = tuple[object, ...]
"""Texts, numbers, bytes, None and tuples of these; its `repr` is its only spelling."""


class SectionDigest(NamedTuple):
    """One part of a replica."""

    name: str
    entry_count: int
    digest: bytes
    """SHA-256 over the entries in order."""


def replica_sections(partition: Partition) -> dict[str, Iterator[Entry]]:
    """Everything that a partition holds, by ids, in parts; entries of each come in a fixed order.

    Iterating raises StorageInconsistency when adjacency does not agree with its completeness counts.
    """
    return {
        "adjacency": _adjacency(partition),
        "bindings": _bindings(partition),
        "postings": _postings(partition),
        "records": _records(partition),
        "tags": _tags(partition),
        "texts": _texts(partition),
    }


def digest_sections(partition: Partition) -> list[SectionDigest]:
    """Digest each part of a partition.

    Raises:
        StorageInconsistency: Adjacency does not agree with its completeness counts.
    """
    return [_digest(name, entries) for name, entries in replica_sections(partition).items()]


def differing_sections(found: list[SectionDigest], wanted: list[SectionDigest]) -> list[str]:
    """Names of the parts in which two partitions differ."""
    others = {section.name: section for section in wanted}
    return [section.name for section in found if others.pop(section.name, None) != section] + sorted(others)


def _digest(name: str, entries: Iterator[Entry]) -> SectionDigest:
    digest = hashlib.sha256(f"waggle.replica.{name}.v1\x00".encode())
    count = 0
    for entry in entries:
        text = repr(entry).encode()
        digest.update(len(text).to_bytes(8, "big"))
        digest.update(text)
        count += 1
    return SectionDigest(name, count, digest.digest())


def _records(partition: Partition) -> Iterator[Entry]:
    records = partition.records
    for rank, row in enumerate(records.order.tolist()):
        record_id = records.ids[row]
        state = records.state(row)
        yield (
            record_id,
            int(records.id_rank[row]) == rank,
            (state.revision, state.deleted, state.valid_until_millis, state.rejected, state.size_bytes),
            tuple((source.record_id, source.revision) for source in state.sources),
            bool(records.is_candidate.living[row]),
            bool(records.is_derived.living[row]),
            records.type_word(row),
            records.answers[row],
        )


def _tags(partition: Partition) -> Iterator[Entry]:
    ids = partition.records.ids
    for tag, rows in sorted(partition.records.tagged().items()):
        yield tag, *sorted(ids[row] for row in rows)


def _texts(partition: Partition) -> Iterator[Entry]:
    texts, ids = partition.texts, partition.records.ids
    living = texts.living
    rows = texts.document_row.living[living].tolist()
    lengths = texts.document_length.living[living].tolist()
    yield from sorted((ids[row], length) for row, length in zip(rows, lengths, strict=True))


def _postings(partition: Partition) -> Iterator[Entry]:
    texts, ids = partition.texts, partition.records.ids
    document_row = texts.document_row.living
    for term in sorted(texts.terms()):
        found = texts.postings(term)
        if found is not None:
            rows = document_row[found.documents].tolist()
            yield term, *sorted((ids[row], count) for row, count in zip(rows, found.frequencies.tolist(), strict=True))


def _bindings(partition: Partition) -> Iterator[Entry]:
    ids = partition.records.ids
    for space in sorted(partition.spaces, key=lambda space: canonical_bytes(space.as_json())):
        vectors = partition.spaces[space]
        slots = sorted((ids[row], slot, row) for slot, row in enumerate(vectors.slot_row.living.tolist()))
        for record_id, slot, row in slots:
            bound = vectors.binding_of(row)
            if bound is None:
                raise StorageInconsistency("a slot of an embedding space has no binding")
            stated = (space.provider, space.model, space.revision, space.dimensions)
            yield stated, record_id, tuple(bound), vectors.answers[slot], vectors.held_bytes(slot)


def _adjacency(partition: Partition) -> Iterator[Entry]:
    directions: tuple[Direction, ...] = ("outgoing", "incoming")
    for direction in directions:
        named = sorted(
            (partition.record_id(row), revision, row) for row, revision in partition.graph.endpoints(direction)
        )
        for record_id, revision, row in named:
            indexes = partition.graph.indexes(direction, (row, revision))
            yield direction, record_id, revision, *(_relation(partition, index) for index in indexes)


def _relation(partition: Partition, index: int) -> Entry:
    relation = partition.relation(index)
    return (
        relation.relation_id,
        relation.revision,
        RELATION_KINDS[relation.kind_code],
        (partition.record_id(relation.source_row), relation.source_revision),
        (partition.record_id(relation.target_row), relation.target_revision),
        relation.size_bytes,
        (relation.valid_from_millis, relation.valid_until_millis),
        tuple((source.record_id, source.revision) for source in relation.evidence_sources),
        partition.graph.answer(index),
    )

"""Partitions for tests, loaded as the replica loads them, from records that only say what matters."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from services.domain import keys
from services.domain.embeddings import Binding, EmbeddingReceipt, Float32Vector, Space
from services.domain.records import Author, Content, Derivation, Record, RecordInput, Review, SourceRef
from services.retrieval.partition import Partition
from services.retrieval.partition_loading import PartitionLoader, apply_changes
from services.storage.contract import Row
from tests.reference.loading import CanonicalEncoder

NOW_MS = 1_700_000_000_000
AUTHOR = Author(str(uuid.UUID(int=1)), "subject")


def uuid_text(number: int) -> str:
    """The id with this number; order of numbers is order of ids."""
    return str(uuid.UUID(int=number << 64))


def record(number: int, text: str = "", *, revision: int = 1, **members: Any) -> Record:
    """A record; members are those of its payload, or `review`, `sources`."""
    review = members.pop("review", None)
    sources = members.pop("sources", ())
    return Record(
        uuid_text(number),
        revision,
        NOW_MS,
        NOW_MS,
        AUTHOR,
        RecordInput(members.pop("episode_type", "Observation"), Content(text), NOW_MS, **members),
        None if review is None else Review(review, "why", AUTHOR, NOW_MS),
        Derivation(tuple(SourceRef(uuid_text(source), 1) for source in sources), "m", "1", "e") if sources else None,
    )


def record_row(value: Record) -> Row:
    """As stored."""
    return Row(keys.record_key(value.record_id), value.encode(), 1)


def binding_row(number: int, space: Space, vector: Float32Vector, *, revision: int = 1) -> Row:
    """A binding as stored."""
    receipt = EmbeddingReceipt("k", uuid_text(number), revision, space, "0" * 64, AUTHOR, NOW_MS)
    return Row(keys.binding_key(receipt.record_id, space.tag), Binding(receipt, vector).encode(), 1)


def load(rows: Iterable[Row], counts: Mapping[int, int] | None = None) -> Partition:
    """A partition of these rows, in key order; `counts` other than those of the rows make it inconsistent."""
    ordered = sorted(rows)
    loader = PartitionLoader(CanonicalEncoder())
    loader.add(ordered)
    return loader.finish(Counter(row.key[0] for row in ordered) if counts is None else counts)


def apply(partition: Partition, *rows: Row) -> None:
    """Change a partition."""
    apply_changes(partition, rows, CanonicalEncoder())

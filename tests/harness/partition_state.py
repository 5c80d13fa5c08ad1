"""A replica's partition in words that do not depend on how it came about: no rows, slots, codes or packing."""

from __future__ import annotations

from typing import Any

from services.domain.eligibility import DependencyCache
from services.domain.errors import InvalidRequest
from services.retrieval.base_selection import select_base
from services.retrieval.partition import Partition
from services.retrieval.replica_digest import Entry, replica_sections
from services.retrieval.seed import Seed
from services.retrieval.view import Filter


def describe_partition(partition: Partition) -> dict[str, list[Entry]]:
    """Everything that a partition holds, by ids, as audits of a running suite compare it."""
    return {name: list(entries) for name, entries in replica_sections(partition).items()}


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

"""A world written to a store as the memory service lays it out, and read back into a replica's partition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from services.domain import keys
from services.domain.canonical_json import canonical_bytes
from services.retrieval.partition import Partition
from services.retrieval.partition_loading import LOADED_PREFIXES, PartitionLoader
from services.storage.contract import Add, Commit, PartitionCommit, Put, Row, Store, Write
from tests.reference.graph import is_served
from tests.reference.world import World


class CanonicalEncoder:
    """An `AnswerEncoder` whose answers are the canonical JSON of what is stored."""

    def encode_record(self, record: Mapping[str, Any]) -> bytes:
        return canonical_bytes(record)

    def encode_receipt(self, receipt: Mapping[str, Any]) -> bytes:
        return canonical_bytes(receipt)

    def encode_relation(self, relation: Mapping[str, Any]) -> bytes:
        return canonical_bytes(relation)


def world_writes(world: World) -> list[Write]:
    """What a partition that holds the world has under the keys that searches and traversal read."""
    writes: list[Write] = []
    for record in world.records.values():
        writes.append(Put(keys.record_key(record.record_id), record.encode()))
    for (record_id, space), binding in world.bindings.items():
        writes.append(Put(keys.binding_key(record_id, space.tag), binding.encode()))
    for relation in world.relations.values():
        stated = relation.input
        writes.append(Put(keys.relation_key(relation.relation_id), relation.encode()))
        for kind, end in ((keys.OUTGOING, stated.source), (keys.INCOMING, stated.target)):
            if is_served(relation):
                entry = keys.adjacency_key(kind, end.record_id, end.revision, relation.relation_id)
                writes.append(Put(entry, stated.kind.encode()))
                writes.append(Add(keys.adjacency_count_key(kind, end.record_id, end.revision), 1))
    return writes


def load_partition(store: Store, partition: bytes, world: World) -> Partition:
    """Write the world to an unused partition (32 bytes) and read it back."""
    writes = world_writes(world)
    if writes:
        store.commit(Commit([PartitionCommit(partition, writes=writes)]))
    loader = PartitionLoader(CanonicalEncoder())
    for page in store.changed_since(partition, 0, key_prefixes=LOADED_PREFIXES):
        loader.add(page.rows)
    return loader.finish(page.counts)


def partition_of(world: World) -> Partition:
    """The same without a store."""
    values: dict[bytes, bytes] = {}
    for write in world_writes(world):
        if isinstance(write, Put):
            values[write.key] = write.value
        elif isinstance(write, Add):
            total = int.from_bytes(values.get(write.key, b""), "big", signed=True) + write.amount
            values[write.key] = total.to_bytes(8, "big", signed=True)
    loaded = {key: value for key, value in values.items() if key.startswith(LOADED_PREFIXES)}
    loader = PartitionLoader(CanonicalEncoder())
    loader.add([Row(key, value, 1) for key, value in sorted(loaded.items())])
    return loader.finish(Counter(key[0] for key in loaded))

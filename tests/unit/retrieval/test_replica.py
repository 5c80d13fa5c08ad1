"""Loading, following, evicting: what the replica asks of storage, and when."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from services.domain.eligibility import DependencyCache
from services.domain.errors import StorageInconsistency
from services.retrieval.base_selection import select_base
from services.retrieval.partition import Partition
from services.retrieval.replica import Replica
from services.retrieval.seed import LexicalSeed
from services.retrieval.view import Filter
from services.storage.contract import ChangePage, Row
from services.storage.errors import ChangesForgotten, CommitConflict, StorageUnavailable
from tests.reference.loading import CanonicalEncoder
from tests.unit.retrieval.partitions import NOW_MS, record, record_row

P, Q = b"p" * 32, b"q" * 32


class ScriptedStore:
    """A change log in memory that notes what it is asked.

    Attributes:
        incarnation: Of the store.
        rows: Stored rows by partition, the index plus one being the sequence.
        asked: Partition and `after` of each call.
        failures: Raised instead of the next pages, one each.
        forgotten: Sequence up to which deletions are no longer told.
    """

    def __init__(self) -> None:
        self.incarnation = "one"
        self.rows: dict[bytes, list[Row]] = {P: [], Q: []}
        self.asked: list[tuple[bytes, int]] = []
        self.failures: list[Exception] = []
        self.forgotten = 0

    def changed_since(
        self, partition: bytes, after: int, *, expected_incarnation: str = "", **_bounds: Any
    ) -> Iterator[ChangePage]:
        """See `contract.Store`."""
        self.asked.append((partition, after))
        rows = self.rows[partition]
        if (expected_incarnation and expected_incarnation != self.incarnation) or after > len(rows):
            raise CommitConflict("another store")
        if 0 < after < self.forgotten:
            raise ChangesForgotten("too old")
        yield ChangePage([], len(rows), self.incarnation, {}, last=False)
        if self.failures:
            raise self.failures.pop()
        living = {row.key: row for row in rows[after:]}
        counts = {} if after else {ord("R"): len(living)}
        yield ChangePage(list(living.values()), len(rows), self.incarnation, counts, last=True)


@pytest.fixture
def store() -> ScriptedStore:
    """A store with two partitions of one record each."""
    made = ScriptedStore()
    for partition in (P, Q):
        made.rows[partition].append(record_row(record(1, "bee")))
    return made


def replica_of(store: ScriptedStore, memory_bytes_max: int = 1 << 40) -> Replica:
    """A replica of it."""
    return Replica(store, CanonicalEncoder(), memory_bytes_max=memory_bytes_max)  # type: ignore[arg-type]


def count(replica: Replica, store: ScriptedStore, partition_id: bytes = P) -> int:
    """Number of records that a query sees now."""
    head = len(store.rows[partition_id])
    with replica.open(partition_id, head=head, incarnation=store.incarnation) as partition:
        return len(partition.records)


def test_a_partition_is_read_whole_once_and_followed_from_then_on(store: ScriptedStore) -> None:
    """Nothing is asked while the head stands still; then only what came after it."""
    replica = replica_of(store)
    assert [count(replica, store) for _ in range(2)] == [1, 1]
    store.rows[P] += [record_row(record(2)), record_row(record(3))]
    assert count(replica, store) == 3
    assert store.asked == [(P, 0), (P, 1)]


def test_a_head_that_another_request_has_passed_needs_nothing(store: ScriptedStore) -> None:
    """A slower request of the same incarnation is served at the later sequence."""
    replica = replica_of(store)
    store.rows[P].append(record_row(record(2)))
    count(replica, store)
    with replica.open(P, head=1, incarnation="one") as partition:
        assert len(partition.records) == 2
    assert store.asked == [(P, 0)]


def test_a_new_incarnation_is_read_whole(store: ScriptedStore) -> None:
    """Whether the query has met it already or only the change log has."""
    replica = replica_of(store)
    count(replica, store)
    store.incarnation = "two"
    assert count(replica, store) == 1
    store.incarnation = "three"
    store.rows[P].append(record_row(record(2)))
    with replica.open(P, head=2, incarnation="two") as partition:
        assert len(partition.records) == 2
    assert [after for _, after in store.asked] == [0, 0, 1, 0]


def test_a_replica_that_comes_back_too_late_reads_everything(store: ScriptedStore) -> None:
    """When the change log no longer tells what was deleted meanwhile, nothing deleted is ever served."""
    replica = replica_of(store)
    store.rows[P].append(record_row(record(2)))
    assert count(replica, store) == 2
    # The first record is deleted, another one comes, and the deletion is forgotten.
    gone = record_row(record(1)).key
    store.rows[P] = [row for row in store.rows[P] if row.key != gone]
    store.rows[P] += [record_row(record(number)) for number in (3, 4)]
    store.forgotten = 3
    assert count(replica, store) == 3
    store.rows[P].append(record_row(record(5)))
    assert count(replica, store) == 4
    assert [after for _, after in store.asked] == [0, 2, 0, 3]


def test_a_store_that_goes_away_between_pages_is_read_again(store: ScriptedStore) -> None:
    """Twice; then the failure is the caller's to see, and the next query starts afresh."""
    replica = replica_of(store)
    store.failures = [StorageUnavailable("gone"), StorageUnavailable("gone")]
    assert count(replica, store) == 1
    replica = replica_of(store)
    store.failures = [StorageUnavailable("gone") for _ in range(3)]
    with pytest.raises(StorageUnavailable):
        count(replica, store)
    assert count(replica, store) == 1


def test_following_that_fails_leaves_the_partition_as_it_was(store: ScriptedStore) -> None:
    """A failure before anything was applied costs nothing but the query."""
    replica = replica_of(store)
    count(replica, store)
    store.rows[P].append(record_row(record(2)))
    store.failures = [StorageUnavailable("gone")]
    with pytest.raises(StorageUnavailable):
        count(replica, store)
    assert count(replica, store) == 2
    assert [after for _, after in store.asked] == [0, 1, 1]


def test_a_change_that_cannot_be_applied_drops_the_partition(store: ScriptedStore) -> None:
    """Half-applied state is never served: the next query reads everything anew."""
    replica = replica_of(store)
    count(replica, store)
    store.rows[P].append(Row(record_row(record(1)).key, b"", 2, deleted=True))
    with pytest.raises(StorageInconsistency):
        count(replica, store)
    store.rows[P][-1] = record_row(record(2))
    assert count(replica, store) == 2
    assert store.asked[-1] == (P, 0)


def test_the_least_recently_used_partition_gives_way_and_is_freed_at_once(store: ScriptedStore) -> None:
    """Also after it has answered searches: nothing keeps it but the replica."""
    replica = replica_of(store, memory_bytes_max=1)
    gc.disable()
    try:
        with replica.open(P, head=1, incarnation="one") as partition:
            select_base(
                partition,
                LexicalSeed(("bee",)),
                narrowing=Filter(),
                limit=1,
                scan_limit=1,
                scan_bytes_limit=None,
                after=None,
                cache=DependencyCache(partition),
                now_ms=NOW_MS,
            )
            gone: weakref.ref[Partition] = weakref.ref(partition)
        del partition
        assert gone() is not None
        count(replica, store, Q)
        assert gone() is None
    finally:
        gc.enable()
    assert (replica.loaded_count, replica.memory_bytes > 0) == (1, True)
    count(replica, store)
    assert [partition_id for partition_id, _ in store.asked] == [P, Q, P]

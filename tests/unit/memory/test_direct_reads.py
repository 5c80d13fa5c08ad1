"""Single read, batch read and the two walks: what is served, in which order, and what is counted."""

from __future__ import annotations

from typing import Any

import pytest

from services.domain import keys
from services.domain.eligibility import DependencyWork
from services.domain.errors import InvalidRequest, RecordNotFound, StorageInconsistency
from services.domain.scope import workspace_for
from services.memory.batch_read_records import RecordBatch, batch_read_records
from services.memory.commands import DeleteRecord, DeriveRecord, ReviewRecord, UpdateRecord
from services.memory.get_record import get_record
from services.memory.query_records import RecordPage, query_records
from services.memory.query_records_ordered import OrderedPage, OrderedQuery, query_records_ordered
from services.memory.record_filter import RecordFilter
from tests.harness.memory_world import SCOPE, START_MS, VERIFIER_KEY, MemoryWorld, derivation, record_input

ABSENT = "00000000-0000-4000-8000-00000000dead"
OPEN = RecordFilter()


def query(
    world: MemoryWorld,
    narrowing: RecordFilter = OPEN,
    *,
    limit: int = 1000,
    after: str | None = None,
    scan_limit: int = 10_000,
) -> RecordPage:
    return world.read(
        lambda partition: query_records(partition, narrowing, limit=limit, after=after, scan_limit=scan_limit)
    )


def walk(world: MemoryWorld, narrowing: RecordFilter = OPEN, **members: Any) -> OrderedPage:
    wanted = OrderedQuery(narrowing, **members)
    return world.read(lambda partition: query_records_ordered(partition, wanted, cursor_key=VERIFIER_KEY))


def batch(world: MemoryWorld, *record_ids: str) -> RecordBatch:
    return world.read(lambda partition: batch_read_records(partition, record_ids))


def ids(page: RecordPage | OrderedPage) -> list[str]:
    return [stored.state.record_id for stored in page.records]


def unserved(world: MemoryWorld) -> list[str]:
    """One record for each reason not to be served: deleted, expired, rejected, source changed."""
    deleted, rejected, source = world.create(), world.create(), world.create()
    expired = world.create(valid_until_millis=START_MS)
    derived = world.execute(DeriveRecord(record_input(), derivation(source)))["record_id"]
    world.execute(DeleteRecord(deleted.record_id, 1))
    world.execute(ReviewRecord(rejected.record_id, 1, "rejected", "ref"))
    world.execute(UpdateRecord(source.record_id, 1, record_input("changed")))
    world.execute(DeleteRecord(source.record_id, 2))
    return [deleted.record_id, expired.record_id, rejected.record_id, derived, source.record_id]


def test_every_unserved_record_reads_as_absent(world: MemoryWorld) -> None:
    """404 whatever the cause."""
    for record_id in [ABSENT, *unserved(world)]:
        with pytest.raises(RecordNotFound):
            world.read(lambda partition, record_id=record_id: get_record(partition, record_id))  # type: ignore[misc]


def test_batch_keeps_request_order_and_hides_causes(world: MemoryWorld) -> None:
    """One entry an id, None for whatever is unavailable; bytes count what was found, served or not."""
    hidden, served = unserved(world), world.create()
    wanted = [*hidden, ABSENT, served.record_id]
    found = batch(world, *wanted)
    assert [record_id for record_id, _ in found.entries] == wanted
    assert [stored is not None for _, stored in found.entries] == [False] * len(hidden) + [False, True]
    rows = world.rows()
    sizes = sum(len(rows[keys.record_key(record_id)]) for record_id in [*hidden, served.record_id])
    assert (found.record_bytes, found.evaluated_at_millis) == (sizes, START_MS)
    # Only the derived record needs a look-up: its source.
    assert found.dependency_work == DependencyWork(1, len(rows[keys.record_key(hidden[-1])]))


def test_batch_shares_one_count_of_dependencies(world: MemoryWorld) -> None:
    """A source that two records share is looked up and counted once."""
    source = world.create()
    derived = [world.execute(DeriveRecord(record_input(), derivation(source)))["record_id"] for _ in range(2)]
    assert batch(world, *derived, source.record_id).dependency_work.records_examined == 1


def test_batch_above_its_bytes_is_refused(world: MemoryWorld) -> None:
    """More than 8 MiB of records: 400 and nothing else."""
    big = [world.create("x" * 1_000_000).record_id for _ in range(9)]
    assert len(batch(world, *big[:8]).entries) == 8
    with pytest.raises(InvalidRequest):
        batch(world, *big)


def test_query_walks_ids_in_byte_order(world: MemoryWorld) -> None:
    """Ascending ids; pages join without gap or repetition and end with next_after None."""
    made = sorted(world.create().record_id for _ in range(7))
    seen: list[str] = []
    after: str | None = None
    while True:
        page = query(world, limit=3, after=after)
        seen += ids(page)
        after = page.next_after
        if after is None:
            break
    assert seen == made


def test_query_page_that_ends_exactly_has_no_continuation(world: MemoryWorld) -> None:
    """Limit or scan_limit reached with nothing behind: next_after is None."""
    made = sorted(world.create().record_id for _ in range(4))
    assert query(world, limit=4).next_after is None
    assert query(world, scan_limit=4).next_after is None
    assert query(world, limit=3).next_after == made[2]
    assert query(world, scan_limit=3).next_after == made[2]


def test_query_counts_what_it_examines(world: MemoryWorld) -> None:
    """scan_limit counts unserved records too; an empty page may still continue."""
    hidden = unserved(world)
    served = world.create().record_id
    page = query(world)
    assert (ids(page), page.scanned_records) == ([served], len(hidden) + 1)
    everything = sorted([*hidden, served])
    first = query(world, scan_limit=1)
    assert (first.next_after, first.scanned_records) == (everything[0], 1)
    assert query(world, after=everything[-1]) == RecordPage((), None, 0, DependencyWork())


def test_query_position_reveals_nothing(world: MemoryWorld) -> None:
    """Any id is only a position: never issued, last possible, or from another scope."""
    made = sorted(world.create().record_id for _ in range(3))
    assert ids(query(world, after="00000000-0000-0000-0000-000000000000")) == made
    assert ids(query(world, after="ffffffff-ffff-ffff-ffff-ffffffffffff")) == []
    assert ids(query(world, after=made[0])) == made[1:]


def test_query_ends_a_page_at_eight_mebibytes(world: MemoryWorld) -> None:
    """A page does not grow without bound: it continues behind the record that filled it."""
    made = sorted(world.create("x" * 1_000_000).record_id for _ in range(11))
    page = query(world)
    assert ids(page) == made[:9]
    assert ids(query(world, after=page.next_after)) == made[9:]


def test_query_reads_large_partitions_in_several_scans(world: MemoryWorld) -> None:
    """More records than one scan holds come back whole and in order."""
    made = sorted(world.create().record_id for _ in range(130))
    assert ids(query(world)) == made
    assert ids(query(world, scan_limit=129)) == made[:129]


@pytest.mark.parametrize(
    ("narrowing", "expected"),
    [
        (RecordFilter(), {"a", "b", "c", "d"}),
        (RecordFilter(tag="x"), {"a", "b"}),
        (RecordFilter(tag="X"), set()),
        (RecordFilter(episode_type="Decision"), {"b"}),
        (RecordFilter(episode_type={"Custom": "note"}), {"c"}),
        (RecordFilter(episode_type={"Custom": "Note"}), set()),
        (RecordFilter(text_contains="STRASSE"), {"a"}),
        (RecordFilter(text_contains="second"), {"b"}),
        (RecordFilter(text_contains="around"), {"c"}),
        (RecordFilter(text_contains="d second"), set()),
        (RecordFilter(text_contains=""), {"a", "b", "c", "d"}),
        (RecordFilter(text_contains="hidden"), set()),
        (RecordFilter(text_contains="a", tag="x", episode_type="Decision"), set()),
        (RecordFilter(text_contains="b", tag="x", episode_type="Decision"), {"b"}),
    ],
)
def test_filters(world: MemoryWorld, narrowing: RecordFilter, expected: set[str]) -> None:
    """Filters combine with AND; text is folded and tested on each text by itself; data is not searched."""
    names = {
        world.create("Straße a", tags=("x",)).record_id: "a",
        world.create("b", secondary="Second", tags=("x", "y"), episode_type="Decision").record_id: "b",
        world.create("c", context="ALL AROUND", episode_type={"Custom": "note"}).record_id: "c",
        world.create("d", metadata={"k": "hidden"}).record_id: "d",
    }
    world.execute(DeleteRecord(world.create("b gone", tags=("x",)).record_id, 1))
    assert {names[record_id] for record_id in ids(query(world, narrowing))} == expected
    assert {names[record_id] for record_id in ids(walk(world, narrowing))} == expected


def by_time(world: MemoryWorld, count: int) -> list[str]:
    """Records in the order of (created_at, id); two of them share each millisecond."""
    made: list[tuple[int, str]] = []
    for number in range(count):
        world.clock.ms = START_MS + number // 2
        made.append((world.clock.ms, world.create().record_id))
    return [record_id for _, record_id in sorted(made)]


@pytest.mark.parametrize("order", ["created_asc", "created_desc"])
def test_ordered_walk_joins_its_pages(world: MemoryWorld, order: str) -> None:
    """Time, then id; descending is the exact reverse; limits may change between pages."""
    expected = by_time(world, 95)
    if order == "created_desc":
        expected.reverse()
    seen: list[str] = []
    cursor: str | None = None
    for limit in (1, 40, 2, 100):
        page = walk(world, order=order, limit=limit, cursor=cursor)
        seen += ids(page)
        cursor = page.next_cursor
        assert (page.stop_reason == "exhausted") == (cursor is None)
    assert seen == expected


def test_ordered_walk_is_by_creation_not_change(world: MemoryWorld) -> None:
    """An update does not move a record."""
    made = by_time(world, 4)
    world.clock.ms += 100
    world.execute(UpdateRecord(made[0], 1, record_input("changed")))
    assert ids(walk(world, order="created_asc")) == made


def test_ordered_stop_reasons(world: MemoryWorld) -> None:
    """Each limit is told; when nothing is left behind it, the walk is exhausted."""
    by_time(world, 4)
    reasons = {
        (members["limit"], members["scan_limit"]): walk(world, **members).stop_reason
        for members in (
            {"limit": 3, "scan_limit": 10},
            {"limit": 4, "scan_limit": 10},
            {"limit": 10, "scan_limit": 3},
            {"limit": 10, "scan_limit": 4},
        )
    }
    assert reasons == {(3, 10): "record_limit", (4, 10): "exhausted", (10, 3): "scan_limit", (10, 4): "exhausted"}


def test_ordered_walk_counts_exclusions_and_tombstones(world: MemoryWorld) -> None:
    """Positions and bytes count everything examined, served or not."""
    hidden = unserved(world)
    served = world.create().record_id
    page = walk(world)
    rows = world.rows()
    sizes = sum(len(rows[keys.record_key(record_id)]) for record_id in [*hidden, served])
    assert (ids(page), page.scanned_records, page.record_bytes) == ([served], len(hidden) + 1, sizes)
    assert (page.stop_reason, page.evaluated_at_millis) == ("exhausted", START_MS)


def test_ordered_walk_of_nothing(world: MemoryWorld) -> None:
    """An empty partition is an exhausted page."""
    assert walk(world) == OrderedPage("exhausted", START_MS, 0, 0, DependencyWork(), None, ())


def test_ordered_walk_stops_at_eight_mebibytes(world: MemoryWorld) -> None:
    """The record that would pass the bound is left for the next page."""
    made = [world.create("x" * 1_000_000).record_id for _ in range(10)]
    page = walk(world, order="created_asc")
    assert (page.stop_reason, page.scanned_records) == ("byte_limit", 8)
    rest = walk(world, order="created_asc", cursor=page.next_cursor)
    assert sorted([*ids(page), *ids(rest)]) == sorted(made)


def test_records_alive_throughout_appear_exactly_once(world: MemoryWorld) -> None:
    """Records made and deleted between pages never hide or repeat the others."""
    kept = set(by_time(world, 20))
    seen: list[str] = []
    cursor: str | None = None
    for _ in range(100):
        page = walk(world, order="created_asc", limit=3, cursor=cursor)
        seen += ids(page)
        cursor = page.next_cursor
        if cursor is None:
            break
        extra = world.create("extra")
        world.execute(DeleteRecord(extra.record_id, 1))
        world.clock.ms += 1
    assert [record_id for record_id in seen if record_id in kept] == list(dict.fromkeys(seen))
    assert kept == set(seen)


def test_a_time_index_without_its_record_is_noticed(world: MemoryWorld) -> None:
    """An index entry that names nothing: storage_inconsistency, never a shorter page."""
    world.create()
    world.put(workspace_for("acme", SCOPE, "svc").partition, keys.record_time_key(START_MS, ABSENT), b"")
    with pytest.raises(StorageInconsistency):
        walk(world)


def test_dependency_work_of_a_page_is_bounded(world: MemoryWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages that need more source look-ups than allowed are refused as a whole."""
    sources = [world.create() for _ in range(3)]
    derived = world.execute(DeriveRecord(record_input(), derivation(*sources)))["record_id"]
    assert query(world).dependency_work.records_examined == 3
    assert walk(world).dependency_work.records_examined == 3
    monkeypatch.setattr("services.domain.limits.DEPENDENCY_RECORDS_MAX", 2)
    for read in (query, walk):
        with pytest.raises(InvalidRequest):
            read(world)
    with pytest.raises(InvalidRequest):
        batch(world, derived)

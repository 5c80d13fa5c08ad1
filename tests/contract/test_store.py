"""What every implementation of `Store` must do: in process on each engine, and over a real socket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from services.domain.errors import InvalidRequest
from services.storage.contract import (
    Add,
    Commit,
    Delete,
    KeyExpectation,
    KeyRange,
    PartitionCommit,
    PartitionRead,
    Put,
    RangeRows,
    Row,
    Store,
    VersionedValue,
)
from services.storage.core import StoreOptions
from services.storage.errors import CommitConflict, SnapshotExpired, TooManySnapshots
from tests.harness.storage import (
    IMPLEMENTATIONS,
    START_MS,
    P,
    Q,
    StoreBench,
    changes,
    delete,
    expecting,
    get,
    put,
    run_together,
    version,
    write,
)


@pytest.fixture(params=IMPLEMENTATIONS)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreBench]:
    """Each implementation, empty, with room for four pinned snapshots."""
    made = StoreBench(request.param, tmp_path, StoreOptions(snapshots_max=4))
    yield made
    made.close()


@pytest.fixture
def store(bench: StoreBench) -> Store:
    """The implementation under test."""
    return bench.store


def test_an_empty_store_reads_as_absent(store: Store) -> None:
    """Absent keys have no value and version 0, absent partitions head 0; nothing has been committed."""
    result = store.read([PartitionRead(P, [b"k"], [KeyRange(b"")])])
    assert result.partitions == [(0, [VersionedValue(None, 0)], [RangeRows([], more=False)])]
    assert (result.sequence, result.clock_ms, result.snapshot_id) == (0, START_MS, "")


def test_a_commit_gives_its_sequence_to_what_it_wrote(store: Store) -> None:
    """The sequence of a commit is the version of its keys and the head of its partitions, and of no other."""
    first = store.commit(
        Commit([PartitionCommit(P, writes=[Put(b"a", b"1")]), PartitionCommit(Q, writes=[Put(b"a", b"2")])])
    )
    second = put(store, b=b"")
    result = store.read([PartitionRead(P, [b"a", b"b"]), PartitionRead(Q, [b"a", b"b"])])
    assert result.partitions == [
        (second, [VersionedValue(b"1", first), VersionedValue(b"", second)], []),
        (first, [VersionedValue(b"2", first), VersionedValue(None, 0)], []),
    ]
    assert (second > first, result.sequence) == (True, second)


def test_ranges_are_read_with_limits_and_direction(store: Store) -> None:
    """Rows of [start, end) in walking order, `more` exactly when a limit hid one, other partitions never."""
    at = put(store, a=b"1", b=b"22", c=b"333")
    put(store, Q, b=b"other")
    rows = [Row(b"a", b"1", at), Row(b"b", b"22", at), Row(b"c", b"333", at)]
    ranges = [
        KeyRange(b""),
        KeyRange(b"a", b"c"),
        KeyRange(b"", reverse=True, row_limit=2),
        KeyRange(b"", row_limit=3),
        KeyRange(b"b", keys_only=True),
        KeyRange(b"", byte_limit=1 + 16 + 1),
        KeyRange(b"c", b"a"),
    ]
    assert store.read([PartitionRead(P, (), ranges)]).partitions[0].ranges == [
        RangeRows(rows, more=False),
        RangeRows(rows[:2], more=False),
        RangeRows([rows[2], rows[1]], more=True),
        RangeRows(rows, more=False),
        RangeRows([Row(b"b", b"", at), Row(b"c", b"", at)], more=False),
        RangeRows(rows[:2], more=True),
        RangeRows([], more=False),
    ]


def test_expected_versions_are_compared(store: Store) -> None:
    """A commit holds while its keys have the versions seen, absent (0) included; else nothing of it is written."""
    first = store.commit(expecting(b"k", 0, Put(b"k", b"1")))
    with pytest.raises(CommitConflict):
        store.commit(expecting(b"k", 0, Put(b"k", b"2"), Put(b"other", b"2")))
    second = store.commit(expecting(b"k", first, Put(b"k", b"3")))
    with pytest.raises(CommitConflict):
        store.commit(expecting(b"k", first, Put(b"k", b"4")))
    delete(store, b"k")
    with pytest.raises(CommitConflict):
        store.commit(expecting(b"k", second, Put(b"k", b"5")))
    assert (get(store, b"k"), get(store, b"other")) == (None, None)
    assert store.commit(expecting(b"k", 0, Put(b"k", b"6"))) == version(store, b"k")


@pytest.mark.parametrize(
    "change",
    [Put(b"m", b"new"), Put(b"b", b"overwritten"), Delete(b"b"), Add(b"m", 1)],
    ids=["new key", "overwrite", "delete", "counter"],
)
def test_a_range_that_was_read_must_not_change(store: Store, change: Put | Delete | Add) -> None:
    """New, overwritten and deleted keys inside of a range conflict with it; the empty range is no exception."""
    put(store, b=b"1", z=b"1")
    seen = store.read([]).sequence

    def commit(start: bytes, end: bytes) -> int:
        part = PartitionCommit(P, expected_ranges=[KeyRange(start, end)])
        other = PartitionCommit(Q, writes=[Put(b"done", b"")])
        return store.commit(Commit([part, other], read_sequence=seen))

    write(store, change)
    outside = (change.key + b"\x00", b"y")
    assert commit(*outside) > seen
    assert commit(b"n", b"y") > seen
    with pytest.raises(CommitConflict):
        commit(b"a", b"n")
    with pytest.raises(CommitConflict):
        commit(change.key, b"")
    seen = store.read([]).sequence
    assert commit(b"", b"") > seen


def test_a_read_sequence_ahead_of_the_store_does_not_hold(store: Store) -> None:
    """Ranges that were read in a future of another history are refused."""
    with pytest.raises(CommitConflict):
        store.commit(
            Commit(
                [PartitionCommit(P, expected_ranges=[KeyRange(b"")], writes=[Put(b"a", b"")])],
                read_sequence=store.read([]).sequence + 1,
            )
        )


def test_writes_of_one_commit_apply_in_order(store: Store) -> None:
    """Later writes of a commit see the earlier ones; what only it made and removed leaves no trace."""
    put(store, gone=b"1")
    head = write(
        store,
        Put(b"a", b"1"),
        Put(b"a", b"2"),
        Put(b"b", b"1"),
        Delete(b"b"),
        Delete(b"gone"),
        Put(b"gone", b"back"),
        Delete(b"n"),
        Add(b"n", 2),
        Add(b"n", -5),
    )
    expected = {b"a": b"2", b"gone": b"back", b"n": (-3).to_bytes(8, "big", signed=True)}
    assert dict(changes(store, 0)) == expected
    assert sorted(changes(store, head - 1)) == sorted(expected.items())


def test_counters_are_blind_and_signed(store: Store) -> None:
    """Counters start at 0, and what is no counter, or would overflow, is refused without a trace."""
    write(store, Add(b"n", 5))
    write(store, Add(b"n", -7))
    assert get(store, b"n") == (-2).to_bytes(8, "big", signed=True)
    put(store, text=b"abc", top=((1 << 63) - 1).to_bytes(8, "big"))
    for bad in (Add(b"text", 1), Add(b"top", 1)):
        with pytest.raises(InvalidRequest):
            write(store, Put(b"beside", b""), bad)
    assert get(store, b"beside") is None


def test_concurrent_adders_do_not_conflict(store: Store) -> None:
    """Every blind addition of concurrent commits counts exactly once."""
    run_together(8, lambda number: [write(store, Add(b"n", number)) for _ in range(10)] and None)
    assert get(store, b"n") == (10 * sum(range(8))).to_bytes(8, "big")


def test_concurrent_commits_on_one_version_have_one_winner(store: Store) -> None:
    """Of commits that expect the same version, decided in one batch or not, exactly one holds."""
    winners: list[int] = []

    def attempt(number: int) -> None:
        try:
            store.commit(expecting(b"k", 0, Put(b"k", b"%d" % number)))
        except CommitConflict:
            return
        winners.append(number)

    run_together(12, attempt)
    assert [b"%d" % number for number in winners] == [get(store, b"k")]


def test_a_commit_that_changes_nothing_has_no_sequence_of_its_own(store: Store) -> None:
    """Deleting what is not there answers the newest sequence and moves no head."""
    newest = put(store, a=b"1")
    assert delete(store, b"x", partition=Q) == newest
    assert store.read([PartitionRead(Q)]).partitions[0].head == 0


def test_the_incarnation_fences(bench: StoreBench) -> None:
    """Each opening has its own incarnation; a commit or a pull that names an earlier one is refused."""
    put(bench.store, a=b"1")
    before = bench.store.read([]).incarnation
    part = PartitionCommit(P, writes=[Put(b"a", b"2")])
    bench.store.commit(Commit([part], expected_incarnation=before))
    bench.restart()
    after = bench.store.read([]).incarnation
    assert (get(bench.store, b"a"), after != before) == (b"2", True)
    with pytest.raises(CommitConflict):
        bench.store.commit(Commit([part], expected_incarnation=before))
    with pytest.raises(CommitConflict):
        list(bench.store.changed_since(P, 0, expected_incarnation=before))
    assert next(iter(bench.store.changed_since(P, 0, expected_incarnation=after))).incarnation == after


def test_the_clock_bound_is_judged_by_the_stores_clock(bench: StoreBench) -> None:
    """A commit holds below its bound and is refused from it on."""
    part = PartitionCommit(P, writes=[Put(b"a", b"")])
    bench.clock.ms = START_MS + 99
    assert bench.store.commit(Commit([part], clock_bound_ms=START_MS + 100))
    bench.clock.ms = START_MS + 100
    with pytest.raises(CommitConflict):
        bench.store.commit(Commit([part], clock_bound_ms=START_MS + 100))


def test_a_clock_bound_of_zero_is_a_bound(store: Store) -> None:
    """Zero is a time, not the absence of one."""
    with pytest.raises(CommitConflict):
        store.commit(Commit([PartitionCommit(P, writes=[Put(b"a", b"")])], clock_bound_ms=0))


def test_the_clock_never_goes_backwards(bench: StoreBench) -> None:
    """The host's clock set back is not followed, not even over a restart."""
    bench.clock.ms = START_MS + 5_000
    put(bench.store, a=b"1")
    bench.clock.ms = START_MS
    assert bench.store.read([]).clock_ms == START_MS + 5_000
    bench.restart()
    assert bench.store.read([]).clock_ms == START_MS + 5_000
    bench.clock.ms = START_MS + 5_001
    assert bench.store.read([]).clock_ms == START_MS + 5_001


def test_a_restart_keeps_everything(bench: StoreBench) -> None:
    """Values, versions, heads, the change log and the store's id survive; sequences go on from where they were."""
    put(bench.store, a=b"1", b=b"2")
    head = delete(bench.store, b"a")
    reads = [PartitionRead(P, [b"a", b"b"], [KeyRange(b"")])]
    before = bench.store.read(reads)
    store_id = bench.store.status().store_id
    bench.restart()
    after = bench.store.read(reads)
    assert (after.partitions, after.sequence) == (before.partitions, before.sequence)
    assert changes(bench.store, 1) == [(b"a", None)]
    assert (put(bench.store, c=b"3"), bench.store.status().store_id) == (head + 1, store_id)


def test_a_pinned_snapshot_does_not_change(store: Store) -> None:
    """Every read of a pinned snapshot tells the same state, until it is let go."""
    put(store, a=b"1", b=b"1")
    reads = [PartitionRead(P, [b"a", b"b", b"c"], [KeyRange(b"")])]
    pinned = store.read(reads, pin=True)
    put(store, a=b"2", c=b"2")
    delete(store, b"b")
    again = store.read(reads, snapshot_id=pinned.snapshot_id)
    assert (again.partitions, again.sequence) == (pinned.partitions, pinned.sequence)
    assert get(store, b"a") == b"2"
    store.close_snapshot(pinned.snapshot_id)
    store.close_snapshot(pinned.snapshot_id)
    with pytest.raises(SnapshotExpired):
        store.read(reads, snapshot_id=pinned.snapshot_id)


def test_a_commit_lets_its_snapshot_go_whatever_its_outcome(store: Store) -> None:
    """`release_snapshot_id` ends the snapshot of accepted and of refused commits."""
    for seen in (0, 77):
        snapshot_id = store.open_snapshot().snapshot_id
        commit = Commit(
            [PartitionCommit(P, [KeyExpectation(b"x", seen)], writes=[Put(b"a", b"")])],
            release_snapshot_id=snapshot_id,
        )
        if seen:
            with pytest.raises(CommitConflict):
                store.commit(commit)
        else:
            store.commit(commit)
        with pytest.raises(SnapshotExpired):
            store.read([], snapshot_id=snapshot_id)
    assert store.status().open_snapshots == 0


def test_snapshots_are_few(store: Store) -> None:
    """Only so many can be pinned; letting one go makes room for another."""
    first, *_ = [store.open_snapshot() for _ in range(4)]
    with pytest.raises(TooManySnapshots):
        store.open_snapshot()
    with pytest.raises(TooManySnapshots):
        store.read([], pin=True)
    store.close_snapshot(first.snapshot_id)
    assert store.read([], pin=True).snapshot_id
    assert store.status().open_snapshots == 4


def test_a_restart_ends_pinned_snapshots(bench: StoreBench) -> None:
    """A snapshot belongs to one opening of the store."""
    snapshot_id = bench.store.open_snapshot().snapshot_id
    bench.restart()
    with pytest.raises(SnapshotExpired):
        bench.store.read([], snapshot_id=snapshot_id)


def test_changes_since_the_beginning_are_the_living_keys(store: Store) -> None:
    """In key order, with the head and the number of living keys by kind on the last page."""
    put(store, Ra=b"1", Rb=b"2", Ta=b"")
    put(store, Rc=b"3")
    put(store, Q, Rx=b"other")
    head = delete(store, b"Rb")
    pages = list(store.changed_since(P, 0))
    assert [(row.key, row.value, row.deleted) for page in pages for row in page.rows] == [
        (b"Ra", b"1", False),
        (b"Rc", b"3", False),
        (b"Ta", b"", False),
    ]
    assert (pages[-1].head, pages[-1].counts, pages[-1].last) == (head, {ord("R"): 2, ord("T"): 1}, True)


def test_changes_since_a_sequence_come_in_order_of_last_change(store: Store) -> None:
    """One row for each key that changed after it, deletions included; deleted and put again is put."""
    put(store, a=b"1", b=b"1", c=b"1")
    seen = put(store, d=b"1")
    put(store, b=b"2")
    delete(store, b"a", b"d")
    put(store, e=b"1")
    put(store, b=b"3")
    put(store, d=b"back")
    assert changes(store, seen) == [(b"a", None), (b"e", b"1"), (b"b", b"3"), (b"d", b"back")]
    head = store.read([PartitionRead(P)]).partitions[0].head
    assert list(store.changed_since(P, head)) == [([], head, store.read([]).incarnation, {}, True)]


def test_changes_can_be_narrowed_by_prefix(store: Store) -> None:
    """Only keys under one of the prefixes, each once, whether from the beginning or since a sequence."""
    put(store, a1=b"1", a2=b"2", b1=b"3", c1=b"4")
    prefixes = (b"b", b"a", b"a2", b"zz")
    assert changes(store, 0, prefixes=prefixes) == [(b"a1", b"1"), (b"a2", b"2"), (b"b1", b"3")]
    seen = put(store, a1=b"5", c1=b"6")
    assert changes(store, seen - 1, prefixes=prefixes) == [(b"a1", b"5")]
    write(store, Put(b"\xff\xff", b"last"))
    assert changes(store, 0, prefixes=[b"\xff"]) == [(b"\xff\xff", b"last")]


@pytest.mark.parametrize("after", [0, 1])
def test_changes_come_in_pages_of_one_snapshot(store: Store, after: int) -> None:
    """Pages are about as large as asked for, and tell the state at the first page whatever happens meanwhile."""
    put(store, first=b"")
    write(store, *(Put(b"k%03d" % number, bytes(1000)) for number in range(100)))
    pages = store.changed_since(P, after, page_bytes=10_000, key_prefixes=[b"k"])
    first = next(pages)
    delete(store, *(b"k%03d" % number for number in range(100)))
    rest = list(pages)
    sizes = [len(page.rows) for page in (first, *rest)]
    assert (sum(sizes), {page.head for page in (first, *rest)}) == (100, {2})
    assert (max(sizes) <= 11, [page.last for page in rest]) == (True, [False] * (len(rest) - 1) + [True])


def test_changes_after_the_head_are_refused(store: Store) -> None:
    """A reader that is ahead of the store belongs to another history."""
    head = put(store, a=b"1")
    with pytest.raises(CommitConflict):
        list(store.changed_since(P, head + 1))


def test_an_abandoned_stream_is_no_burden(store: Store) -> None:
    """A reader may stop after any page."""
    write(store, *(Put(b"k%03d" % number, bytes(1000)) for number in range(100)))
    pages = store.changed_since(P, 0, page_bytes=1000)
    next(pages)
    pages.close()  # type: ignore[attr-defined]
    assert len(changes(store, 0)) == 100


def test_the_largest_value_travels(store: Store) -> None:
    """16 MiB go in and come out by get, by range and by change page."""
    value = bytes(range(256)) * 65_536
    put(store, big=value)
    result = store.read([PartitionRead(P, [b"big"], [KeyRange(b"")])])
    assert result.partitions[0].values[0].value == value
    assert result.partitions[0].ranges[0].rows[0].value == value
    assert changes(store, 0) == [(b"big", value)]


@pytest.mark.parametrize(
    ("reads", "member"),
    [
        ([PartitionRead(b"short")], "partition"),
        ([PartitionRead(P, [b""])], "partitions.keys"),
        ([PartitionRead(P, [bytes(1025)])], "partitions.keys"),
        ([PartitionRead(P, [b"k"] * 4097)], "partitions.keys"),
        ([PartitionRead(P)] * 65, "partitions"),
    ],
)
def test_reads_out_of_bounds_name_the_member(store: Store, reads: list[PartitionRead], member: str) -> None:
    """Bounds are those of the contract, and the refusal says where."""
    with pytest.raises(InvalidRequest) as refusal:
        store.read(reads)
    assert refusal.value.member == member


@pytest.mark.parametrize(
    ("part", "member"),
    [
        (PartitionCommit(b"short"), "partition"),
        (PartitionCommit(P, [KeyExpectation(b"", 0)]), "partitions.expected_keys"),
        (PartitionCommit(P, writes=[Put(bytes(1025), b"")]), "partitions.writes.key"),
        (PartitionCommit(P, writes=[Put(b"k", bytes(16 * 1024 * 1024 + 1))]), "partitions.writes.put"),
    ],
    ids=["partition", "expected key", "key", "value"],
)
def test_commits_out_of_bounds_name_the_member(store: Store, part: PartitionCommit, member: str) -> None:
    """Bounds are those of the contract, and the refusal says where."""
    with pytest.raises(InvalidRequest) as refusal:
        store.commit(Commit([part]))
    assert refusal.value.member == member


def test_pinning_a_pinned_snapshot_is_refused(store: Store) -> None:
    """`pin` and `snapshot_id` exclude each other."""
    snapshot_id = store.open_snapshot().snapshot_id
    with pytest.raises(InvalidRequest):
        store.read([], snapshot_id=snapshot_id, pin=True)


def test_status_tells_what_is(bench: StoreBench) -> None:
    """Engine, incarnation, head, clock, and that writes are accepted."""
    head = put(bench.store, a=b"1")
    status = bench.store.status()
    assert status == bench.local.status()._replace(disk_free_bytes=status.disk_free_bytes)
    assert (status.sequence, status.clock_ms, status.writable, status.format_version) == (head, START_MS, True, 1)
    assert status.incarnation == bench.store.read([]).incarnation


def test_a_verified_store_has_no_problems(bench: StoreBench) -> None:
    """After puts, overwrites, deletions and revivals the change log tells exactly what is there."""
    put(bench.store, a=b"1", b=b"1", c=b"1")
    delete(bench.store, b"a", b"b")
    put(bench.store, b=b"2")
    put(bench.store, Q, x=b"1")
    delete(bench.store, b"x", partition=Q)
    assert bench.local.verify() == (2, 2, [])

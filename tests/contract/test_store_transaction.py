"""Transactions on every implementation of `Store`: isolation, own writes, reruns, and what they cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from services.domain.errors import StorageFull
from services.storage.contract import Commit, KeyRange, PartitionRead, ReadResult, Store
from services.storage.errors import (
    OutcomeUnknown,
    SnapshotExpired,
    StorageUnavailable,
    TransactionContention,
)
from services.storage.transaction import Transaction, read_snapshot, run_transaction
from tests.harness.storage import IMPLEMENTATIONS, START_MS, P, Q, StoreBench, delete, get, put, run_together


@pytest.fixture(params=IMPLEMENTATIONS)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreBench]:
    """Each implementation, empty."""
    made = StoreBench(request.param, tmp_path)
    yield made
    made.close()


class CountingStore:
    """A store that counts round trips, and can act in place of a commit's answer."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.calls: list[str] = []
        self.before_commit: list[Callable[[], None]] = []
        self.after_commit: list[Callable[[], None]] = []
        self.incarnation = ""
        self.changed_since = store.changed_since
        self.open_snapshot = store.open_snapshot
        self.status = store.status
        self.close = store.close

    def read(self, partitions: Sequence[PartitionRead], *, snapshot_id: str = "", pin: bool = False) -> ReadResult:
        """Count and read."""
        self.calls.append("pin" if pin else "read")
        result = self._store.read(partitions, snapshot_id=snapshot_id, pin=pin)
        return result._replace(incarnation=self.incarnation or result.incarnation)

    def commit(self, commit: Commit) -> int:
        """Count and commit, and do what was asked for before and after; the last of each comes first."""
        self.calls.append("commit")
        if self.before_commit:
            self.before_commit.pop()()
        sequence = self._store.commit(commit)
        if self.after_commit:
            self.after_commit.pop()()
        return sequence

    def close_snapshot(self, snapshot_id: str) -> None:
        """Count and close."""
        self.calls.append("close")
        self._store.close_snapshot(snapshot_id)


@pytest.fixture
def store(bench: StoreBench) -> CountingStore:
    """The implementation under test."""
    return CountingStore(bench.store)


def test_the_usual_transaction_costs_one_read_and_one_commit(store: CountingStore) -> None:
    """When the prefetch is all that is read, nothing is pinned."""
    put(store, a=b"1")
    store.calls.clear()

    def run(transaction: Transaction) -> list[bytes | None]:
        found = transaction.get_many(P, [b"a", b"b"])
        transaction.put(P, b"b", b"2")
        return [*found, transaction.get(P, b"b"), transaction.get(Q, b"c")]

    assert run_transaction(store, run, prefetch={P: [b"a", b"b"], Q: [b"c"]}) == [b"1", None, b"2", None]
    assert store.calls == ["read", "commit"]
    assert get(store, b"b") == b"2"


def test_reading_without_writing_commits_nothing(store: CountingStore) -> None:
    """A function that only reads costs one read."""
    assert run_transaction(store, lambda transaction: transaction.get(P, b"a"), prefetch={P: [b"a"]}) is None
    assert store.calls == ["read"]


def test_reading_beyond_the_prefetch_restarts_on_a_pinned_snapshot(store: CountingStore) -> None:
    """The rerun prefetches what was missed, later reads share its snapshot, and the snapshot is let go."""
    put(store, a=b"1", b=b"2", c=b"3")
    store.calls.clear()

    def run(transaction: Transaction) -> list[bytes | None]:
        return [transaction.get(P, b"a"), transaction.get(P, b"b"), transaction.get(P, b"c")]

    assert run_transaction(store, run, prefetch={P: [b"a"]}) == [b"1", b"2", b"3"]
    assert store.calls == ["read", "pin", "read", "close"]
    assert store.status().open_snapshots == 0


def test_a_pinned_transaction_is_let_go_by_its_commit(store: CountingStore) -> None:
    """No further round trip for the snapshot."""

    def run(transaction: Transaction) -> None:
        transaction.put(P, b"a", transaction.get(P, b"b") or b"none")

    run_transaction(store, run, pin=True)
    assert (store.calls, store.status().open_snapshots) == (["pin", "read", "commit"], 0)


def test_a_failing_function_writes_nothing_and_lets_its_snapshot_go(store: CountingStore) -> None:
    """What the function raises ends the transaction."""

    def run(transaction: Transaction) -> None:
        transaction.get(P, b"a")
        transaction.put(P, b"a", b"1")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run_transaction(store, run)
    assert (get(store, b"a"), store.status().open_snapshots) == (None, 0)


def test_own_writes_are_seen(store: CountingStore) -> None:
    """Gets and scans, forwards, backwards and limited, see what the transaction itself has put, deleted and added."""
    put(store, a=b"1", b=b"2", c=b"3", n=(5).to_bytes(8, "big"))
    three = (3).to_bytes(8, "big")

    def run(transaction: Transaction) -> None:
        transaction.delete(P, b"b")
        transaction.put(P, b"bb", b"new")
        transaction.put(P, b"c", b"changed")
        transaction.add(P, b"n", -2)
        transaction.add(P, b"m", 1)
        transaction.add(P, b"m", 2)
        rows = [(b"a", b"1"), (b"bb", b"new"), (b"c", b"changed"), (b"m", three), (b"n", three)]
        assert transaction.scan(P, b"") == rows
        assert transaction.scan(P, b"", reverse=True) == rows[::-1]
        for limit in range(1, 7):
            assert transaction.scan(P, b"", limit=limit) == rows[:limit]
            assert transaction.scan(P, b"", limit=limit, reverse=True) == rows[::-1][:limit]
        assert transaction.scan(P, b"b", b"c") == rows[1:2]
        assert transaction.get_many(P, [b"b", b"n", b"m"]) == [None, three, three]
        transaction.delete(P, b"n")
        transaction.add(P, b"n", 3)
        assert transaction.get(P, b"n") == three

    run_transaction(store, run)
    with read_snapshot(store) as reader:
        expected = [(b"a", b"1"), (b"bb", b"new"), (b"c", b"changed"), (b"m", three), (b"n", three)]
        assert reader.scan(P, b"") == expected


def test_own_deletions_do_not_shorten_a_limited_scan(store: CountingStore) -> None:
    """Rows that take the place of deleted ones are found."""
    put(store, a=b"1", b=b"2", c=b"3", d=b"4")

    def run(transaction: Transaction) -> None:
        transaction.delete(P, b"a")
        transaction.delete(P, b"d")
        assert transaction.scan(P, b"", limit=2) == [(b"b", b"2"), (b"c", b"3")]
        assert transaction.scan(P, b"", limit=1, reverse=True) == [(b"c", b"3")]

    run_transaction(store, run)


def test_a_large_range_is_scanned_in_rounds(store: CountingStore) -> None:
    """More bytes than one answer holds come complete and in order, in both directions."""
    for number in range(6):
        put(store, **{f"k{number}": bytes([number]) * 2**20})
    with read_snapshot(store) as reader:
        rows = reader.scan(P, b"")
        assert [(key, len(value)) for key, value in rows] == [(b"k%d" % number, 2**20) for number in range(6)]
        assert reader.scan(P, b"", reverse=True) == rows[::-1]
        assert reader.scan(P, b"", limit=5, reverse=True) == rows[:0:-1]


Meddle = Callable[[Store], object]


@pytest.mark.parametrize(
    ("read", "meddle"),
    [
        (lambda transaction: transaction.get(P, b"k"), lambda store: put(store, k=b"2")),
        (lambda transaction: transaction.get(P, b"k"), lambda store: delete(store, b"k")),
        (lambda transaction: transaction.get(P, b"absent"), lambda store: put(store, absent=b"1")),
        (lambda transaction: transaction.scan(P, b"a", b"b"), lambda store: put(store, aa=b"1")),
        (lambda transaction: transaction.scan(P, b"k", limit=1), lambda store: put(store, k=b"2")),
        (lambda transaction: transaction.scan(P, b"", limit=1, reverse=True), lambda store: put(store, zz=b"2")),
        (lambda transaction: transaction.scan(P, b"", limit=1, reverse=True), lambda store: put(store, z=b"2")),
        (lambda transaction: transaction.get(Q, b"other"), lambda store: put(store, Q, other=b"1")),
    ],
    ids=[
        "overwritten",
        "deleted",
        "absent",
        "empty range",
        "limited range",
        "above a reversed range",
        "last of a reversed range",
        "other partition",
    ],
)
def test_what_was_read_must_still_hold(
    store: CountingStore, read: Callable[[Transaction], object], meddle: Meddle
) -> None:
    """A change to anything that was read between the read and the commit makes the function run again."""
    put(store, k=b"1", z=b"1")
    seen: list[object] = []

    def run(transaction: Transaction) -> None:
        seen.append(read(transaction))
        if len(seen) == 1:
            meddle(store)
        transaction.put(P, b"result", b"%d" % len(seen))

    run_transaction(store, run, pin=True)
    assert (len(seen), seen[0] != seen[1], get(store, b"result")) == (2, True, b"2")


@pytest.mark.parametrize(
    ("act", "meddle"),
    [
        (lambda transaction: transaction.scan(P, b"", limit=1), lambda store: put(store, z=b"2")),
        (lambda transaction: transaction.scan(P, b"", limit=1, reverse=True), lambda store: put(store, k=b"2")),
        (lambda transaction: transaction.add(P, b"n", 1), lambda store: put(store, n=(4).to_bytes(8, "big"))),
        (lambda transaction: transaction.put(P, b"k", b"9"), lambda store: put(store, k=b"2")),
        (lambda transaction: transaction.head(P), lambda store: put(store, k=b"2")),
    ],
    ids=["beyond the limit", "before the limit", "counter", "blind put", "head"],
)
def test_what_was_not_read_does_not_conflict(
    store: CountingStore, act: Callable[[Transaction], object], meddle: Meddle
) -> None:
    """Rows behind a limit, blind writes and the head are no expectations."""
    put(store, k=b"1", z=b"1")
    runs: list[int] = []

    def run(transaction: Transaction) -> None:
        runs.append(1)
        act(transaction)
        meddle(store)
        transaction.put(P, b"m", b"1")

    run_transaction(store, run, pin=True)
    assert len(runs) == 1


def test_a_lost_answer_is_found_by_its_receipt(store: CountingStore) -> None:
    """A commit with an unknown outcome is rerun; the function finds what it wrote and does not repeat it."""

    def lose_answer() -> None:
        raise StorageUnavailable("the answer was lost")

    store.after_commit.append(lose_answer)

    def run(transaction: Transaction) -> bytes:
        receipt = transaction.get(P, b"receipt")
        if receipt is None:
            transaction.add(P, b"effects", 1)
            receipt = b"made"
            transaction.put(P, b"receipt", receipt)
        return receipt

    assert run_transaction(store, run, prefetch={P: [b"receipt"]}) == b"made"
    assert store.calls == ["read", "commit", "read"]
    assert get(store, b"effects") == (1).to_bytes(8, "big")


def test_a_full_store_after_a_lost_answer_is_no_refusal(store: CountingStore) -> None:
    """While an earlier attempt may still come to be, nobody says that nothing was written."""
    outcomes: list[Exception] = []

    def refuse() -> None:
        raise StorageFull("no room")

    def lose() -> None:
        raise StorageUnavailable("the answer was lost")

    def run(transaction: Transaction) -> None:
        transaction.get(P, b"k")
        transaction.put(P, b"k", b"1")

    for acts in ([refuse], [refuse, lose]):
        store.before_commit = list(acts)
        with pytest.raises((StorageFull, StorageUnavailable)) as failed:
            run_transaction(store, run, prefetch={P: [b"k"]})
        outcomes.append(failed.value)
    assert [type(outcome) for outcome in outcomes] == [StorageFull, OutcomeUnknown]
    assert get(store, b"k") is None


def test_a_full_store_under_a_new_incarnation_refuses_truly(store: CountingStore) -> None:
    """The opening that the lost answer belonged to is over, so nothing of it comes any more."""

    def refuse() -> None:
        raise StorageFull("no room")

    def lose() -> None:
        store.incarnation = "another"
        raise StorageUnavailable("the store was opened again")

    def run(transaction: Transaction) -> None:
        transaction.get(P, b"k")
        transaction.put(P, b"k", b"1")

    store.before_commit = [refuse, lose]
    with pytest.raises(StorageFull):
        run_transaction(store, run, prefetch={P: [b"k"]})


def test_endless_conflict_is_given_up(store: CountingStore) -> None:
    """After the bound the caller hears of contention, and nothing was written."""
    runs: list[int] = []

    def run(transaction: Transaction) -> None:
        runs.append(1)
        transaction.get(P, b"k")
        put(store, k=b"%d" % len(runs))
        transaction.put(P, b"mine", b"")

    with pytest.raises(TransactionContention):
        run_transaction(store, run, prefetch={P: [b"k"]}, attempts=3)
    assert (len(runs), get(store, b"mine")) == (3, None)


def test_the_clock_bound_and_the_incarnation_are_judged_at_the_commit(bench: StoreBench) -> None:
    """When the clock reaches the bound, or the store was opened again, the function runs again and sees it."""
    seen: list[tuple[int, str]] = []

    def bounded(transaction: Transaction) -> bool:
        seen.append((transaction.clock_ms, transaction.incarnation))
        if transaction.clock_ms >= START_MS + 100:
            return False
        transaction.bound_clock(START_MS + 100)
        transaction.put(P, b"a", b"")
        bench.clock.ms = START_MS + 100
        return True

    assert run_transaction(bench.store, bounded) is False
    seen.clear()
    known = bench.store.status().incarnation

    def fenced(transaction: Transaction) -> bool:
        seen.append((transaction.clock_ms, transaction.incarnation))
        transaction.require_incarnation(known)
        transaction.put(P, b"a", b"")
        return True

    assert run_transaction(bench.store, fenced) is True
    bench.restart()
    with pytest.raises(TransactionContention):
        run_transaction(bench.store, fenced, attempts=2)
    assert {incarnation == known for _, incarnation in seen} == {True, False}


def test_read_snapshot_reads_one_state(store: CountingStore) -> None:
    """Every round of the block tells the state at its beginning; afterwards the snapshot is gone."""
    put(store, a=b"1", b=b"1")
    with read_snapshot(store, {P: [b"a"]}) as reader:
        put(store, a=b"2", b=b"2", c=b"2")
        assert (reader.get(P, b"a"), reader.get_many(P, [b"b", b"c"])) == (b"1", [b"1", None])
        assert (reader.scan(P, b""), reader.head(P), reader.head(Q)) == ([(b"a", b"1"), (b"b", b"1")], 1, 0)
        snapshot_id = reader.snapshot_id
    with pytest.raises(SnapshotExpired):
        store.read([], snapshot_id=snapshot_id)


def test_concurrent_increments_are_all_counted(bench: StoreBench) -> None:
    """Reading and writing one key from many threads loses no update."""

    def increment(transaction: Transaction) -> None:
        transaction.put(P, b"n", b"%d" % (int(transaction.get(P, b"n") or b"0") + 1))

    def work(_number: int) -> None:
        for _ in range(5):
            run_transaction(bench.store, increment, prefetch={P: [b"n"]}, attempts=1000)

    run_together(6, work)
    assert get(bench.store, b"n") == b"30"


def test_reading_ahead_in_several_partitions(store: CountingStore) -> None:
    """Keys and beginnings of ranges in many partitions cost a round trip each kind, whatever is asked for later."""
    partitions = [bytes([number]) * 32 for number in range(1, 9)]
    for number, partition in enumerate(partitions):
        put(store, partition, a=b"%d" % number, b=b"%d" % number, c=b"%d" % number)
    store.calls.clear()

    def read(transaction: Transaction) -> list[object]:
        transaction.load({partition: [b"a", b"x"] for partition in partitions})
        transaction.load_ranges({partition: KeyRange(b"a", b"z", row_limit=2) for partition in partitions})
        return [
            (
                transaction.get(partition, b"a"),
                transaction.get(partition, b"x"),
                transaction.scan(partition, b"a", b"z", limit=2),
            )
            for partition in partitions
        ]

    values = [b"%d" % number for number in range(8)]
    expected = [(value, None, [(b"a", value), (b"b", value)]) for value in values]
    assert run_transaction(store, read, pin=True) == expected
    assert store.calls == ["pin", "read", "read", "close"]


@pytest.mark.parametrize("changed", ["a", "ab", "b"])
def test_what_was_read_ahead_must_still_hold(store: CountingStore, changed: str) -> None:
    """A range that was read ahead and then scanned is an expectation like any other."""
    put(store, Q, a=b"1", b=b"1")
    runs: list[int] = []

    def run(transaction: Transaction) -> int:
        transaction.load_ranges({Q: KeyRange(b"a", b"z", row_limit=2)})
        count = len(transaction.scan(Q, b"a", b"z", limit=2))
        if not runs:
            put(store, Q, **{changed: b"2"})
        runs.append(count)
        transaction.put(P, b"count", b"%d" % len(runs))
        return count

    assert run_transaction(store, run, pin=True) == 2
    assert len(runs) == 2

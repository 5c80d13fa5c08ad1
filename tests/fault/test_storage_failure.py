"""Failed batches: nobody is told of success, reads go on, the store comes back by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from services.runtime import fault_points
from services.runtime.fault_points import parse_fault_points
from services.storage.errors import SnapshotExpired, StorageUnavailable
from services.storage.transaction import Transaction, run_transaction
from tests.harness.storage import IMPLEMENTATIONS, P, StoreBench, changes, get, put, run_together

pytestmark = pytest.mark.fault


@pytest.fixture(params=IMPLEMENTATIONS)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreBench]:
    """Each implementation with one committed key."""
    made = StoreBench(request.param, tmp_path)
    put(made.store, a=b"1")
    yield made
    made.close()


@pytest.mark.parametrize(
    ("point", "is_written"),
    [("storage.before_batch", False), ("storage.before_sync", False), ("storage.after_sync", True)],
)
def test_after_a_failed_batch_the_store_opens_again(
    bench: StoreBench, monkeypatch: pytest.MonkeyPatch, point: str, is_written: bool
) -> None:
    """The waiting writer hears that the outcome is unknown, and a new incarnation serves what is really there."""
    before = bench.store.read([], pin=True)
    monkeypatch.setattr(fault_points, "_armed", parse_fault_points(f"{point}=error@1"))
    with pytest.raises(StorageUnavailable):
        put(bench.store, b=b"2")
    # The store does this by itself as well; here it must have been done.
    bench.local.maintain()
    assert bench.store.read([]).incarnation != before.incarnation
    assert (get(bench.store, b"a"), get(bench.store, b"b")) == (b"1", b"2" if is_written else None)
    with pytest.raises(SnapshotExpired):
        bench.store.read([], snapshot_id=before.snapshot_id)
    put(bench.store, c=b"3")
    assert bench.local.verify().problems == []


def test_a_transaction_rides_out_a_failed_batch(bench: StoreBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Success with a lost answer has one effect: the rerun finds the receipt."""
    monkeypatch.setattr(fault_points, "_armed", parse_fault_points("storage.after_sync=error@1"))
    runs: list[bytes | None] = []

    def run(transaction: Transaction) -> None:
        runs.append(transaction.get(P, b"receipt"))
        if runs[-1] is None:
            transaction.put(P, b"receipt", b"made")
            transaction.add(P, b"n", 1)

    run_transaction(bench.store, run, prefetch={P: [b"receipt"]})
    assert (runs, get(bench.store, b"n")) == ([None, b"made"], (1).to_bytes(8, "big"))


def test_all_who_wait_hear_of_a_failed_batch(bench: StoreBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody hangs and nobody is told of success; each commit is there whole or not at all."""
    monkeypatch.setattr(fault_points, "_armed", parse_fault_points("storage.before_sync=error@1"))
    failures: list[int] = []
    successes: list[int] = []

    def work(number: int) -> None:
        try:
            put(bench.store, **{f"x{number}": b"", f"y{number}": b""})
        except StorageUnavailable:
            failures.append(number)
        else:
            successes.append(number)

    run_together(12, work)
    bench.local.maintain()
    assert (len(failures) >= 1, len(failures) + len(successes)) == (True, 12)
    found = {key for key, _ in changes(bench.store, 0, prefixes=[b"x", b"y"])}
    assert found == {b"%c%d" % (letter, number) for letter in b"xy" for number in successes}

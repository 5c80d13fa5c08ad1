"""The ring test: concurrent transactions rewire a cycle of keys; any lost isolation breaks the cycle."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from services.storage.transaction import Transaction, read_snapshot, run_transaction
from tests.harness.storage import IMPLEMENTATIONS, P, StoreBench, put, run_together

NODE_COUNT = 12
WORKER_COUNT = 6
TURN_COUNT = 12


@pytest.fixture(params=IMPLEMENTATIONS)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreBench]:
    """Each implementation, with a ring of keys: the value of each names the next."""
    made = StoreBench(request.param, tmp_path)
    put(made.store, **{_name(node).decode(): _name((node + 1) % NODE_COUNT) for node in range(NODE_COUNT)})
    yield made
    made.close()


@pytest.mark.parametrize("seed", [1, 2])
def test_a_ring_stays_a_ring(bench: StoreBench, seed: int) -> None:
    """After many concurrent swaps, following the keys from anywhere still visits every node once."""

    def work(number: int) -> None:
        chance = random.Random(seed * 1000 + number)
        for _ in range(TURN_COUNT):
            swap = partial(_swap, first=_name(chance.randrange(NODE_COUNT)), by_scan=chance.random() < 0.3)
            run_transaction(bench.store, swap, pin=True, attempts=10_000)

    run_together(WORKER_COUNT, work)
    with read_snapshot(bench.store) as reader:
        following = dict(reader.scan(P, b""))
    visited = [_name(0)]
    while (node := following[visited[-1]]) not in visited:
        visited.append(node)
    assert (len(visited), following[visited[-1]]) == (NODE_COUNT, visited[0])
    assert bench.local.verify().problems == []


def _swap(transaction: Transaction, *, first: bytes, by_scan: bool) -> None:
    """Turn first -> second -> third -> fourth into first -> third -> second -> fourth."""
    second = _next(transaction, first, by_scan=by_scan)
    third = _next(transaction, second, by_scan=by_scan)
    fourth = _next(transaction, third, by_scan=by_scan)
    transaction.put(P, first, third)
    transaction.put(P, third, second)
    transaction.put(P, second, fourth)


def _next(transaction: Transaction, node: bytes, *, by_scan: bool) -> bytes:
    if by_scan:
        return transaction.scan(P, node, node + b"\x00")[0][1]
    found = transaction.get(P, node)
    assert found is not None
    return found


def _name(node: int) -> bytes:
    return b"n%02d" % node

"""Storage killed at each durability step: what was acknowledged is there, the rest is whole or absent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from services.storage.contract import PartitionRead
from services.storage.core import LocalStore
from services.storage.directory import create_store, open_store
from services.storage.transaction import Transaction, run_transaction
from tests.harness.storage import P, Q, changes, get, run_together
from tests.harness.storage_process import StorageProcess

pytestmark = pytest.mark.fault

TURN_COUNT = 20


def _run_writer(directory: Path, *, thread_count: int, fault_points: str) -> tuple[int, set[str]]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.harness.storage_writer", str(directory), str(TURN_COUNT), str(thread_count)],
        env={**os.environ, "WAGGLE_FAULT_POINTS": fault_points},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    return done.returncode, set(done.stdout.split())


def _found_names(store: LocalStore) -> set[str]:
    """Names of the commits that are there; each must be there whole."""
    in_p = dict(changes(store, 0, prefixes=[b"a", b"b"]))
    in_q = dict(changes(store, 0, prefixes=[b"c"], partition=Q))
    names = {key[1:] for key in (*in_p, *in_q)}
    for name in names:
        assert (in_p.get(b"a" + name), in_p.get(b"b" + name), in_q.get(b"c" + name)) == (name, name, name)
    assert int.from_bytes(get(store, b"n", Q) or b"", "big") == len(names)
    return {name.decode() for name in names}


@pytest.mark.parametrize("thread_count", [1, 8])
@pytest.mark.parametrize("passing", [1, 7])
@pytest.mark.parametrize("point", ["storage.before_batch", "storage.before_sync", "storage.after_sync"])
def test_a_kill_loses_nothing_that_was_acknowledged(
    tmp_path: Path, point: str, passing: int, thread_count: int
) -> None:
    """Killed anywhere, the store opens without a repair, agrees with itself, and holds every acknowledged commit."""
    create_store(tmp_path)
    exit_code, acknowledged = _run_writer(tmp_path, thread_count=thread_count, fault_points=f"{point}=kill@{passing}")
    with open_store(tmp_path) as store:
        found = _found_names(store)
        problems = store.verify().problems
    assert (exit_code, problems, acknowledged - found) == (-signal.SIGKILL, [], set())
    if thread_count == 1:
        # One batch a commit: the step at which it was killed tells whether the last one is there.
        assert len(found) - len(acknowledged) == (point == "storage.after_sync")
        assert len(acknowledged) == passing - 1


def test_kill_after_kill_loses_nothing(tmp_path: Path) -> None:
    """Several lives, each ended by a kill, add up."""
    create_store(tmp_path)
    acknowledged: set[str] = set()
    for point in ("storage.after_sync=kill@5", "storage.before_sync=kill@9", "storage.before_batch=kill@15", ""):
        acknowledged |= _run_writer(tmp_path, thread_count=1, fault_points=point)[1]
    with open_store(tmp_path) as store:
        assert (len(acknowledged), store.verify().problems) == (TURN_COUNT, [])
        keys = [f"a{name}".encode() for name in sorted(acknowledged)]
        values = store.read([PartitionRead(P, keys)]).partitions[0].values
    assert [found.value for found in values] == [key[1:] for key in keys]


@pytest.mark.parametrize("point", ["storage.before_batch", "storage.before_sync", "storage.after_sync"])
def test_transactions_ride_out_a_killed_service(tmp_path: Path, point: str) -> None:
    """Clients in the middle of transactions when storage dies end with one effect each once it is back."""
    create_store(tmp_path)
    with StorageProcess(tmp_path, fault_points=f"{point}=kill@4") as service, service.client() as store:

        def work(number: int) -> None:
            if number == 0:
                service.start_again()
                return
            for name in (b"%d-first" % number, b"%d-second" % number):
                effect = partial(_effect_once, name=name)
                assert run_transaction(store, effect, prefetch={P: [b"receipt" + name]}) == name

        run_together(9, work)
        assert get(store, b"effects") == (2 * 8).to_bytes(8, "big")


def _effect_once(transaction: Transaction, *, name: bytes) -> bytes:
    receipt = transaction.get(P, b"receipt" + name)
    if receipt is None:
        transaction.add(P, b"effects", 1)
        transaction.put(P, b"receipt" + name, name)
        return name
    return receipt

"""Values that are not what was written are found when they are read, and never read as absent."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from services.domain.errors import StorageInconsistency
from services.storage import layout
from services.storage.contract import KeyRange, PartitionRead, Put, Store
from services.storage.core import LocalStore
from services.storage.directory import create_store, open_store
from services.storage.directory_errors import DirectoryDamaged
from services.storage.engine import Engine, Operation
from services.storage.engine_registry import ENGINES
from tests.harness.storage import P, Q, StoreBench, changes, delete, expecting, get, put, write

pytestmark = pytest.mark.fault

ROW_COUNT = 200


def _stored(engine: Engine, physical_key: bytes) -> bytes:
    snapshot = engine.snapshot()
    found = snapshot.get(physical_key)
    snapshot.close()
    assert found is not None
    return found


def _change_beneath(path: Path, change: list[Operation] | Callable[[Engine], list[Operation]]) -> None:
    """Change what the engine of a closed store holds, as bad memory or a bad program would."""
    engine = ENGINES["leveldb"].open(path / "leveldb")
    engine.write(change if isinstance(change, list) else change(engine))
    engine.close()


def _flip_bit(physical_key: bytes, position: int) -> Callable[[Engine], list[Operation]]:
    def flip(engine: Engine) -> list[Operation]:
        damaged = bytearray(_stored(engine, physical_key))
        damaged[position] ^= 1
        return [(physical_key, bytes(damaged))]

    return flip


@pytest.fixture(params=["leveldb", "grpc"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreBench]:
    """A store with a value, a revived key and a deleted one, closed; `restart` opens it."""
    made = StoreBench(request.param, tmp_path)
    put(made.store, a=b"value", b=b"other", d=b"gone")
    delete(made.store, b"d")
    made.close()
    yield made
    made.close()


@pytest.mark.parametrize("position", [0, 7, 8, 15, 16, 20], ids=lambda position: f"byte {position}")
def test_a_flipped_bit_in_a_value_is_found(bench: StoreBench, tmp_path: Path, position: int) -> None:
    """In version, checksum or payload: every way of reading the key fails as inconsistent, its neighbours are fine.

    The partition is written no more, other partitions are; a check finds nothing but the one value.
    """
    _change_beneath(tmp_path, _flip_bit(layout.data_key(P, b"a"), position))
    bench.restart()
    acts: list[Callable[[Store], object]] = [
        lambda store: get(store, b"a"),
        lambda store: store.read([PartitionRead(P, (), [KeyRange(b"a", b"b")])]),
        lambda store: changes(store, 0),
        lambda store: store.commit(expecting(b"a", 1, Put(b"a", b"new"))),
        lambda store: put(store, a=b"new"),
    ]
    for act in acts:
        with pytest.raises(StorageInconsistency):
            act(bench.store)
    with pytest.raises(StorageInconsistency, match=r"nothing was written.* restore it from a backup"):
        put(bench.store, c=b"refused")
    assert (get(bench.store, b"b"), get(bench.store, b"c"), put(bench.store, Q, c=b"fine")) == (b"other", None, 3)
    status = bench.store.status()
    assert (status.writable, status.damaged_partitions, len(bench.local.verify().problems)) == (True, 1, 1)
    bench.restart()
    assert (put(bench.store, c=b"nobody knows yet"), bench.store.status().damaged_partitions) == (4, 0)


def test_a_value_under_another_key_is_found(bench: StoreBench, tmp_path: Path) -> None:
    """A value that is whole, but belongs to another key, is no value of this one."""
    a, b = layout.data_key(P, b"a"), layout.data_key(P, b"b")
    _change_beneath(tmp_path, lambda engine: [(b, _stored(engine, a))])
    bench.restart()
    with pytest.raises(StorageInconsistency):
        get(bench.store, b"b")


@pytest.mark.parametrize(
    "act",
    [lambda store: get(store, b"b"), lambda store: put(store, b=b"new"), lambda store: changes(store, 0)],
    ids=["read", "commit", "changes"],
)
def test_a_damaged_head_is_found(bench: StoreBench, tmp_path: Path, act: Callable[[Store], object]) -> None:
    """A partition whose head cannot be trusted is neither read nor written."""
    _change_beneath(tmp_path, _flip_bit(layout.head_key(P), 9))
    bench.restart()
    with pytest.raises(StorageInconsistency):
        act(bench.store)


@pytest.mark.parametrize(
    "change",
    [
        [(layout.log_key(P, 3, b"b"), b"\x01 not a checksum")],
        [(layout.data_key(P, b"b"), None)],
        [(layout.data_key(P, b"b"), layout.pack_value(layout.data_key(P, b"b"), 2, b"another version"))],
    ],
    ids=["entry", "lost value", "another version"],
)
def test_a_change_log_that_contradicts_the_values_is_found(
    bench: StoreBench, tmp_path: Path, change: list[Operation]
) -> None:
    """A pull never tells a change that is not there, nor passes over a lost value."""
    bench.restart()
    assert put(bench.store, b=b"second") == 3
    bench.close()
    _change_beneath(tmp_path, change)
    bench.restart()
    with pytest.raises(StorageInconsistency):
        changes(bench.store, 1)
    assert len(bench.local.verify().problems) >= 1


def test_lost_keys_are_told_by_the_counts(bench: StoreBench, tmp_path: Path) -> None:
    """A key that vanished without a trace shows in the counts, to the reader of a whole partition and to a check."""
    _change_beneath(tmp_path, [(layout.data_key(P, b"a"), None), (layout.log_key(P, 1, b"a"), None)])
    bench.restart()
    *_, last = bench.store.changed_since(P, 0)
    assert ([row.key for row in last.rows], last.counts) == ([b"b"], {ord("a"): 1, ord("b"): 1})
    assert bench.local.verify().problems == [f"partition {P.hex()}: the counts in its head are not those of its keys"]


def test_a_lost_head_is_told(bench: StoreBench, tmp_path: Path) -> None:
    """A partition that lost its head is named by a check."""
    _change_beneath(tmp_path, [(layout.head_key(P), None)])
    bench.restart()
    assert [P.hex() in problem for problem in bench.local.verify().problems] == [True, True]


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.9], ids=lambda share: f"at {share}")
def test_a_flipped_bit_in_a_table_file_is_found(tmp_path: Path, share: float) -> None:
    """Damage on the disk makes opening or reading fail; every value that is answered is the one that was written."""
    create_store(tmp_path)
    values = {b"k%03d" % number: bytes([number]) * 500 for number in range(ROW_COUNT)}
    with open_store(tmp_path) as store:
        write(store, *(Put(key, value) for key, value in values.items()))
    # Opening moves what was in the log into a table file.
    open_store(tmp_path).close()
    table = max((tmp_path / "leveldb").glob("*.ldb"), key=lambda path: path.stat().st_size)
    content = bytearray(table.read_bytes())
    content[int(len(content) * share)] ^= 0x10
    table.write_bytes(content)
    try:
        store = open_store(tmp_path)
    except DirectoryDamaged:
        return
    with store:
        # Where it lies decides who meets it: the values, or their change log.
        assert _inconsistencies(store, values) + len(store.verify().problems) > 0


def test_damage_without_a_known_place_stops_all_writes(tmp_path: Path) -> None:
    """A block that the engine cannot read may hold anything: nothing is written any more, what is whole is read."""
    create_store(tmp_path)
    noise = random.Random(1)
    with open_store(tmp_path) as store:
        write(store, *(Put(b"k%03d" % number, noise.randbytes(500)) for number in range(ROW_COUNT)))
        put(store, Q, a=b"whole")
    open_store(tmp_path).close()
    table = max((tmp_path / "leveldb").glob("*.ldb"), key=lambda path: path.stat().st_size)
    content = bytearray(table.read_bytes())
    content[len(content) // 3] ^= 0x10
    table.write_bytes(content)
    with open_store(tmp_path) as store:
        assert store.is_writable()
        with pytest.raises(StorageInconsistency):
            store.read([PartitionRead(P, (), [KeyRange(b"")])])
        for partition in (P, Q):
            with pytest.raises(StorageInconsistency, match="nothing was written"):
                put(store, partition, new=b"")
        status = store.status()
        assert (status.writable, status.damaged_partitions, store.is_open()) == (False, 1, True)
        assert get(store, b"a", Q) == b"whole"


def _inconsistencies(store: LocalStore, values: dict[bytes, bytes]) -> int:
    count = 0
    for key, value in values.items():
        try:
            assert get(store, key) == value
        except StorageInconsistency:
            count += 1
    return count

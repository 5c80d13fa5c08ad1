"""How the LevelDB engine writes, which no test without a power cut can see."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from services.storage.engine_leveldb import LevelDBEngine, LevelDBEngineFactory, _sizes_for


class RecordingDatabase:
    """Stands where plyvel's database stands, and records."""

    def __init__(self) -> None:
        self.acts: list[object] = []

    def write_batch(self, **options: object) -> RecordingDatabase:
        """A batch; it records into the same list."""
        self.acts.append(options)
        return self

    def put(self, key: bytes, value: bytes) -> None:
        """Record."""
        self.acts.append((key, value))

    def delete(self, key: bytes) -> None:
        """Record."""
        self.acts.append(key)

    def write(self) -> None:
        """Record."""
        self.acts.append("write")


def test_every_batch_is_synced() -> None:
    """One batch with `sync`, all operations in order, one write."""
    database = RecordingDatabase()
    LevelDBEngine(database, Path(), _sizes_for(0)).write([(b"a", b"1"), (b"b", None)])
    assert database.acts == [{"sync": True}, (b"a", b"1"), b"b", "write"]


MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("volume_bytes", "buffer_bytes", "table_bytes"),
    [(0, MIB // 4, MIB), (100 * MIB, 400 * 1024, MIB), (1024 * MIB, 4 * MIB, 2 * MIB), (1 << 40, 16 * MIB, 2 * MIB)],
)
def test_sizes_fit_the_volume(volume_bytes: int, buffer_bytes: int, table_bytes: int) -> None:
    """What flushes and merges take is a small part of a small volume."""
    assert (buffer_bytes, table_bytes) == _sizes_for(volume_bytes)


def test_an_empty_engine_needs_its_buffers_and_a_full_one_its_tables_too(tmp_path: Path) -> None:
    """Need grows with what merges would move, and is known as nothing once the engine is closed."""
    engine = LevelDBEngineFactory().create(tmp_path / "leveldb")
    empty = engine.working_bytes()
    noise = random.Random(1)
    for number in range(10):
        engine.write([(b"%d" % number, noise.randbytes(MIB))])
    assert 10 * MIB <= engine.recovery_bytes()
    engine.close()
    engine = LevelDBEngineFactory().open(tmp_path / "leveldb")
    assert 10 * MIB <= engine.stored_bytes(b"", b"\xff")
    lower, upper = engine.stored_bytes(b"", b"4"), engine.stored_bytes(b"4", b"\xff")
    assert (3 * MIB < lower < 5 * MIB, 5 * MIB < upper < 7 * MIB) == (True, True)
    assert empty + 10 * MIB <= engine.working_bytes()
    assert engine.recovery_bytes() < MIB
    engine.close()
    engine.compact(b"", b"\xff")
    assert (0, 0) == (engine.working_bytes(), engine.stored_bytes(b"", b"\xff"))

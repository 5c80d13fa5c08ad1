"""How the LevelDB engine writes, which no test without a power cut can see."""

from __future__ import annotations

from pathlib import Path

from services.storage.engine_leveldb import LevelDBEngine, _sizes_for


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

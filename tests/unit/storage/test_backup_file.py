"""The format of backups: whatever is not the whole and unchanged file is refused, wherever it was changed."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from services.storage.backup import restore_store, write_backup
from services.storage.backup_file import BackupDamaged, BackupHeader, BackupReader, BackupWriter
from services.storage.core import LocalStore
from services.storage.directory import open_store
from services.storage.directory_errors import DirectoryMissing, DirectoryUnusable
from services.storage.engine import EngineWriteFailed
from services.storage.engine_leveldb import LevelDBEngine
from services.storage.errors import TooManySnapshots
from services.storage.exporting import EXPORTS_MAX, LocalExporter
from services.storage.layout import META_KEY
from tests.harness.storage import START_MS, ManualClock, Q, changes, delete, get, put


def backed_up(store: LocalStore) -> bytes:
    """A backup of a store."""
    file = io.BytesIO()
    write_backup(LocalExporter(store).export(), file.write, on_progress=lambda _done: None)
    return file.getvalue()


@pytest.fixture
def store() -> LocalStore:
    """A store with two partitions, an overwritten, a deleted and a revived key."""
    made = LocalStore.in_memory(clock=ManualClock())
    put(made, a=b"1", b=b"2", c=b"3")
    put(made, a=b"other")
    delete(made, b"b", b"c")
    put(made, c=b"again")
    put(made, Q, x=b"y" * 5000)
    return made


def read_all(content: bytes) -> dict[bytes, bytes]:
    """All rows of a backup."""
    return dict(row for rows in BackupReader(io.BytesIO(content)).pages() for row in rows)


def restored(content: bytes, path: Path) -> None:
    """Restore a backup."""
    restore_store(path, BackupReader(io.BytesIO(content)), on_progress=lambda _done: None)


def test_a_restored_store_is_the_store_at_the_backup(store: LocalStore, tmp_path: Path) -> None:
    """Id, sequences, values, deletions and log are those of the moment; the opening is new, the clock not behind."""
    content = backed_up(store)
    before, wanted = store.status(), (changes(store, 0), changes(store, 1), changes(store, 0, partition=Q))
    put(store, a=b"after the backup")
    restored(content, tmp_path / "data")
    # The host's clock of the restored store is an hour behind.
    with open_store(tmp_path / "data", clock=ManualClock(START_MS - 3_600_000)) as found:
        status = found.status()
        assert (before.store_id, before.sequence) == (status.store_id, status.sequence)
        assert status.clock_ms >= before.clock_ms
        assert status.incarnation != before.incarnation
        assert wanted == (changes(found, 0), changes(found, 1), changes(found, 0, partition=Q))
        assert [] == found.verify().problems
        assert (before.sequence + 1, b"new") == (put(found, a=b"new"), get(found, b"a"))


def test_a_backup_is_one_snapshot(store: LocalStore) -> None:
    """What is committed after it has begun is not in it."""
    export = LocalExporter(store).export()
    put(store, a=b"late")
    put(store, b"r" * 32, z=b"late")
    rows = [row for page in export.pages for row in page.rows]
    assert [] == [row for row in rows if b"late" in row[1]]
    assert 1 == [key for key, _ in rows].count(META_KEY)
    assert (2, 3) == (export.opening.partition_count, export.opening.key_count)


def test_every_cut_is_refused(store: LocalStore) -> None:
    """A backup that lost its end is never taken for a whole one, whatever the length."""
    content = backed_up(store)
    assert read_all(content)
    for length in range(0, len(content), 7):
        with pytest.raises(BackupDamaged):
            read_all(content[:length])


def test_every_changed_byte_is_refused(store: LocalStore) -> None:
    """So is one in which any byte has changed."""
    content = backed_up(store)
    for place in range(0, len(content), 3):
        damaged = bytearray(content)
        damaged[place] ^= 0x20
        with pytest.raises(BackupDamaged):
            read_all(bytes(damaged))


def test_blocks_cannot_change_places(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each checksum covers what came before, so blocks that are whole in themselves fit in one order only."""
    monkeypatch.setattr("services.storage.backup_file._BLOCK_BYTES_TARGET", 1)
    content = backed_up(store)
    blocks = [content[16:]]
    while blocks[-1]:
        size = 5 + int.from_bytes(blocks[-1][1:5], "big") + 32
        blocks[-1:] = [blocks[-1][:size], blocks[-1][size:]]
    blocks.pop()
    assert content == content[:16] + b"".join(blocks)
    swapped = [*blocks[:2], blocks[3], blocks[2], *blocks[4:]]
    for changed in (swapped, [*blocks[:2], *blocks[3:]], [*blocks[:3], *blocks[2:]]):
        with pytest.raises(BackupDamaged, match="does not agree with its checksum"):
            read_all(content[:16] + b"".join(changed))


def test_another_version_is_named() -> None:
    """A file of a later format says so instead of being called damaged."""
    file = io.BytesIO()
    BackupWriter(file.write, BackupHeader(2, "", "", 1, "", 0, 0, 0, 0, "")).finish()
    with pytest.raises(BackupDamaged, match="format version is 2, this program reads 1"):
        BackupReader(io.BytesIO(file.getvalue()))


def test_a_restore_that_fails_leaves_nothing(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the file is bad at its end or the disk refuses: no store, no trace, and the directory takes the next."""
    content = backed_up(store)
    with pytest.raises(BackupDamaged):
        restored(content[:-1], tmp_path / "data")
    with monkeypatch.context() as patch:

        def refuse(*_: object) -> None:
            raise EngineWriteFailed("no room")

        patch.setattr(LevelDBEngine, "write", refuse)
        with pytest.raises(DirectoryUnusable):
            restored(content, tmp_path / "data")
    with pytest.raises(DirectoryMissing):
        open_store(tmp_path / "data")
    assert [] == list(tmp_path.iterdir())
    restored(content, tmp_path / "data")
    with open_store(tmp_path / "data") as found:
        assert b"other" == get(found, b"a")


def test_only_so_many_exports_run_at_a_time(store: LocalStore) -> None:
    """Each keeps a snapshot; one more is refused until one has ended, also one that was given up half-way."""
    exporter = LocalExporter(store)
    running = [exporter.export() for _ in range(EXPORTS_MAX)]
    with pytest.raises(TooManySnapshots):
        exporter.export()
    next(running[0].pages)
    running[0].pages.close()  # type: ignore[attr-defined]
    assert 3 == exporter.export().opening.key_count

"""Data directories that must not be opened, and that nobody but the holder may open."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import orjson
import plyvel
import pytest

from services.storage.directory import create_store, open_store
from services.storage.directory_errors import (
    DirectoryDamaged,
    DirectoryError,
    DirectoryHeld,
    DirectoryIncompatible,
    DirectoryMissing,
    DirectoryOccupied,
)
from services.storage.marker import MARKER_NAME, Marker, read_marker, write_marker
from tests.harness.storage import delete, get, put
from tests.harness.storage_process import StorageProcess

pytestmark = pytest.mark.fault

ENGINE = "leveldb"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A data directory whose store holds three commits."""
    path = tmp_path / "data"
    create_store(path)
    with open_store(path) as store:
        put(store, a=b"1")
        put(store, b=b"2")
        put(store, c=b"3")
    return path


def _serve(directory: Path) -> tuple[int, str]:
    """Run the service on a directory that it cannot use; exit code and what it said."""
    done = subprocess.run(
        [sys.executable, "-m", "services.storage", "--data-dir", str(directory), "--listen", "127.0.0.1:0"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stderr


def _snapshot_of(directory: Path) -> dict[str, bytes]:
    """Every file with its content, the lock apart."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name != "store.lock"
    }


def test_a_second_process_is_refused(directory: Path) -> None:
    """While one process holds the store, another ends with its own exit code and names directory and holder."""
    with open_store(directory) as store:
        exit_code, said = _serve(directory)
        assert (exit_code, str(directory) in said, f"process {os.getpid()}" in said) == (75, True, True)
        put(store, d=b"4")
    with open_store(directory) as store:
        assert get(store, b"d") == b"4"


def test_a_second_process_is_refused_after_acts_that_drop_leveldbs_own_lock(directory: Path, tmp_path: Path) -> None:
    """A failed second opening and a copy of the live directory by the holder leave the lock in force."""
    with open_store(directory):
        with pytest.raises(DirectoryHeld):
            open_store(directory)
        shutil.copytree(directory, tmp_path / "copy")
        assert _serve(directory)[0] == 75
        (directory / "store.lock").unlink()
        assert _serve(directory)[0] == 75
    with open_store(directory) as store:
        assert get(store, b"a") == b"1"


def test_a_killed_holder_needs_no_clean_up(directory: Path) -> None:
    """After SIGKILL the store opens at once."""
    with StorageProcess(directory) as service, service.client() as client:
        assert get(client, b"a") == b"1"
        service.process.send_signal(signal.SIGKILL)
        service.process.wait()
        with open_store(directory) as store:
            assert get(store, b"c") == b"3"


def test_a_forked_child_does_not_keep_the_lock(directory: Path) -> None:
    """A child that outlives the holder does not stand in the way of the next one."""
    holder = (
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from services.storage.directory_lock import DirectoryLock\n"
        "lock = DirectoryLock(Path(sys.argv[1]))\n"
        "if os.fork():\n"
        "    sys.stdin.read(1)\n"
        "    os._exit(0)\n"
        "print(os.getpid(), flush=True)\n"
        "os.close(0)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", holder, str(directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    try:
        with pytest.raises(DirectoryHeld):
            open_store(directory)
        assert parent.stdin is not None
        parent.stdin.close()
        parent.wait()
        open_store(directory).close()
    finally:
        os.kill(child, signal.SIGKILL)
        parent.stdout.close()


def test_the_service_ends_orderly(directory: Path) -> None:
    """SIGTERM drains: exit code 0, the marker tells the newest commit, the directory is free."""
    with StorageProcess(directory) as service, service.client() as client:
        assert get(client, b"a") == b"1"
        newest = put(client, d=b"4")
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait() == 0
        assert read_marker(directory).sequence == newest
        open_store(directory).close()


def _empty_engine(directory: Path) -> None:
    for path in (directory / ENGINE).iterdir():
        path.unlink()


def _swap_engine(directory: Path) -> None:
    other = directory.parent / "other"
    create_store(other)
    with open_store(other) as store:
        for _ in range(5):
            put(store, x=b"foreign")
    shutil.rmtree(directory / ENGINE)
    (other / ENGINE).rename(directory / ENGINE)


def _roll_back_engine(directory: Path) -> None:
    shutil.copytree(directory / ENGINE, directory.parent / "old")
    with open_store(directory) as store:
        delete(store, b"a")
    shutil.rmtree(directory / ENGINE)
    (directory.parent / "old").rename(directory / ENGINE)


def _fresh_engine(directory: Path) -> None:
    shutil.rmtree(directory / ENGINE)
    plyvel.DB(str(directory / ENGINE), create_if_missing=True).close()


def _cut(name: str) -> Callable[[Path], None]:
    def cut(directory: Path) -> None:
        path = next((directory).rglob(name))
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    return cut


def _flip(name: str) -> Callable[[Path], None]:
    def flip(directory: Path) -> None:
        path = next((directory).rglob(name))
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 0x40
        path.write_bytes(content)

    return flip


def _rewrite_marker(**members: object) -> Callable[[Path], None]:
    def rewrite(directory: Path) -> None:
        stored = orjson.loads((directory / MARKER_NAME).read_bytes())
        (directory / MARKER_NAME).write_bytes(orjson.dumps({**stored, **members}))

    return rewrite


@pytest.mark.parametrize(
    ("damage", "cause"),
    [
        (lambda directory: shutil.rmtree(directory / ENGINE), "CURRENT file is missing"),
        (_empty_engine, "CURRENT file is missing"),
        (_fresh_engine, "empty or has lost its own entry"),
        (_swap_engine, "belongs to store"),
        (_roll_back_engine, "was rolled back"),
        (lambda directory: (directory / MARKER_NAME).unlink(), f"{MARKER_NAME} is missing"),
        (_cut(MARKER_NAME), f"{MARKER_NAME} cannot be read"),
        (_rewrite_marker(sequence=1), "checksum"),
        (_rewrite_marker(store_id=None), "checksum"),
        (_cut("MANIFEST-*"), "the engine cannot be opened"),
        (_flip("MANIFEST-*"), "the engine cannot be opened"),
        (_cut("CURRENT"), "the engine cannot be opened"),
    ],
    ids=[
        "engine gone",
        "engine emptied",
        "engine fresh",
        "engine swapped",
        "engine rolled back",
        "marker gone",
        "marker cut",
        "marker changed",
        "marker without id",
        "manifest cut",
        "manifest flipped",
        "current cut",
    ],
)
def test_a_damaged_directory_is_refused_and_left_alone(
    directory: Path, damage: Callable[[Path], None], cause: str
) -> None:
    """The error names the directory, the cause and what to do; the process has an exit code of its own for it."""
    damage(directory)
    names = sorted(path.name for path in directory.iterdir())
    marker = _snapshot_of(directory).get(MARKER_NAME)
    with pytest.raises(DirectoryDamaged, match=re.escape(cause)) as refusal:
        open_store(directory)
    assert (str(directory) in str(refusal.value), "restore it whole" in str(refusal.value)) == (True, True)
    with pytest.raises(DirectoryOccupied):
        create_store(directory)
    exit_code, said = _serve(directory)
    assert (exit_code, cause in said, str(directory) in said) == (65, True, True)
    # Refused every time: no attempt turned the damage into an empty store.
    assert _serve(directory)[0] == 65
    assert sorted(path.name for path in directory.iterdir()) == names
    assert _snapshot_of(directory).get(MARKER_NAME) == marker


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"format_version": 2}, "format version 2"),
        ({"engine": "hashtable"}, "'hashtable'"),
        ({"engine": "memory"}, "'memory'"),
    ],
    ids=["format", "engine", "engine that keeps nothing"],
)
def test_another_version_is_told_apart_from_damage(directory: Path, change: dict[str, object], cause: str) -> None:
    """A store of another format or engine is refused with an exit code of its own."""
    write_marker(directory, Marker(**{**read_marker(directory)._asdict(), **change}))
    with pytest.raises(DirectoryIncompatible, match=cause):
        open_store(directory)
    assert _serve(directory)[0] == 78


def test_a_torn_log_is_refused_even_when_the_marker_is_old(directory: Path) -> None:
    """Damage in the middle of the write-ahead log is not taken for its end."""
    write_marker(directory, read_marker(directory)._replace(sequence=0))
    _flip("*.log")(directory)
    with pytest.raises(DirectoryDamaged):
        open_store(directory)


def test_opening_nothing_creates_nothing(tmp_path: Path) -> None:
    """A missing directory, and one without a store, are refused as such and stay as they are."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    for path in (tmp_path / "nowhere", other):
        with pytest.raises(DirectoryMissing):
            open_store(path)
        assert _serve(path)[0] == 66
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["notes.txt", "other"]


def test_creating_leaves_other_files_alone(tmp_path: Path) -> None:
    """A store can be laid beside files that are none of its own, once."""
    (tmp_path / "notes.txt").write_text("mine")
    store_id = create_store(tmp_path)
    with open_store(tmp_path) as store:
        assert store.status().store_id == store_id
        with pytest.raises(DirectoryHeld):
            create_store(tmp_path)
    before = _snapshot_of(tmp_path)
    with pytest.raises(DirectoryOccupied):
        create_store(tmp_path)
    assert (_snapshot_of(tmp_path), before["notes.txt"]) == (before, b"mine")


def test_a_database_of_somebody_else_is_not_built_over(tmp_path: Path) -> None:
    """A directory that is itself a LevelDB database is no place for a store."""
    plyvel.DB(str(tmp_path), create_if_missing=True).close()
    with pytest.raises(DirectoryOccupied):
        create_store(tmp_path)


def test_an_interrupted_creation_is_named(tmp_path: Path) -> None:
    """What a crash during creation leaves is refused with the way out."""
    (tmp_path / f"{ENGINE}.creating").mkdir()
    with pytest.raises(DirectoryError, match="creating the store was interrupted"):
        open_store(tmp_path)
    with pytest.raises(DirectoryOccupied):
        create_store(tmp_path)


@pytest.mark.parametrize("engine", ["memory", "hashtable"])
def test_only_durable_engines_go_into_a_directory(tmp_path: Path, engine: str) -> None:
    """An engine that keeps nothing, or that does not exist, is refused before anything is made."""
    with pytest.raises(DirectoryIncompatible, match="leveldb"):
        create_store(tmp_path / "data", engine=engine)
    assert list(tmp_path.iterdir()) == []

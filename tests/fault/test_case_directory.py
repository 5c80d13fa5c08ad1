"""C26: nobody but the owner opens a data directory, whatever the owner itself does to it, and however it ends."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from services.storage.directory import create_store, open_store
from services.storage.directory_errors import DirectoryHeld
from tests.harness import verdict
from tests.harness.api import Api
from tests.harness.ports import free_port
from tests.harness.storage import get, put
from tests.harness.storage_process import StorageProcess
from tests.harness.suite import Suite, is_running, running_suite, wait_until

pytestmark = pytest.mark.fault

HELD = 75
"""Exit code of a service whose directory another process holds."""
# What the owner does between opening the store and saying that it is done; `directory` and `store` are at hand.
ACTS = {
    "checksums every file": (
        "import hashlib\n"
        "for path in sorted(directory.rglob('*')):\n"
        "    if path.is_file():\n"
        "        with path.open('rb') as file:\n"
        "            hashlib.sha256(file.read())\n"
    ),
    "copies the directory": (
        "import shutil\n"
        "shutil.copytree(directory, directory.parent / 'copy', ignore=shutil.ignore_patterns('*.sock'))\n"
    ),
    "archives the directory": (
        "import tarfile\n"
        "with tarfile.open(directory.parent / 'backup.tar', 'w') as archive:\n"
        "    archive.add(directory)\n"
    ),
    "opens it again": (
        "from services.storage.directory_errors import DirectoryHeld\n"
        "try:\n"
        "    open_store(directory)\n"
        "except DirectoryHeld:\n"
        "    pass\n"
        "else:\n"
        "    raise SystemExit('opened twice')\n"
    ),
    "opens the engine again": (
        "import plyvel\n"
        "try:\n"
        "    plyvel.DB(str(directory / 'leveldb'))\n"
        "except plyvel.IOError:\n"
        "    pass\n"
        "else:\n"
        "    raise SystemExit('opened twice')\n"
    ),
    "locks and unlocks LOCK": (
        "import fcntl\n"
        "with (directory / 'leveldb' / 'LOCK').open('r+b') as file:\n"
        "    fcntl.lockf(file, fcntl.LOCK_EX)\n"
        "    fcntl.lockf(file, fcntl.LOCK_UN)\n"
    ),
}
OWNER = """
import os, sys
from pathlib import Path
from services.storage.directory import open_store
from tests.harness.storage import put
directory = Path(sys.argv[1])
store = open_store(directory)
put(store, before=b"1")
{act}
sys.stdout.write("done\\n")
sys.stdout.flush()
sys.stdin.readline()
put(store, after=b"1")
{end}
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    create_store(path)
    return path


@contextmanager
def owning(directory: Path, act: str, end: str = "store.close()") -> Iterator[subprocess.Popen[str]]:
    """A process that holds the store and has done something to its directory."""
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER.format(act=act, end=end), str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert owner.stdout is not None
        assert "done\n" == owner.stdout.readline()
        yield owner
    finally:
        owner.kill()
        owner.communicate()


def assert_refused(directory: Path, holder: int) -> None:
    """A second process ends quickly, with an exit code of its own and a message that names directory and holder."""
    done = subprocess.run(
        [sys.executable, "-m", "services.storage", "--data-dir", str(directory), "--listen", "127.0.0.1:0"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert HELD == done.returncode, done.stderr
    assert str(directory) in done.stderr
    assert f"process {holder}" in done.stderr
    assert "Traceback" not in done.stderr
    with pytest.raises(DirectoryHeld):
        open_store(directory)


@pytest.mark.parametrize("act", ACTS)
def test_the_owner_may_do_what_it_likes_to_its_directory(directory: Path, act: str) -> None:
    """After acts that drop LevelDB's own lock a second process never opens the data, and the owner writes on."""
    with owning(directory, ACTS[act]) as owner:
        assert_refused(directory, owner.pid)
        owner.communicate("go on\n")
        assert 0 == owner.returncode
    with open_store(directory) as store:
        assert (b"1", b"1") == (get(store, b"before"), get(store, b"after"))
        assert [] == store.verify().problems


def test_a_child_of_the_owner_outlives_it(directory: Path) -> None:
    """A forked child that sleeps on keeps nobody out once its parent was killed, and cannot write behind the next."""
    fork = (
        "child = os.fork()\n"
        "if child == 0:\n"
        "    import time\n"
        "    os.close(0)\n"
        "    os.close(1)\n"
        "    time.sleep(600)\n"
        "    os._exit(0)\n"
        "sys.stdout.write(f'{child}\\n')\n"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER.format(act=fork, end=""), str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdout is not None
    child = int(owner.stdout.readline())
    try:
        assert "done\n" == owner.stdout.readline()
        assert_refused(directory, owner.pid)
        owner.send_signal(signal.SIGKILL)
        owner.communicate()
        assert is_running(child)
        with StorageProcess(directory) as service, service.client() as store:
            assert b"1" == get(store, b"before")
            put(store, behind=b"1")
            assert is_running(child)
            assert_refused(directory, service.process.pid)
    finally:
        os.kill(child, signal.SIGKILL)
    with open_store(directory) as store:
        assert (b"1", []) == (get(store, b"behind"), store.verify().problems)


def test_killed_and_started_at_once_again_and_again(directory: Path) -> None:
    """No clean-up, no waiting: each new owner finds all that was acknowledged, under an incarnation of its own."""
    incarnations = set()
    with StorageProcess(directory) as service:
        for number in range(3):
            with service.client() as store:
                # A read waits for the service to come up.
                assert get(store, b"k%d" % number) is None
                put(store, **{f"k{number}": b"1"})
                incarnations.add(store.status().incarnation)
                assert [b"1"] * (number + 1) == [get(store, b"k%d" % earlier) for earlier in range(number + 1)]
            service.process.send_signal(signal.SIGKILL)
            service.start_again()
    assert 3 == len(incarnations)


def test_an_update_hands_over_without_two_owners(directory: Path) -> None:
    """The successor that comes too early ends by itself and names its predecessor; after the drain it serves."""
    with StorageProcess(directory) as former:
        with former.client() as store:
            assert get(store, b"a") is None
            put(store, a=b"1")
            earlier = store.status().incarnation
        with StorageProcess(directory) as early:
            assert HELD == early.process.wait(60)
        former.process.send_signal(signal.SIGTERM)
        assert 0 == former.process.wait(60)
        with StorageProcess(directory) as successor, successor.client() as store:
            assert b"1" == get(store, b"a")
            assert earlier != store.status().incarnation
            assert_refused(directory, successor.process.pid)


@pytest.mark.deep
def test_a_running_suite_keeps_its_directory(tmp_path: Path, scope: dict[str, Any]) -> None:
    """Neither a storage service nor a whole suite opens it beside the first, before and after a kill of storage."""
    with running_suite(tmp_path) as suite:
        before = checksum(suite)
        assert_refused(suite.data_directory, suite.process_id("storage"))
        suite.kill("storage")
        suite.wait_healthy()
        assert_refused(suite.data_directory, suite.process_id("storage"))
        arguments = ("--data-dir", str(suite.data_directory), "--listen", f"127.0.0.1:{free_port()}")
        second = subprocess.run(
            [sys.executable, "-m", "cli.main", "serve", *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert 0 != second.returncode
        assert str(suite.data_directory) in second.stderr
        wait_until(lambda: len(suite.process_ids()["storage"]) == 1, "one storage runs")
        with suite.client() as client:
            Api(client, scope).create("written after all that")
        verdict.check_ordinary(suite, scope)
        assert before != checksum(suite)
    verdict.check_stopped(suite, scope)


def checksum(suite: Suite) -> str:
    """What a backup tool would read of the live directory."""
    digest = hashlib.sha256()
    for path in sorted((suite.data_directory / "leveldb").iterdir()):
        digest.update(path.read_bytes())
    return digest.hexdigest()

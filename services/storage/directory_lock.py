"""Exclusive use of a data directory for the life of a process.

LevelDB's own lock is dropped by any second open inside the owning process, so it is not relied upon. This one is a
`flock` on a file outside of the engine's directory, and on the data directory itself in case somebody removes the file.
The kernel gives it back when the holder dies, whatever the cause.
"""

from __future__ import annotations

import fcntl
import os
import weakref
from pathlib import Path
from typing import Final

from services.storage.directory_errors import DirectoryHeld, DirectoryUnusable

LOCK_NAME: Final = "store.lock"


class DirectoryLock:
    """A lock that is held from construction to `close`.

    Raises:
        DirectoryHeld: Another process, or another lock of this one, has it.
        DirectoryUnusable: The file system refuses.
    """

    def __init__(self, path: Path) -> None:
        self._descriptors: list[int] = []
        try:
            self._take(path, os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            lock_file = os.open(path / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._take(path, lock_file)
        except OSError as error:
            self.close()
            raise DirectoryUnusable(path, f"the lock cannot be taken: {error.strerror}") from error
        except BaseException:
            self.close()
            raise
        _note_holder(lock_file)
        _held.add(self)

    def close(self) -> None:
        """Give the lock back. Safe to repeat."""
        # Closing, not unlocking: in a forked child it must leave the parent's lock alone.
        while self._descriptors:
            os.close(self._descriptors.pop())

    def _take(self, path: Path, descriptor: int) -> None:
        self._descriptors.append(descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DirectoryHeld(path, _holder(path)) from error


_held: weakref.WeakSet[DirectoryLock] = weakref.WeakSet()


def _close_all_in_child() -> None:
    for lock in list(_held):
        lock.close()


# A child that was forked and outlives this process must not keep the lock.
os.register_at_fork(after_in_child=_close_all_in_child)


def _note_holder(lock_file: int) -> None:
    try:
        os.ftruncate(lock_file, 0)
        os.pwrite(lock_file, f"{os.getpid()}\n".encode("ascii"), 0)
    except OSError:
        # On a full disk the holder goes unnamed; the lock holds all the same.
        return


def _holder(path: Path) -> str:
    try:
        text = (path / LOCK_NAME).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return "unknown"
    return text if text.isdigit() else "unknown"

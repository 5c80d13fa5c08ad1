"""One suite after the other on a data directory: a new one begins when the last process of the former has ended.

After a supervisor was killed, its services take a moment to follow it, and until then hold the store, the sockets and
the port. A new suite that began meanwhile would be refused by the store, or lose its sockets to the end of their former
owners.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK_FILE = "services.lock"
WAIT_S = 10.0
POLL_S = 0.02


class FormerSuiteRemains(Exception):
    """Services of a former suite do not end. The message names the data directory."""


@contextmanager
def succeed_former(run_directory: Path, *, wait_s: float = WAIT_S) -> Iterator[int]:
    """Wait until no process of a former suite is left, and keep a later suite from beginning.

    Args:
        run_directory: Where the lock file is.
        wait_s: How long to wait, in seconds.

    Yields:
        A file descriptor for every process of this suite to inherit: the next suite waits until all have ended.

    Raises:
        FormerSuiteRemains: There are such processes after that time.
    """
    descriptor = os.open(run_directory / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        give_up_at_s = time.monotonic() + wait_s
        while not _is_taken(descriptor):
            if time.monotonic() > give_up_at_s:
                raise FormerSuiteRemains(
                    f"{run_directory.parent}: services of a suite that has ended still run here. Stop them first"
                )
            time.sleep(POLL_S)
        yield descriptor
    finally:
        os.close(descriptor)


def _is_taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

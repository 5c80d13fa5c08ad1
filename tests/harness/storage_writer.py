"""A process that commits to a store until it is done or killed.

    python -m tests.harness.storage_writer DIRECTORY COMMITS_PER_THREAD THREADS

It prints a line for each commit that was acknowledged. Commit `t-i` puts its name under two keys of P and one of Q, and
removes or adds to keys that all commits share, so that the change log has something to tell.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from services.storage.contract import Add, Commit, Delete, PartitionCommit, Put
from services.storage.core import LocalStore
from services.storage.directory import open_store
from tests.harness.storage import P, Q, run_together


def commit_named(store: LocalStore, name: bytes) -> None:
    """Commit the keys of one name."""
    shared = b"s" + name[-1:]
    flip = Delete(shared) if name[-1] % 2 else Put(shared, name)
    store.commit(
        Commit(
            [
                PartitionCommit(P, writes=[Put(b"a" + name, name), Put(b"b" + name, name), flip]),
                PartitionCommit(Q, writes=[Put(b"c" + name, name), Add(b"n", 1)]),
            ]
        )
    )


def main() -> None:
    """Open, commit, tell."""
    store = open_store(Path(sys.argv[1]))

    def work(number: int) -> None:
        for turn in range(int(sys.argv[2])):
            name = f"{number}-{turn}"
            commit_named(store, name.encode())
            # One system call a line: a line is there whole or not at all when the process is killed.
            os.write(1, f"{name}\n".encode())

    run_together(int(sys.argv[3]), work)
    store.close()


if __name__ == "__main__":
    main()

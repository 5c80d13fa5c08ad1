"""What a worker has begun and what it has to repeat: one JSON document for each worker and job, durable before use."""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Iterator, Optional, Union

from qilbeedb._errors import ConsolidationStopped, ConsumerProtocolError, ReconciliationRequired, refuse
from qilbeedb._strict_json import JsonObject, compact_json, parse_response

PathText = Union[str, "os.PathLike[str]"]

STATE_BYTES_MAX = 262_144
_LOCK_NAME = "worker.lock"
_DATABASE_NAME = "consolidation.sqlite3"


class JournalTransaction:
    """The journal while its lock is held."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def load(self, binding_id: str, job_id: str) -> Optional[JsonObject]:
        """Return the last saved state, or None when nothing was ever begun.

        Raises:
            ReconciliationRequired: `invalid_journal_state`; somebody else has written it, or it is damaged.
        """
        try:
            row = self._database.execute(
                "SELECT state FROM attempts WHERE binding = ? AND job = ?", (binding_id, job_id)
            ).fetchone()
            if row is None:
                return None
            state = parse_response(str(row[0]).encode("utf-8"))
        except (ConsumerProtocolError, sqlite3.DatabaseError) as error:
            raise ReconciliationRequired("invalid_journal_state") from error
        if not isinstance(state, dict):
            raise ReconciliationRequired("invalid_journal_state")
        return state

    def save(self, binding_id: str, job_id: str, state: JsonObject) -> None:
        """Write a state; it is durable when this returns.

        Raises:
            ConsumerProtocolError: `consolidation_value_too_large`, above 262,144 bytes; nothing was written.
        """
        text = compact_json(state)
        if len(text) > STATE_BYTES_MAX:
            refuse("consolidation_value_too_large")
        self._database.execute(
            "INSERT OR REPLACE INTO attempts (binding, job, state) VALUES (?, ?, ?)",
            (binding_id, job_id, text.decode("ascii")),
        )


class SQLiteConsolidationJournal:
    """A journal in a private directory of a local POSIX file system. It holds neither credentials nor records.

    Args:
        directory: Made with mode 0700 when it is missing.

    Attributes:
        directory: The same, as a path.

    Raises:
        ValueError: It is a symbolic link, no directory, or open to others than its owner.
    """

    def __init__(self, directory: PathText) -> None:
        self.directory = Path(directory)
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except FileExistsError as error:
            raise ValueError("the journal must be a directory and no symbolic link") from error
        mode = self.directory.lstat().st_mode
        if not stat.S_ISDIR(mode):
            raise ValueError("the journal must be a directory and no symbolic link")
        if mode & 0o077:
            raise ValueError("the journal directory must be private: chmod 700")

    @contextmanager
    def transaction(self) -> Iterator[JournalTransaction]:
        """Hold the exclusive lock of the directory, and with it the journal.

        The lock goes with the process, however that ends.

        Raises:
            ConsolidationStopped: `journal_in_use`, or `journal_symlink_rejected`.
            ReconciliationRequired: `invalid_journal_state`; the file is damaged, or no journal.
            sqlite3.OperationalError: It cannot be written, for want of room for example.
        """
        # The module exists on POSIX only, and so does the journal; the clients work everywhere.
        import fcntl

        with _private_file(self.directory / _LOCK_NAME) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno in (errno.EAGAIN, errno.EACCES):
                    raise ConsolidationStopped("journal_in_use") from error
                raise
            with closing(self._open()) as database:
                yield JournalTransaction(database)

    def _open(self) -> sqlite3.Connection:
        path = self.directory / _DATABASE_NAME
        with _private_file(path):
            pass
        _sync_directory(self.directory)
        database = sqlite3.connect(str(path), isolation_level=None)
        try:
            database.execute("PRAGMA journal_mode = DELETE")
            database.execute("PRAGMA synchronous = FULL")
            database.execute(
                "CREATE TABLE IF NOT EXISTS attempts "
                "(binding TEXT NOT NULL, job TEXT NOT NULL, state TEXT NOT NULL, PRIMARY KEY (binding, job))"
            )
        except BaseException as error:
            database.close()
            # What the surroundings refuse is an OperationalError; the rest is the file's own fault.
            if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
                raise ReconciliationRequired("invalid_journal_state") from error
            raise
        return database


@contextmanager
def _private_file(path: Path) -> Iterator[int]:
    """Open a file for reading and writing, made with mode 0600 when it is missing, never through a symbolic link."""
    try:
        descriptor = os.open(str(path), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ConsolidationStopped("journal_symlink_rejected") from error
        raise
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(str(path), os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

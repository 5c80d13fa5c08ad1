"""Where `waggle worker` keeps the journals of its attempts: one private directory each, never deleted.

    ROOT/open/JOB@REVISION      an attempt that is not settled
    ROOT/closed/JOB@REVISION    one that is: it has its receipt, or can never get one

REVISION is that of the ready job which the attempt was to claim. The SDK's journal remembers a job for ever, an
uncertain attempt included; a directory for each attempt lets a later one begin while the evidence of the first stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PRIVATE = 0o700


@dataclass(frozen=True, slots=True, order=True)
class AttemptJournal:
    """One journal directory.

    Attributes:
        job_id: The job.
        revision: Revision at which it was, or is to be, claimed.
        directory: For SQLiteConsolidationJournal.
    """

    job_id: str
    revision: int
    directory: Path


class AttemptJournals:
    """All journals below one root."""

    def __init__(self, root: Path) -> None:
        self._open = root / "open"
        self._closed = root / "closed"
        for directory in (root, self._open, self._closed):
            directory.mkdir(mode=PRIVATE, parents=True, exist_ok=True)

    def begin(self, job_id: str, revision: int) -> AttemptJournal:
        """Return the journal for a claim at this revision."""
        return AttemptJournal(job_id, revision, self._open / f"{job_id}@{revision}")

    def is_closed(self, journal: AttemptJournal) -> bool:
        """Tell whether this claim was settled before."""
        return (self._closed / journal.directory.name).exists()

    def unsettled(self) -> list[AttemptJournal]:
        """Return the open journals, by job and revision."""
        found = []
        for directory in self._open.iterdir():
            job_id, separator, revision = directory.name.rpartition("@")
            if separator and revision.isdecimal():
                found.append(AttemptJournal(job_id, int(revision), directory))
        return sorted(found)

    def close(self, journal: AttemptJournal) -> Path:
        """Put a settled journal away and return where it is now."""
        return journal.directory.rename(self._closed / journal.directory.name)

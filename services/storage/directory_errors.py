"""Why a data directory cannot be used, as typed errors.

DirectoryError
├── DirectoryDamaged       exit code 65   part of the store is missing, foreign, old or unreadable
├── DirectoryMissing       exit code 66   there is no store
├── DirectoryOccupied      exit code 73   a store should be created where something already is
├── DirectoryUnusable      exit code 74   the file system refuses
├── DirectoryHeld          exit code 75   another process has it open
└── DirectoryIncompatible  exit code 78   another format version, or an unknown engine
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar


class DirectoryError(Exception):
    """A data directory cannot be used.

    Args:
        path: The directory.
        cause: What was found, without a full stop.
        advice: What the operator can do, as sentences.

    Attributes:
        exit_code: What a process ends with for this cause.
    """

    exit_code: ClassVar[int] = 74

    def __init__(self, path: Path, cause: str, advice: str) -> None:
        super().__init__(f"{path}: {cause}. {advice}")
        self.path = path


class DirectoryDamaged(DirectoryError):
    """Part of the store is missing, foreign, old or unreadable."""

    exit_code = 65

    def __init__(self, path: Path, cause: str) -> None:
        super().__init__(
            path,
            cause,
            "Nothing was repaired, and nothing will be. Keep the directory as it is, restore it whole (marker "
            "and engine directory together) from a backup, and start again.",
        )


class DirectoryMissing(DirectoryError):
    """There is no store, nor a trace of one."""

    exit_code = 66

    def __init__(self, path: Path, cause: str) -> None:
        super().__init__(
            path,
            cause,
            "If there never was a store, create one. If there was, find out where it went and restore it whole.",
        )


class DirectoryOccupied(DirectoryError):
    """A store should be created where there is one, or a trace of one."""

    exit_code = 73

    def __init__(self, path: Path, cause: str) -> None:
        super().__init__(path, cause, "Nothing was changed. Use the store that is here, or choose an empty directory.")


class DirectoryUnusable(DirectoryError):
    """The file system refuses: no room, no permission, or a failing disk."""

    exit_code = 74

    def __init__(self, path: Path, cause: str) -> None:
        super().__init__(path, cause, "Look at the free space, the permissions and the health of the disk.")


class DirectoryHeld(DirectoryError):
    """Another process, or another object of this one, has the store open."""

    exit_code = 75

    def __init__(self, path: Path, holder: str) -> None:
        super().__init__(
            path,
            f"the store is held open by process {holder}",
            "Stop the suite that it belongs to first: `waggle serve` would start it again. The lock ends with its "
            "holder, so there is no file to remove.",
        )


class DirectoryIncompatible(DirectoryError):
    """The store has a format or an engine that this program does not know."""

    exit_code = 78

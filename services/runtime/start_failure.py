"""A process that must not start: how it says so to its operator."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from services.domain.errors import WaggleError
from services.runtime.logging import get_logger

EXIT_CANNOT_START: Final = 3
START_REPORT_VARIABLE: Final = "WAGGLE_START_REPORT"

log = get_logger()


class CannotStart(Exception):
    """Raised when the process must not start; the message is for the operator.

    Attributes:
        exit_code: The code that the process ends with, from 1 to 125.
    """

    def __init__(self, message: str, exit_code: int = EXIT_CANNOT_START) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def report_cannot_start(error: CannotStart | WaggleError) -> int:
    """Log why the process does not start, hand the reason to the supervisor, and return the exit code.

    `WAGGLE_START_REPORT` names the file that the supervisor reads, so that the operator sees the sentence itself and
    need not look for it among the logs.
    """
    message = str(error) if isinstance(error, CannotStart) else error.message
    log.error("cannot_start", message=message)
    report = os.environ.get(START_REPORT_VARIABLE)
    if report:
        # On a full disk the exit code and the log must do.
        with suppress(OSError):
            Path(report).write_text(message, encoding="utf-8")
    return error.exit_code if isinstance(error, CannotStart) else EXIT_CANNOT_START

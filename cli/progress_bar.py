"""A progress bar on standard error, which is silent where nobody looks at a terminal."""

from __future__ import annotations

from types import TracebackType

from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn

from cli.console import err


class ProgressBar:
    """Shows how much of a piece of work is done, from entering the block to leaving it.

    Args:
        what: The work, as a word or two.
        total: All of it; None when that is not known.
        amount: How the amount is shown; "done/total" by default.
    """

    def __init__(self, what: str, total: int | None, amount: ProgressColumn | None = None) -> None:
        columns = (TextColumn(what), BarColumn(), amount or MofNCompleteColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, console=err, transient=True, disable=not err.is_terminal)
        self._task = self._progress.add_task("", total=total)

    def __enter__(self) -> ProgressBar:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def set(self, done: int) -> None:
        """Show that so much is done."""
        self._progress.update(self._task, completed=done)

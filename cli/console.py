"""Printing for people and for programs, and ending with a message instead of a trace."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import orjson
import typer
from rich.console import Console
from rich.table import Table

EXIT_REFUSED = 1
EXIT_USAGE = 2
EXIT_DAMAGED = 65
EXIT_FILE_SYSTEM = 74
EXIT_INTERRUPTED = 130

# Into a pipe or a file nothing is folded to the width of a terminal that is not there.
_PIPE_WIDTH = 240

out = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else _PIPE_WIDTH)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """Write a JSON document and a line end to standard output."""
    sys.stdout.write(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode("utf-8") + "\n")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str | None = None) -> None:
    """Write rows of text under column names. Content is never read as markup."""
    table = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for column in columns:
        # An identifier that is cut or folded can be neither read nor copied.
        table.add_column(column, overflow="fold", no_wrap=column in ("id", "record"))
    for row in rows:
        table.add_row(*(cell.replace("[", r"\[") for cell in row))
    out.print(table)


def fail(message: str, exit_code: int = EXIT_REFUSED) -> NoReturn:
    """Write one line to standard error and end."""
    err.print(f"waggle: {message}", markup=False)
    raise typer.Exit(exit_code)

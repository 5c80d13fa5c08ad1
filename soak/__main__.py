"""`python -m soak`: the suite under load, failures and attacks for minutes, then the proof that nothing is lost."""

from __future__ import annotations

import random
import secrets
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from soak.run import soak

_console = Console(width=140)


def main(
    minutes: Annotated[float, typer.Option(min=0.1, help="How long the load lasts.")] = 10.0,
    seed: Annotated[
        int | None, typer.Option(help="Repeats every choice; how threads interleave is the machine's.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Keep the report in this file.")] = None,
) -> None:
    """Soak a suite on a new store in a temporary directory. Exit status 1 when anything does not hold."""
    chosen = secrets.randbelow(1 << 32) if seed is None else seed
    _console.print(f"seed {chosen}, {minutes:g} minutes")
    with tempfile.TemporaryDirectory(prefix="waggle-soak-", ignore_cleanup_errors=True) as temporary:
        found = soak(Path(temporary), random.Random(chosen), chosen, minutes * 60.0, say=_console.print)
    text = found.markdown()
    _console.print(text, markup=False, highlight=False)
    if report is not None:
        report.write_text(text, encoding="utf-8")
    raise typer.Exit(int(bool(found.problems)))


if __name__ == "__main__":
    typer.run(main)

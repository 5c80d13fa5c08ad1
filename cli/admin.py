"""`waggle admin`: what is done to a data directory while no suite runs on it."""

from __future__ import annotations

import typer

app = typer.Typer(no_args_is_help=True, help="Work on a data directory offline, with exclusive access.")

"""The `waggle` command."""

from __future__ import annotations

from typing import Annotated

import typer

from cli import admin, credentials, imports, search
from cli.backups import backup, restore
from cli.company_export import export
from cli.console import out
from cli.serve import serve
from cli.verification import verify
from cli.worker import worker
from services.runtime.version import VERSION

app = typer.Typer(
    name="waggle",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="An auditable graph memory for software agents.",
)
app.command()(serve)
app.command()(worker)
app.command()(backup)
app.command()(restore)
app.command()(verify)
app.command()(export)
app.add_typer(admin.app, name="admin")
app.add_typer(credentials.app, name="credentials")
app.add_typer(search.app, name="search")
app.add_typer(imports.app, name="import")


def _tell_version(wanted: bool) -> None:
    if wanted:
        out.print(VERSION, markup=False, highlight=False)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_tell_version, help="Show the version and end.")
    ] = False,
) -> None:
    """An auditable graph memory for software agents."""


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()

"""The `waggle` command."""

from __future__ import annotations

import typer

from cli import admin, credentials, imports, search
from cli.backups import backup, restore
from cli.company_export import export
from cli.serve import serve
from cli.verification import verify
from cli.worker import worker

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


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()

"""`waggle admin certificates`: what the processes of a suite know each other by, under mutual TLS."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Annotated

import typer

from cli.console import fail, out
from cli.internal_authority import AuthorityUnusable, ensure_certificates


def certificates(
    directory: Annotated[Path, typer.Argument(metavar="DIRECTORY", help="Where the certificates are kept.")],
    dns: Annotated[
        list[str] | None,
        typer.Option(help="Further DNS name or address of the processes that serve; may be repeated."),
    ] = None,
    renew: Annotated[bool, typer.Option("--renew", help="Issue all anew, by the same authority.")] = False,
) -> None:
    """Make an authority of your own and a certificate for each process of the suite; needs no data directory.

    Certificates hold for 90 days. Run it again from time to time: what ends within 30 days is issued anew, and running
    processes take it up without a restart. DIRECTORY/NAME is what process NAME is given; "admin" is for operators.
    """
    try:
        issued = ensure_certificates(
            directory, now=datetime.datetime.now(datetime.UTC), extra_names=dns or (), renew=renew
        )
    except AuthorityUnusable as error:
        fail(str(error))
    except ValueError as error:
        fail(f"--dns: {error}", 2)
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}")
    for entry in issued:
        word = "issued" if entry.is_new else "kept"
        out.print(f"{word}  {entry.certificate}  until {entry.ends_at:%Y-%m-%d}", markup=False)

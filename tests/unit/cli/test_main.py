"""The command as a whole."""

from __future__ import annotations

from typer.testing import CliRunner

from cli.main import app
from services.runtime.version import VERSION


def test_the_version_is_told_and_nothing_else() -> None:
    """For scripts, and for who reports what happened."""
    result = CliRunner().invoke(app, ["--version"])
    assert (0, f"{VERSION}\n") == (result.exit_code, result.output)

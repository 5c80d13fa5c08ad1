"""An import that is interrupted by its user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import typer

import cli.imports
from cli.connection import Visibility


def test_it_says_how_far_it_came(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What is durable, what to do, and the exit code of an interrupt; no trace."""

    def run_import(*_: Any, on_progress: Callable[[int], None]) -> None:
        on_progress(3)
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.imports, "run_import", run_import)
    scope = cli.imports.scope_message("p", "a", "", Visibility.SHARED)
    with pytest.raises(typer.Exit) as ended:
        cli.imports.import_commands("unix:/nowhere", "key", scope, [], total=7)
    told = "waggle: interrupted; 3 of 7 are durable; running it again continues from there\n"
    assert (130, told) == (ended.value.exit_code, capsys.readouterr().err)

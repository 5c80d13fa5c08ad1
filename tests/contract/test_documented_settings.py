"""The tables of settings in docs/operations.md are those of the code."""

from __future__ import annotations

import dataclasses
import functools
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main

from cli.main import app
from services.runtime.settings import DurationVariable, IntegerVariable, PathVariable, TextVariable, Variable
from tests.harness.settings import INTERNAL_VARIABLES, PLAIN_VARIABLES, Setting, address_variables, all_settings

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "operations.md"
PROCESSES = "### Of the processes"
COMMAND = "### Of the command"
# Read by the libraries of OpenTelemetry.
FOREIGN_VARIABLES = {"OTEL_EXPORTER_OTLP_ENDPOINT"}


@functools.cache
def rows(heading: str) -> dict[str, list[str]]:
    """Variable -> the other cells of its row."""
    _, found, section = DOCUMENT.read_text(encoding="utf-8").partition(f"{heading}\n")
    assert found
    section = re.split(r"^#", section, maxsplit=1, flags=re.MULTILINE)[0]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in section.splitlines() if "| `" in line]
    result = {row[0].strip().strip("`"): row[1:] for row in cells}
    assert len(cells) == len(result)
    return result


def bounds_in_words(variable: Variable) -> str:
    match variable:
        case IntegerVariable(least=least, greatest=greatest):
            return f"{least:,} to {greatest:,}"
        case DurationVariable(greatest_s=greatest):
            return f"above 0, to {greatest:,.0f}"
        case PathVariable():
            return "path"
        case TextVariable():
            return "text"
    raise AssertionError(variable)


def default_in_words(setting: Setting) -> str:
    if setting.default is dataclasses.MISSING or setting.variable.name in address_variables().values():
        return "must be set"
    if isinstance(setting.default, os.PathLike):
        return "in the source tree"
    if setting.default == "":
        return "none"
    return f"{setting.default:,}" if isinstance(setting.default, int) else f"{setting.default:g}"


def variables_of_the_command() -> Iterator[str]:
    """What stands for an option of `waggle`."""
    commands = [typer.main.get_command(app)]
    while commands:
        command = commands.pop()
        commands += getattr(command, "commands", {}).values()
        yield from (parameter.envvar for parameter in command.params if isinstance(parameter.envvar, str))


@pytest.mark.parametrize("name", sorted(all_settings()))
def test_a_setting_has_its_default_and_its_bounds(name: str) -> None:
    """As the dataclass has them, in the units that the variable's name says."""
    _, default, bounds, meaning = rows(PROCESSES)[name]
    setting = all_settings()[name]
    assert (default_in_words(setting), bounds_in_words(setting.variable)) == (default, bounds)
    assert meaning


def test_no_other_setting_is_told_of() -> None:
    """A row of something that nobody reads would mislead."""
    assert set(all_settings()) | PLAIN_VARIABLES | FOREIGN_VARIABLES == set(rows(PROCESSES))
    assert not INTERNAL_VARIABLES & set(rows(PROCESSES))


def test_the_variables_of_the_command_are_those_of_its_options() -> None:
    """Each that an option can be given by, and no other."""
    assert set(variables_of_the_command()) == set(rows(COMMAND))

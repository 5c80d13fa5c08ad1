"""One version everywhere."""

from __future__ import annotations

import tomllib
from pathlib import Path

from services.runtime.version import VERSION

ROOT = Path(__file__).parents[3]


def test_the_version_is_that_of_the_package() -> None:
    """What /health reports is what was installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert VERSION == project["version"]

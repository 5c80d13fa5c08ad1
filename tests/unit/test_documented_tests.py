"""The tables of tests in docs/testing.md name tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEADING = "## Jobs: each documented row and its test"


def test_every_named_test_exists() -> None:
    """A test that is renamed or taken away has its row changed too, and no row is without a test."""
    _, found, section = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8").partition(HEADING)
    assert found
    section = section.partition("\n## ")[0]
    named = re.findall(r"`([a-z_]+)\.(test_[a-z_0-9]+)`", section)
    assert len(named) > 80
    sources: dict[str, str] = {}
    for path in (ROOT / "tests").rglob("test_*.py"):
        stem = path.stem.removeprefix("test_")
        sources[stem] = sources.get(stem, "") + path.read_text(encoding="utf-8")
    missing = [f"{file}.{test}" for file, test in named if f"def {test}(" not in sources.get(file, "")]
    assert [] == missing
    rows = [line for line in section.splitlines() if line.startswith("| ") and not line.startswith(("| **", "| ---"))]
    assert [] == [row for row in rows[1:] if ".test_" not in row]

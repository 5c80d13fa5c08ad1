"""The tables of tests in docs/testing.md name tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEADING = "## Jobs: each documented row and its test"
CASES = "## Failures of comparable systems: each case and its tests"
FIXTURES = {"both", "both_entrances", "untouched"}


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


def test_every_case_names_tests_that_exist() -> None:
    """Each case has a row, each row names files or single tests, and all of them are there."""
    _, found, section = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8").partition(CASES)
    assert found
    rows = re.findall(r"^\| ([CG][^|]*|) \| [^|]+ \| ([^|]+) \|$", section.partition("\n## ")[0], re.MULTILINE)
    cases = {"C01", "C04", "C06", "C07", "C10", "C11", "C13", "C15", "C17", "C19", "C22", "C23", "C26", "C28"}
    assert cases <= {case.strip() for case, _ in rows}
    files = {path.stem.removeprefix("test_"): path for path in (ROOT / "tests").rglob("test_*.py")}
    for _, tests in rows:
        named = set(re.findall(r"`([a-z_0-9.]+)`", tests)) - FIXTURES
        for file, _, test in (name.partition(".") for name in named):
            assert file in files
            assert f"def {test}" in files[file].read_text(encoding="utf-8")

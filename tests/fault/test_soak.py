"""A short soak: see docs/decisions/0075-soak.md. `make soak` is the long one."""

from __future__ import annotations

import random
import secrets
from pathlib import Path

import pytest

from soak.run import soak

pytestmark = [pytest.mark.fault, pytest.mark.deep]
DURATION_S = 60.0


def test_a_soaked_suite_loses_repeats_and_leaks_nothing(tmp_path: Path) -> None:
    """A minute of everything at once, kills included; then every answer and the whole store are judged."""
    seed = secrets.randbelow(1 << 32)
    report = soak(tmp_path, random.Random(seed), seed, DURATION_S, say=print)
    assert [] == report.problems, f"to repeat: make soak SOAK='--minutes 1 --seed {seed}'"
    # It was no idle minute.
    assert min(sum(report.requests.values()), report.checks["unknown outcomes told by their keys"]) > 0
    assert sum(report.deeds.values()) > 0
    assert report.load["jobs published"] > 0

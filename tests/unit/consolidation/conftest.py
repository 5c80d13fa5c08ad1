"""The world that tests of jobs share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.job_world import JobWorld


@pytest.fixture
def world() -> Iterator[JobWorld]:
    """A fresh company with two memories and no jobs."""
    made = JobWorld()
    yield made
    made.close()

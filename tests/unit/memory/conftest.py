"""The world that tests of memory share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.memory_world import MemoryWorld


@pytest.fixture
def world() -> Iterator[MemoryWorld]:
    """A fresh company with an empty memory."""
    made = MemoryWorld()
    yield made
    made.close()

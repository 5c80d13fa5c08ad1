"""A company's memory and the retrieval service over it on a real socket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.memory_world import MemoryWorld
from tests.harness.retrieval_server import RetrievalClient, running_retrieval


@pytest.fixture
def world() -> Iterator[MemoryWorld]:
    """A company with a memory."""
    made = MemoryWorld()
    yield made
    made.close()


@pytest.fixture
def client(world: MemoryWorld, tmp_path: Path) -> Iterator[RetrievalClient]:
    """The service over it."""
    with running_retrieval(world, tmp_path) as connected:
        yield connected

"""A company's memory and the services over it on a real socket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.memory_server import MemoryClient, running_memory
from tests.harness.memory_world import MemoryWorld


@pytest.fixture
def world() -> Iterator[MemoryWorld]:
    made = MemoryWorld(slot_count=64)
    yield made
    made.close()


@pytest.fixture
def client(world: MemoryWorld, tmp_path: Path) -> Iterator[MemoryClient]:
    with running_memory(world, tmp_path, dimensions_max=8) as connected:
        yield connected

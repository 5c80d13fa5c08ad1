"""The engines that a store can be made on, by the name that its marker carries."""

from __future__ import annotations

from typing import Final

from services.storage.engine import EngineFactory
from services.storage.engine_leveldb import LevelDBEngineFactory
from services.storage.engine_memory import MemoryEngineFactory

ENGINES: Final[dict[str, EngineFactory]] = {
    factory.name: factory for factory in (LevelDBEngineFactory(), MemoryEngineFactory())
}
"""One row for each engine. Only durable engines can be laid in a data directory."""

"""The services of memory on a real socket, over a store in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc

from services.memory.__main__ import register_servicers
from services.runtime.channel import open_channel
from services.runtime.server import Registry, RunningServer
from services.workspace.company_access import CompanyAccess
from tests.harness.memory_world import VERIFIER_KEY, MemoryWorld
from waggle.memory.v1 import import_service_pb2_grpc, memory_service_pb2_grpc, relation_service_pb2_grpc


@dataclass(frozen=True, slots=True)
class MemoryClient:
    """Stubs of the three services over one channel."""

    channel: grpc.Channel
    memory: memory_service_pb2_grpc.MemoryServiceStub
    relations: relation_service_pb2_grpc.RelationServiceStub
    imports: import_service_pb2_grpc.ImportServiceStub


@contextmanager
def running_memory(world: MemoryWorld, directory: Path, *, dimensions_max: int = 32_768) -> Iterator[MemoryClient]:
    """Serve a world on a Unix socket in `directory` and connect to it."""
    registry = Registry()
    company_access = CompanyAccess(world.store, world.authority, world.slots)
    register_servicers(registry, world.access, company_access, dimensions_max=dimensions_max, cursor_key=VERIFIER_KEY)
    address = f"unix:{directory}/memory.sock"
    server = RunningServer(registry, address)
    try:
        with open_channel(address) as channel:
            yield MemoryClient(
                channel,
                memory_service_pb2_grpc.MemoryServiceStub(channel),
                relation_service_pb2_grpc.RelationServiceStub(channel),
                import_service_pb2_grpc.ImportServiceStub(channel),
            )
    finally:
        server.drain(1.0)

"""Run the memory service: `python -m services.memory --listen unix:/path/to.sock`.

The environment gives what `StoreSettings` and `WorkspaceSettings` name.
"""

from __future__ import annotations

import sys

from services.identity.store_access import open_store_access
from services.memory.access import PartitionAccess
from services.memory.servicer import MemoryServicer
from services.memory.servicer_company import CompanyMemoryServicer
from services.memory.servicer_import import ImportServicer
from services.memory.servicer_relations import RelationServicer
from services.runtime.admission import AdmissionPool
from services.runtime.main import Process, run_service
from services.runtime.server import Registry
from services.runtime.settings import read_settings
from services.workspace.company_access import CompanyAccess
from services.workspace.settings import WorkspaceSettings
from waggle.memory.v1 import (
    company_memory_service_pb2_grpc,
    import_service_pb2_grpc,
    memory_service_pb2_grpc,
    relation_service_pb2_grpc,
)


def build(registry: Registry, process: Process) -> None:
    """Wire the service.

    Raises:
        CannotStart: A setting is invalid or the verifier key cannot be read.
    """
    settings = read_settings(WorkspaceSettings, process.environment)
    access = open_store_access(registry, process)
    slots = AdmissionPool(settings.max_concurrent_retrievals)
    register_servicers(
        registry,
        PartitionAccess(access.store, access.authority, slots),
        CompanyAccess(access.store, access.authority, slots),
        dimensions_max=settings.max_embedding_dimensions,
        cursor_key=access.verifier_key,
    )


def register_servicers(
    registry: Registry,
    access: PartitionAccess,
    company_access: CompanyAccess,
    *,
    dimensions_max: int,
    cursor_key: bytes,
) -> None:
    """Add the four services of this process to a registry."""
    memory = MemoryServicer(access, dimensions_max=dimensions_max, cursor_key=cursor_key)
    registry.add(memory_service_pb2_grpc.add_MemoryServiceServicer_to_server, memory)
    registry.add(relation_service_pb2_grpc.add_RelationServiceServicer_to_server, RelationServicer(access))
    imports = ImportServicer(access, dimensions_max=dimensions_max)
    registry.add(import_service_pb2_grpc.add_ImportServiceServicer_to_server, imports)
    company = CompanyMemoryServicer(company_access, cursor_key=cursor_key)
    registry.add(company_memory_service_pb2_grpc.add_CompanyMemoryServiceServicer_to_server, company)


def main(arguments: list[str] | None = None) -> int:
    """Serve until told to stop, and return the exit code; see `run_process` for the arguments."""
    return run_service("memory", build, arguments, description="The memory service.")


if __name__ == "__main__":
    sys.exit(main())

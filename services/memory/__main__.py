"""Run the memory service: `python -m services.memory --listen unix:/path/to.sock`.

Settings come from the environment; see `services.memory.settings`.
"""

from __future__ import annotations

import argparse
import sys

from services.identity.authority import Authority
from services.identity.verifier_key import VerifierKeyProblem, load_verifier_key
from services.memory.access import PartitionAccess
from services.memory.servicer import MemoryServicer
from services.memory.servicer_company import CompanyMemoryServicer
from services.memory.servicer_import import ImportServicer
from services.memory.servicer_relations import RelationServicer
from services.memory.settings import settings_from_environment
from services.runtime.admission import AdmissionPool
from services.runtime.server import CannotStart, Registry, serve
from services.storage.client import GrpcStore
from services.workspace.company_access import CompanyAccess
from waggle.memory.v1 import (
    company_memory_service_pb2_grpc,
    import_service_pb2_grpc,
    memory_service_pb2_grpc,
    relation_service_pb2_grpc,
)


def build(registry: Registry) -> None:
    """Wire the service from the environment.

    Raises:
        CannotStart: A setting is invalid or the verifier key cannot be read.
    """
    try:
        settings = settings_from_environment()
        key = load_verifier_key(settings.verifier_key_file)
    except (ValueError, VerifierKeyProblem) as error:
        raise CannotStart(str(error)) from error
    store = GrpcStore(settings.storage_address)
    registry.on_close(store.close)
    registry.ready_when(lambda: bool(store.status().incarnation))
    authority, slots = Authority(key), AdmissionPool(settings.slot_count)
    register_servicers(
        registry,
        PartitionAccess(store, authority, slots),
        CompanyAccess(store, authority, slots),
        dimensions_max=settings.dimensions_max,
        cursor_key=key,
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
    """Serve until told to stop, and return the exit code.

    Args:
        arguments: The command line without the program's name; None for that of the process.
    """
    parser = argparse.ArgumentParser(prog="python -m services.memory", description="The memory service.")
    parser.add_argument("--listen", required=True, help="unix:/path/to.sock or host:port")
    parsed = parser.parse_args(arguments)
    return serve("memory", build, listen=parsed.listen)


if __name__ == "__main__":
    sys.exit(main())

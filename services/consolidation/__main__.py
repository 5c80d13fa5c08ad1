"""Run the consolidation service: `python -m services.consolidation --listen unix:/path/to.sock`.

The environment gives what `StoreSettings` and `AdmissionSettings` name.
"""

from __future__ import annotations

import sys

from services.consolidation.access import JobAccess
from services.consolidation.servicer import ConsolidationServicer
from services.consolidation.servicer_supervision import SupervisionServicer
from services.identity.store_access import open_store_access
from services.runtime.admission import AdmissionPool, AdmissionSettings
from services.runtime.main import Process, run_service
from services.runtime.server import Registry
from services.runtime.settings import read_settings
from services.workspace.company_access import CompanyAccess
from waggle.consolidation.v1 import consolidation_service_pb2_grpc, supervision_service_pb2_grpc


def build(registry: Registry, process: Process) -> None:
    """Wire the service.

    Raises:
        CannotStart: A setting is invalid or the verifier key cannot be read.
    """
    slots = AdmissionPool(read_settings(AdmissionSettings, process.environment).max_concurrent_retrievals)
    access = open_store_access(registry, process)
    servicer = ConsolidationServicer(JobAccess(access.store, access.authority, slots))
    registry.add(consolidation_service_pb2_grpc.add_ConsolidationServiceServicer_to_server, servicer)
    supervision = SupervisionServicer(CompanyAccess(access.store, access.authority, slots))
    registry.add(supervision_service_pb2_grpc.add_SupervisionServiceServicer_to_server, supervision)


def main(arguments: list[str] | None = None) -> int:
    """Serve until told to stop, and return the exit code; see `run_process` for the arguments."""
    return run_service("consolidation", build, arguments, description="The consolidation service.")


if __name__ == "__main__":
    sys.exit(main())

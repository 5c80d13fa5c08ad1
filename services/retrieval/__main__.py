"""Run the retrieval service: `python -m services.retrieval --listen unix:/path/to.sock`.

The environment gives what `StoreSettings` and `services.retrieval.settings` name.
"""

from __future__ import annotations

import os
import sys

# One search is one matrix-vector product: a pool of threads behind it gains little for one caller and costs much when
# several search at once. The library reads this when numpy is first imported, so it stands before all other imports.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from services.identity.authority import Authority
from services.identity.store_access import open_store_access
from services.retrieval.access import RetrievalAccess
from services.retrieval.company_access import CompanyRetrievalAccess
from services.retrieval.convert_answers import ProtobufAnswerEncoder
from services.retrieval.replica import Replica
from services.retrieval.servicer import RetrievalServicer
from services.retrieval.servicer_company import CompanyRetrievalServicer
from services.retrieval.servicer_replica import ReplicaServicer
from services.retrieval.settings import Settings
from services.runtime.admission import AdmissionPool
from services.runtime.main import Process, run_service
from services.runtime.server import Registry
from services.runtime.settings import read_settings
from services.storage.contract import Store
from waggle.retrieval.v1 import (
    company_retrieval_service_pb2_grpc,
    replica_service_pb2_grpc,
    retrieval_service_pb2_grpc,
)


def build(registry: Registry, process: Process) -> None:
    """Wire the service.

    Raises:
        CannotStart: A setting is invalid or the verifier key cannot be read.
    """
    settings = read_settings(Settings, process.environment)
    access = open_store_access(registry, process)
    register_servicers(registry, access.store, access.authority, settings)


def register_servicers(registry: Registry, store: Store, authority: Authority, settings: Settings) -> None:
    """Add the services of this process to a registry."""
    replica = Replica(store, ProtobufAnswerEncoder(), memory_bytes_max=settings.replica_memory_bytes)
    slots = AdmissionPool(settings.max_concurrent_retrievals)
    servicer = RetrievalServicer(RetrievalAccess(store, authority, slots, replica), settings)
    registry.add(retrieval_service_pb2_grpc.add_RetrievalServiceServicer_to_server, servicer)
    company_access = CompanyRetrievalAccess(store, authority, slots, replica)
    company = CompanyRetrievalServicer(company_access)
    registry.add(company_retrieval_service_pb2_grpc.add_CompanyRetrievalServiceServicer_to_server, company)
    registry.add(replica_service_pb2_grpc.add_ReplicaServiceServicer_to_server, ReplicaServicer(company_access))


def main(arguments: list[str] | None = None) -> int:
    """Serve until told to stop, and return the exit code; see `run_process` for the arguments."""
    return run_service("retrieval", build, arguments, description="The retrieval service.")


if __name__ == "__main__":
    sys.exit(main())

"""Run the retrieval service: `python -m services.retrieval --listen unix:/path/to.sock`.

Settings come from the environment; see `services.retrieval.settings`.
"""

from __future__ import annotations

import argparse
import os
import sys

# One search is one matrix-vector product: a pool of threads behind it gains little for one caller and costs much when
# several search at once. The library reads this when numpy is first imported, so it stands before all other imports.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from services.identity.authority import Authority
from services.identity.verifier_key import VerifierKeyProblem, load_verifier_key
from services.retrieval.access import RetrievalAccess
from services.retrieval.company_access import CompanyRetrievalAccess
from services.retrieval.convert_answers import ProtobufAnswerEncoder
from services.retrieval.replica import Replica
from services.retrieval.servicer import RetrievalServicer
from services.retrieval.servicer_company import CompanyRetrievalServicer
from services.retrieval.settings import Settings, addresses_from_environment, settings_from_environment
from services.runtime.admission import AdmissionPool
from services.runtime.server import CannotStart, Registry, serve
from services.storage.client import GrpcStore
from services.storage.contract import Store
from waggle.retrieval.v1 import company_retrieval_service_pb2_grpc, retrieval_service_pb2_grpc


def build(registry: Registry) -> None:
    """Wire the service from the environment.

    Raises:
        CannotStart: A setting is invalid or the verifier key cannot be read.
    """
    settings = settings_from_environment()
    addresses = addresses_from_environment()
    try:
        authority = Authority(load_verifier_key(addresses.verifier_key_file))
    except VerifierKeyProblem as error:
        raise CannotStart(str(error)) from error
    store = GrpcStore(addresses.storage)
    registry.on_close(store.close)
    registry.ready_when(lambda: bool(store.status().incarnation))
    register_servicers(registry, store, authority, settings)


def register_servicers(registry: Registry, store: Store, authority: Authority, settings: Settings) -> None:
    """Add the services of this process to a registry."""
    replica = Replica(store, ProtobufAnswerEncoder(), memory_bytes_max=settings.replica_memory_bytes)
    slots = AdmissionPool(settings.max_concurrent_retrievals)
    servicer = RetrievalServicer(RetrievalAccess(store, authority, slots, replica), settings)
    registry.add(retrieval_service_pb2_grpc.add_RetrievalServiceServicer_to_server, servicer)
    company = CompanyRetrievalServicer(CompanyRetrievalAccess(store, authority, slots, replica))
    registry.add(company_retrieval_service_pb2_grpc.add_CompanyRetrievalServiceServicer_to_server, company)


def main(arguments: list[str] | None = None) -> int:
    """Serve until told to stop, and return the exit code.

    Args:
        arguments: The command line without the program's name; None for that of the process.
    """
    parser = argparse.ArgumentParser(prog="python -m services.retrieval", description="The retrieval service.")
    parser.add_argument("--listen", required=True, help="unix:/path/to.sock or host:port")
    parsed = parser.parse_args(arguments)
    return serve("retrieval", build, listen=parsed.listen)


if __name__ == "__main__":
    sys.exit(main())

"""Run the consolidation service: `python -m services.consolidation --listen unix:/path/to.sock`.

Settings come from the environment; see `services.consolidation.settings`.
"""

from __future__ import annotations

import argparse
import sys

from services.consolidation.access import JobAccess
from services.consolidation.servicer import ConsolidationServicer
from services.consolidation.servicer_supervision import SupervisionServicer
from services.consolidation.settings import settings_from_environment
from services.identity.authority import Authority
from services.identity.verifier_key import VerifierKeyProblem, load_verifier_key
from services.runtime.admission import AdmissionPool
from services.runtime.server import CannotStart, Registry, serve
from services.storage.client import GrpcStore
from services.workspace.company_access import CompanyAccess
from waggle.consolidation.v1 import consolidation_service_pb2_grpc, supervision_service_pb2_grpc


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
    servicer = ConsolidationServicer(JobAccess(store, authority, slots))
    registry.add(consolidation_service_pb2_grpc.add_ConsolidationServiceServicer_to_server, servicer)
    supervision = SupervisionServicer(CompanyAccess(store, authority, slots))
    registry.add(supervision_service_pb2_grpc.add_SupervisionServiceServicer_to_server, supervision)


def main(arguments: list[str] | None = None) -> int:
    """Serve until told to stop, and return the exit code.

    Args:
        arguments: The command line without the program's name; None for that of the process.
    """
    parser = argparse.ArgumentParser(prog="python -m services.consolidation", description="The consolidation service.")
    parser.add_argument("--listen", required=True, help="unix:/path/to.sock or host:port")
    parsed = parser.parse_args(arguments)
    return serve("consolidation", build, listen=parsed.listen)


if __name__ == "__main__":
    sys.exit(main())

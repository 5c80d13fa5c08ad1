"""Run the identity service: `python -m services.identity --listen unix:/path/to.sock`.

The environment gives WAGGLE_STORAGE_ADDRESS and WAGGLE_VERIFIER_KEY_FILE.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Final

from services.identity import verifier_key
from services.identity.authority import Authority
from services.identity.identity_calls import IdentityCalls
from services.identity.servicer import IdentityServicer
from services.identity.servicer_administration import AdministrationServicer
from services.identity.servicer_agents import AgentServicer
from services.identity.verifier_key import VerifierKeyProblem, load_verifier_key
from services.runtime.server import CannotStart, Registry, serve
from services.runtime.version import VERSION
from services.storage.client import GrpcStore
from waggle.identity.v1 import administration_service_pb2_grpc, agent_service_pb2_grpc, identity_service_pb2_grpc

STORAGE_ADDRESS_VARIABLE: Final = "WAGGLE_STORAGE_ADDRESS"


def build(registry: Registry) -> None:
    """Wire the service from the environment.

    Raises:
        CannotStart: A setting is missing or the verifier key cannot be read.
    """
    try:
        key = load_verifier_key(Path(_required(verifier_key.ENVIRONMENT_VARIABLE)))
    except VerifierKeyProblem as error:
        raise CannotStart(str(error)) from error
    store = GrpcStore(_required(STORAGE_ADDRESS_VARIABLE))
    registry.on_close(store.close)
    registry.ready_when(lambda: bool(store.status().incarnation))
    calls = IdentityCalls(store, key, Authority(key))
    registry.add(
        identity_service_pb2_grpc.add_IdentityServiceServicer_to_server, IdentityServicer(store, key, version=VERSION)
    )
    registry.add(agent_service_pb2_grpc.add_AgentServiceServicer_to_server, AgentServicer(calls))
    registry.add(
        administration_service_pb2_grpc.add_AdministrationServiceServicer_to_server, AdministrationServicer(calls)
    )


def _required(name: str) -> str:
    value = os.environ.get(name, "")
    if not value:
        raise CannotStart(f"{name} must be set")
    return value


def main(arguments: list[str] | None = None) -> int:
    """Serve until told to stop, and return the exit code.

    Args:
        arguments: The command line without the program's name; None for that of the process.
    """
    parser = argparse.ArgumentParser(prog="python -m services.identity", description="The identity service.")
    parser.add_argument("--listen", required=True, help="unix:/path/to.sock or host:port")
    parsed = parser.parse_args(arguments)
    return serve("identity", build, listen=parsed.listen)


if __name__ == "__main__":
    sys.exit(main())

"""Run the identity service: `python -m services.identity --listen unix:/path/to.sock`.

The environment gives what `StoreSettings` names.
"""

from __future__ import annotations

import sys

from services.identity.identity_calls import IdentityCalls
from services.identity.login_admission import LoginAdmission
from services.identity.logins import Logins
from services.identity.password_workers import PasswordWorkers
from services.identity.passwords import Passwords
from services.identity.servicer import IdentityServicer
from services.identity.servicer_administration import AdministrationServicer
from services.identity.servicer_agents import AgentServicer
from services.identity.servicer_login import LoginServicer
from services.identity.servicer_login_accounts import LoginAccountServicer
from services.identity.store_access import open_store_access
from services.runtime.clock import MonotonicClock
from services.runtime.main import Process, run_service
from services.runtime.server import Registry
from services.runtime.version import VERSION
from waggle.identity.v1 import (
    administration_service_pb2_grpc,
    agent_service_pb2_grpc,
    identity_service_pb2_grpc,
    login_account_service_pb2_grpc,
    login_service_pb2_grpc,
)


def build(registry: Registry, process: Process) -> None:
    """Wire the service.

    Raises:
        CannotStart: A setting is missing or the verifier key cannot be read.
    """
    access = open_store_access(registry, process)
    calls = IdentityCalls(access.store, access.verifier_key, access.authority)
    registry.add(
        identity_service_pb2_grpc.add_IdentityServiceServicer_to_server,
        IdentityServicer(access.store, access.verifier_key, version=VERSION),
    )
    registry.add(agent_service_pb2_grpc.add_AgentServiceServicer_to_server, AgentServicer(calls))
    registry.add(
        administration_service_pb2_grpc.add_AdministrationServiceServicer_to_server, AdministrationServicer(calls)
    )
    passwords, workers = Passwords(calls.verifier_key), PasswordWorkers()
    registry.on_close(workers.close)
    logins = Logins(
        calls.store, calls.verifier_key, calls.authority, passwords, workers, LoginAdmission(MonotonicClock())
    )
    registry.add(login_service_pb2_grpc.add_LoginServiceServicer_to_server, LoginServicer(logins))
    registry.add(
        login_account_service_pb2_grpc.add_LoginAccountServiceServicer_to_server,
        LoginAccountServicer(calls, passwords, workers),
    )


def main(arguments: list[str] | None = None) -> int:
    """Serve until told to stop, and return the exit code; see `run_process` for the arguments."""
    return run_service("identity", build, arguments, description="The identity service.")


if __name__ == "__main__":
    sys.exit(main())

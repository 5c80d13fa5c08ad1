"""AdministrationService: global credentials and companies."""

from __future__ import annotations

from typing import Any, Final

import grpc

from services.domain import keys
from services.identity.authority import GlobalPrincipal
from services.identity.convert import credential_message
from services.identity.convert_administration import (
    global_credential_message,
    global_spec_from,
    registration_message,
)
from services.identity.credential_commands import committed_change, make_key
from services.identity.credentials import Credential
from services.identity.directory_page import DirectoryCursors, Page
from services.identity.global_commands import (
    GlobalCommand,
    IssueGlobal,
    RevokeGlobal,
    RotateGlobal,
    apply_global_command,
    committed_global_change,
    list_globals,
    make_global_key,
    read_global,
)
from services.identity.global_credentials import TENANT_ADMIN, TENANT_CREATE, TENANT_INSPECT, GlobalCredential
from services.identity.identity_calls import IdentityCalls, page_cursor, page_limit
from services.identity.tenants import (
    CreateTenant,
    IssueTenantAdmin,
    TenantCommand,
    apply_tenant_command,
    list_tenants,
    read_tenant,
)
from services.runtime.identifiers import new_uuid
from services.storage.transaction import Transaction
from waggle.identity.v1 import administration_pb2
from waggle.identity.v1 import administration_service_pb2 as pb
from waggle.identity.v1 import administration_service_pb2_grpc as pb_grpc

CONTRACT_VERSION: Final = 1


class AdministrationServicer(pb_grpc.AdministrationServiceServicer):
    """Serves global administration."""

    def __init__(self, calls: IdentityCalls) -> None:
        self._calls = calls
        self._credential_cursors = DirectoryCursors(calls.verifier_key, "global_credentials", None)
        self._tenant_cursors = DirectoryCursors(calls.verifier_key, "tenants", None)

    def GetGlobalIdentity(
        self, request: pb.GetGlobalIdentityRequest, context: grpc.ServicerContext
    ) -> pb.GetGlobalIdentityResponse:
        """Say who the caller is. Needs no capability."""
        credential = self._calls.administration(context, lambda _transaction, principal: principal.credential)
        return pb.GetGlobalIdentityResponse(
            contract_version=CONTRACT_VERSION, credential=global_credential_message(credential)
        )

    def IssueGlobalCredential(
        self, request: pb.IssueGlobalCredentialRequest, context: grpc.ServicerContext
    ) -> pb.IssueGlobalCredentialResponse:
        """Make a global credential."""
        key = make_global_key(self._calls.verifier_key, new_uuid())
        credential = self._changed(context, IssueGlobal(spec=global_spec_from(request.spec), key=key))
        return pb.IssueGlobalCredentialResponse(
            contract_version=CONTRACT_VERSION, credential=credential, secret=key.token.text
        )

    def ListGlobalCredentials(
        self, request: pb.ListGlobalCredentialsRequest, context: grpc.ServicerContext
    ) -> pb.ListGlobalCredentialsResponse:
        """Read one page of all global credentials."""

        def run(transaction: Transaction, _principal: GlobalPrincipal) -> Page[GlobalCredential]:
            after = self._credential_cursors.decode(page_cursor(request))
            return list_globals(transaction, limit=page_limit(request), after=after)

        page = self._calls.administration(context, run, is_master=True, pin=True)
        return pb.ListGlobalCredentialsResponse(
            contract_version=CONTRACT_VERSION,
            page=pb.GlobalCredentialPage(
                items=map(global_credential_message, page.items),
                next_cursor=self._credential_cursors.encode(page.next_after),
            ),
        )

    def GetGlobalCredential(
        self, request: pb.GetGlobalCredentialRequest, context: grpc.ServicerContext
    ) -> pb.GetGlobalCredentialResponse:
        """Read one global credential."""

        def run(transaction: Transaction, principal: GlobalPrincipal) -> GlobalCredential:
            return read_global(transaction, principal, request.credential_id)

        wanted = [keys.global_credential_key(request.credential_id)]
        credential = self._calls.administration(context, run, wanted=wanted)
        return pb.GetGlobalCredentialResponse(
            contract_version=CONTRACT_VERSION, credential=global_credential_message(credential)
        )

    def RotateGlobalCredential(
        self, request: pb.RotateGlobalCredentialRequest, context: grpc.ServicerContext
    ) -> pb.RotateGlobalCredentialResponse:
        """Replace the secret."""
        key = make_global_key(self._calls.verifier_key, request.credential_id)
        command = RotateGlobal(
            credential_id=request.credential_id, expected_revision=request.expected_revision, key=key
        )
        return pb.RotateGlobalCredentialResponse(
            contract_version=CONTRACT_VERSION, credential=self._changed(context, command), secret=key.token.text
        )

    def RevokeGlobalCredential(
        self, request: pb.RevokeGlobalCredentialRequest, context: grpc.ServicerContext
    ) -> pb.RevokeGlobalCredentialResponse:
        """End a global credential."""
        command = RevokeGlobal(credential_id=request.credential_id, expected_revision=request.expected_revision)
        return pb.RevokeGlobalCredentialResponse(
            contract_version=CONTRACT_VERSION, credential=self._changed(context, command)
        )

    def CreateTenant(self, request: pb.CreateTenantRequest, context: grpc.ServicerContext) -> pb.CreateTenantResponse:
        """Make a company and its first administrator."""
        key = make_key(self._calls.verifier_key, new_uuid())
        command = CreateTenant(
            tenant_id=request.tenant_id,
            subject_id=request.subject_id,
            display_name=request.display_name if request.HasField("display_name") else None,
            key=key,
        )
        credential, tenant = self._appointed(context, command, TENANT_CREATE)
        return pb.CreateTenantResponse(
            contract_version=CONTRACT_VERSION,
            tenant=registration_message(tenant["registration"]),
            credential=credential_message(credential),
            secret=key.token.text,
        )

    def ListTenants(self, request: pb.ListTenantsRequest, context: grpc.ServicerContext) -> pb.ListTenantsResponse:
        """Read one page of all companies."""

        def run(transaction: Transaction, _principal: GlobalPrincipal) -> Page[dict[str, Any]]:
            after = self._tenant_cursors.decode(page_cursor(request))
            return list_tenants(transaction, limit=page_limit(request), after=after)

        page = self._calls.administration(context, run, capabilities=(TENANT_INSPECT,), pin=True)
        entries = [
            pb.TenantEntry(tenant_id=item["tenant_id"], registration=registration_message(item["registration"]))
            for item in page.items
        ]
        return pb.ListTenantsResponse(
            contract_version=CONTRACT_VERSION,
            page=pb.TenantPage(items=entries, next_cursor=self._tenant_cursors.encode(page.next_after)),
        )

    def GetTenant(self, request: pb.GetTenantRequest, context: grpc.ServicerContext) -> pb.GetTenantResponse:
        """Read one company."""

        def run(transaction: Transaction, _principal: GlobalPrincipal) -> dict[str, Any]:
            return read_tenant(transaction, request.tenant_id)

        wanted = [keys.company_key(request.tenant_id)]
        tenant = self._calls.administration(context, run, capabilities=(TENANT_INSPECT,), wanted=wanted)
        return pb.GetTenantResponse(
            contract_version=CONTRACT_VERSION,
            tenant_id=tenant["tenant_id"],
            registration=registration_message(tenant["registration"]),
        )

    def IssueTenantAdmin(
        self, request: pb.IssueTenantAdminRequest, context: grpc.ServicerContext
    ) -> pb.IssueTenantAdminResponse:
        """Appoint another administrator of a company."""
        key = make_key(self._calls.verifier_key, new_uuid())
        command = IssueTenantAdmin(tenant_id=request.tenant_id, subject_id=request.subject_id, key=key)
        credential, _tenant = self._appointed(context, command, TENANT_ADMIN)
        return pb.IssueTenantAdminResponse(
            contract_version=CONTRACT_VERSION, credential=credential_message(credential), secret=key.token.text
        )

    def _changed(self, context: grpc.ServicerContext, command: GlobalCommand) -> administration_pb2.GlobalCredential:
        credential = self._calls.administration(
            context,
            lambda transaction, principal: apply_global_command(transaction, principal, command),
            committed=lambda transaction: committed_global_change(transaction, command),
            wanted=[keys.global_credential_key(command.credential_id)],
        )
        return global_credential_message(credential)

    def _appointed(
        self, context: grpc.ServicerContext, command: TenantCommand, capability: str
    ) -> tuple[Credential, dict[str, Any]]:
        def committed(transaction: Transaction) -> tuple[Credential, dict[str, Any]] | None:
            credential = committed_change(transaction, command)
            return None if credential is None else (credential, read_tenant(transaction, command.tenant_id))

        def run(transaction: Transaction, principal: GlobalPrincipal) -> tuple[Credential, dict[str, Any]]:
            credential = apply_tenant_command(transaction, principal, command)
            return credential, read_tenant(transaction, command.tenant_id)

        wanted = [keys.credential_key(command.credential_id), keys.company_key(command.tenant_id)]
        return self._calls.administration(context, run, capabilities=(capability,), committed=committed, wanted=wanted)

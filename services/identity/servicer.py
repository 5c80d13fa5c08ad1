"""IdentityService: each method reads its request, runs one transaction and answers."""

from __future__ import annotations

from typing import Final

import grpc

from services.domain import keys
from services.domain.scope import IDENTITY_PARTITION
from services.identity.authority import Authority, token_keys
from services.identity.call_token import call_token
from services.identity.convert import credential_message, scope_authority_from, spec_from
from services.identity.credential_commands import (
    CredentialCommand,
    IssueCredential,
    ReplaceScopeAuthority,
    RevokeCredential,
    RotateCredential,
    apply_command,
    committed_change,
    make_key,
    read_credential,
)
from services.identity.credentials import CREDENTIAL_ADMIN, Credential
from services.identity.directory_page import LIMIT_DEFAULT, DirectoryCursors, Page
from services.identity.list_credentials import list_credentials
from services.runtime.identifiers import new_uuid
from services.storage.contract import Store
from services.storage.transaction import Transaction, run_transaction
from waggle.identity.v1 import credentials_pb2
from waggle.identity.v1 import identity_service_pb2 as pb
from waggle.identity.v1 import identity_service_pb2_grpc as pb_grpc

CONTRACT_VERSION: Final = 1
_ADMIN: Final = (CREDENTIAL_ADMIN,)


class IdentityServicer(pb_grpc.IdentityServiceServicer):
    """Serves a store.

    Args:
        store: Where credentials live.
        verifier_key: Key of the verifiers, 32 bytes.
        version: Version of Waggle, for GetHealth.
    """

    def __init__(self, store: Store, verifier_key: bytes, *, version: str) -> None:
        self._store = store
        self._verifier_key = verifier_key
        self._authority = Authority(verifier_key)
        self._version = version

    def GetHealth(self, request: pb.GetHealthRequest, context: grpc.ServicerContext) -> pb.GetHealthResponse:
        """Answer for the suite: storage must answer, since nothing works without it."""
        self._store.status()
        return pb.GetHealthResponse(
            contract_version=CONTRACT_VERSION, status=pb.HEALTH_STATUS_HEALTHY, version=self._version
        )

    def GetIdentity(self, request: pb.GetIdentityRequest, context: grpc.ServicerContext) -> pb.GetIdentityResponse:
        """Say who the caller is. Needs no capability."""
        token = call_token(context)

        def run(transaction: Transaction) -> Credential:
            return self._authority.authorize(transaction, token).credential

        credential = run_transaction(self._store, run, prefetch=self._authority.first_round(token, None).keys)
        return pb.GetIdentityResponse(contract_version=CONTRACT_VERSION, credential=credential_message(credential))

    def IssueCredential(
        self, request: pb.IssueCredentialRequest, context: grpc.ServicerContext
    ) -> pb.IssueCredentialResponse:
        """Make a credential of the caller's company."""
        command = IssueCredential(spec=spec_from(request.spec), key=make_key(self._verifier_key, new_uuid()))
        return pb.IssueCredentialResponse(
            contract_version=CONTRACT_VERSION,
            credential=self._changed(context, command),
            secret=command.key.token.text,
        )

    def ListCredentials(
        self, request: pb.ListCredentialsRequest, context: grpc.ServicerContext
    ) -> pb.ListCredentialsResponse:
        """Read one page of the caller's company."""
        token = call_token(context)
        limit = request.limit if request.HasField("limit") else LIMIT_DEFAULT
        cursor = request.cursor if request.HasField("cursor") else None

        def run(transaction: Transaction) -> tuple[Page[Credential], str | None]:
            principal = self._authority.authorize(transaction, token, capabilities=_ADMIN)
            cursors = DirectoryCursors(self._verifier_key, "credentials", principal.company_id)
            page = list_credentials(transaction, principal, limit=limit, after=cursors.decode(cursor))
            return page, cursors.encode(page.next_after)

        prefetch = self._authority.first_round(token, None).keys
        page, next_cursor = run_transaction(self._store, run, prefetch=prefetch, pin=True)
        return pb.ListCredentialsResponse(
            contract_version=CONTRACT_VERSION,
            page=pb.CredentialPage(items=map(credential_message, page.items), next_cursor=next_cursor),
        )

    def GetCredential(
        self, request: pb.GetCredentialRequest, context: grpc.ServicerContext
    ) -> pb.GetCredentialResponse:
        """Read one credential of the caller's company."""
        token = call_token(context)

        def run(transaction: Transaction) -> Credential:
            principal = self._authority.authorize(transaction, token, capabilities=_ADMIN)
            return read_credential(transaction, principal, request.credential_id)

        wanted = {*token_keys(token), keys.credential_key(request.credential_id)}
        credential = run_transaction(self._store, run, prefetch={IDENTITY_PARTITION: sorted(wanted)})
        return pb.GetCredentialResponse(contract_version=CONTRACT_VERSION, credential=credential_message(credential))

    def RotateCredential(
        self, request: pb.RotateCredentialRequest, context: grpc.ServicerContext
    ) -> pb.RotateCredentialResponse:
        """Replace the secret."""
        command = RotateCredential(
            credential_id=request.credential_id,
            expected_revision=request.expected_revision,
            key=make_key(self._verifier_key, request.credential_id),
        )
        return pb.RotateCredentialResponse(
            contract_version=CONTRACT_VERSION,
            credential=self._changed(context, command),
            secret=command.key.token.text,
        )

    def RevokeCredential(
        self, request: pb.RevokeCredentialRequest, context: grpc.ServicerContext
    ) -> pb.RevokeCredentialResponse:
        """End a credential for good."""
        command = RevokeCredential(credential_id=request.credential_id, expected_revision=request.expected_revision)
        return pb.RevokeCredentialResponse(
            contract_version=CONTRACT_VERSION, credential=self._changed(context, command)
        )

    def ReplaceScopeAuthority(
        self, request: pb.ReplaceScopeAuthorityRequest, context: grpc.ServicerContext
    ) -> pb.ReplaceScopeAuthorityResponse:
        """Replace grants and policy as a whole."""
        command = ReplaceScopeAuthority(
            credential_id=request.credential_id,
            expected_revision=request.expected_revision,
            authority=scope_authority_from(request.authority),
        )
        return pb.ReplaceScopeAuthorityResponse(
            contract_version=CONTRACT_VERSION, credential=self._changed(context, command)
        )

    def _changed(self, context: grpc.ServicerContext, command: CredentialCommand) -> credentials_pb2.Credential:
        token = call_token(context)

        def run(transaction: Transaction) -> Credential:
            committed = committed_change(transaction, command)
            if committed is not None:
                return committed
            principal = self._authority.authorize(transaction, token, capabilities=_ADMIN)
            return apply_command(transaction, principal, command)

        wanted = {*token_keys(token), keys.credential_key(command.credential_id)}
        credential = run_transaction(self._store, run, prefetch={IDENTITY_PARTITION: sorted(wanted)})
        return credential_message(credential)

"""LoginService."""

from __future__ import annotations

from typing import Final

import grpc

from services.identity.authority import bearer_token
from services.identity.convert_login import session_message
from services.identity.logins import Logins
from waggle.identity.v1 import login_service_pb2 as pb
from waggle.identity.v1 import login_service_pb2_grpc as pb_grpc

CONTRACT_VERSION: Final = 1


class LoginServicer(pb_grpc.LoginServiceServicer):
    """Serves logging in and out."""

    def __init__(self, logins: Logins) -> None:
        self._logins = logins

    def Login(self, request: pb.LoginRequest, context: grpc.ServicerContext) -> pb.LoginResponse:
        """Open a session of a company's account."""
        opened = self._logins.open(request.tenant_id, request.username, request.password)
        return pb.LoginResponse(contract_version=CONTRACT_VERSION, session=session_message(opened))

    def GlobalLogin(self, request: pb.GlobalLoginRequest, context: grpc.ServicerContext) -> pb.GlobalLoginResponse:
        """Open a session of a global account."""
        opened = self._logins.open(None, request.username, request.password)
        return pb.GlobalLoginResponse(contract_version=CONTRACT_VERSION, session=session_message(opened))

    def Logout(self, request: pb.LogoutRequest, context: grpc.ServicerContext) -> pb.LogoutResponse:
        """End the caller's session."""
        self._logins.close(bearer_token(context.invocation_metadata()))
        return pb.LogoutResponse(contract_version=CONTRACT_VERSION, logged_out=True)

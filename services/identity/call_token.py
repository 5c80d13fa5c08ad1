"""The caller's token, as a servicer takes it from a call."""

from __future__ import annotations

import grpc

from services.identity.authority import bearer_token
from services.identity.tokens import Token


def call_token(context: grpc.ServicerContext) -> Token:
    """Return the token of the call that a servicer answers.

    Raises:
        Unauthorized: The call carries none, or more than one.
    """
    return bearer_token(context.invocation_metadata())

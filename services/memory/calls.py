"""What the servicers take from a call beside its message."""

from __future__ import annotations

import grpc

from services.identity.authority import bearer_token
from services.identity.tokens import Token
from services.memory.commands import Command
from services.memory.execute_command import KeyedCommand, keyed_command
from services.runtime.identifiers import new_uuid


def call_token(context: grpc.ServicerContext) -> Token:
    """The caller's token.

    Raises:
        Unauthorized: The call carries none, or more than one.
    """
    return bearer_token(context.invocation_metadata())


def new_command(idempotency_key: str, command: Command, member: str = "") -> KeyedCommand:
    """The command as sent, with a new id for whatever it creates.

    Args:
        member: Path of the command's members in the request.
    """
    return keyed_command(idempotency_key, command, new_id=new_uuid(), member=member)

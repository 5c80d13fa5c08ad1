"""A command as it came with a call."""

from __future__ import annotations

from services.memory.commands import Command
from services.memory.execute_command import KeyedCommand, keyed_command
from services.runtime.identifiers import new_uuid


def new_command(idempotency_key: str, command: Command, member: str = "") -> KeyedCommand:
    """The command as sent, with a new id for whatever it creates.

    Args:
        member: Path of the command's members in the request.
    """
    return keyed_command(idempotency_key, command, new_id=new_uuid(), member=member)

"""Driving the streaming import: commands out, reports in, progress on the way."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import grpc

from cli.operator_transport import operator_transport
from services.domain.errors import WaggleError
from services.runtime.identifiers import new_uuid
from services.runtime.status import RpcFailure, error_from_rpc
from waggle.common.v1 import errors_pb2, scope_pb2
from waggle.json.v1 import options_pb2
from waggle.memory.v1 import import_service_pb2, import_service_pb2_grpc

MESSAGE_COMMANDS_MAX = 512
MESSAGE_BYTES_TARGET = 1024 * 1024


class ImportRefused(Exception):
    """The import ended before its end.

    Attributes:
        index: Zero-based position of the refused command, None when the stream itself was refused.
        reason: The documented code.
        member: Path of the member at fault inside the command, as `ImportRefusal` spells it; empty when none is.
        message: Explanation for people.
        committed, replayed: Commands carried out by this import, and carried out before it. They are durable.
    """

    def __init__(
        self, index: int | None, reason: str, message: str, *, member: str, committed: int, replayed: int
    ) -> None:
        super().__init__(message)
        self.index = index
        self.reason = reason
        self.member = member
        self.message = message
        self.committed = committed
        self.replayed = replayed


@dataclass(frozen=True, slots=True)
class ImportResult:
    """How an import ended.

    Attributes:
        committed: Commands carried out by this import.
        replayed: Commands that had been carried out before.
        ids: Record and relation ids in command order.
    """

    committed: int
    replayed: int
    ids: list[str]


def run_import(
    address: str,
    key: str,
    scope: scope_pb2.Scope,
    commands: Iterable[import_service_pb2.ImportCommand],
    *,
    on_progress: Callable[[int], None],
) -> ImportResult:
    """Carry out commands in one scope and wait until all are durable.

    Args:
        address: The memory service.
        key: Credential with the capabilities that the commands need.
        scope: Where.
        commands: In order; read as the stream takes them.
        on_progress: Called with the number of commands that are durable so far.

    Raises:
        ImportRefused: A command or the stream was refused; what came before its batch is durable.
    """
    metadata = (("authorization", f"Bearer {key}"), ("x-request-id", new_uuid()))
    committed = replayed = 0
    ids: list[str] = []
    with operator_transport(address).open_channel(address, "memory") as channel:
        stub = import_service_pb2_grpc.ImportServiceStub(channel)
        try:
            for response in stub.ImportCommands(_messages(scope, commands), metadata=metadata):
                if response.WhichOneof("report") == "refusal":
                    refusal = response.refusal
                    raise ImportRefused(
                        refusal.index,
                        reason_word(refusal.reason),
                        refusal.message,
                        member=refusal.member,
                        committed=refusal.committed,
                        replayed=refusal.replayed,
                    )
                progress = response.progress
                committed, replayed = progress.committed, progress.replayed
                ids.extend(outcome.id for outcome in progress.outcomes)
                on_progress(committed + replayed)
        except grpc.RpcError as error:
            failure = error_from_rpc(error)
            member = failure.member or "" if isinstance(failure, WaggleError) else ""
            raise ImportRefused(
                None,
                _failure_word(failure),
                failure.message,
                member=member,
                committed=committed,
                replayed=replayed,
            ) from error
    return ImportResult(committed, replayed, ids)


def reason_word(reason: int) -> str:
    """Return the documented code of an `ErrorReason`."""
    value = errors_pb2.DESCRIPTOR.enum_types_by_name["ErrorReason"].values_by_number.get(reason)
    word: str = value.GetOptions().Extensions[options_pb2.word] if value is not None else ""
    return word or "internal_error"


def _failure_word(failure: WaggleError | RpcFailure) -> str:
    return failure.reason if isinstance(failure, WaggleError) else failure.code.name.lower()


def _messages(
    scope: scope_pb2.Scope, commands: Iterable[import_service_pb2.ImportCommand]
) -> Iterator[import_service_pb2.ImportCommandsRequest]:
    yield import_service_pb2.ImportCommandsRequest(
        opening=import_service_pb2.ImportOpening(contract_version=1, scope=scope)
    )
    remaining = iter(commands)
    for first in remaining:
        message = import_service_pb2.ImportCommandsRequest(commands=[first])
        size = first.ByteSize()
        for command in itertools.islice(remaining, MESSAGE_COMMANDS_MAX - 1):
            message.commands.append(command)
            size += command.ByteSize()
            if size >= MESSAGE_BYTES_TARGET:
                break
        yield message

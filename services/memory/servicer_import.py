"""ImportService over gRPC."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import grpc

from services.domain.errors import InvalidRequest, WaggleError
from services.identity.call_token import call_token
from services.identity.tokens import Token
from services.memory.access import PartitionAccess
from services.memory.convert_import import import_item_from_message
from services.memory.import_admission import ImportAdmission
from services.memory.import_batches import BATCH_COMMANDS_DEFAULT, gather_batches, read_ahead
from services.memory.import_commands import ImportItem, ImportOutcome, ImportRefused, refused_item
from services.memory.import_session import ImportSession
from services.runtime.common_messages import numbers_by_word
from services.runtime.validation import validate
from services.workspace.messages import scope_from_message
from waggle.common.v1 import errors_pb2
from waggle.memory.v1 import import_service_pb2 as pb
from waggle.memory.v1 import import_service_pb2_grpc

_REASONS = numbers_by_word(errors_pb2.ErrorReason.DESCRIPTOR)
_MESSAGE_COMMANDS_MAX = 4_096


class ImportServicer(import_service_pb2_grpc.ImportServiceServicer):
    """Bulk import; see the service's proto."""

    def __init__(self, access: PartitionAccess, *, dimensions_max: int) -> None:
        self._access = access
        self._dimensions_max = dimensions_max
        self._admission = ImportAdmission()

    def ImportCommands(
        self, request_iterator: Iterator[pb.ImportCommandsRequest], context: grpc.ServicerContext
    ) -> Iterator[pb.ImportCommandsResponse]:
        """Carry out commands in batches, reporting each batch once it is durable."""
        # Before anything is waited for: whoever may not import would otherwise hold a thread until it speaks.
        token = call_token(context)
        company_id = self._access.check(token, capabilities=("memory_write",))
        with self._admission.admit(company_id):
            yield from self._import(token, request_iterator)

    def _import(
        self, token: Token, request_iterator: Iterator[pb.ImportCommandsRequest]
    ) -> Iterator[pb.ImportCommandsResponse]:
        opening, first = _opening(request_iterator)
        session = ImportSession(self._access, token, scope_from_message(opening.scope))
        batch_commands = opening.batch_commands if opening.HasField("batch_commands") else BATCH_COMMANDS_DEFAULT
        sized_items = self._sized_items(_messages(first, request_iterator))
        for batch in read_ahead(gather_batches(sized_items, batch_commands=batch_commands)):
            try:
                outcomes = session.commit(batch.items)
            except ImportRefused as refused:
                yield _refusal(session, batch.start + refused.index, refused.error)
                return
            yield _progress(session, outcomes)
        yield _progress(session, (), complete=True)

    def _sized_items(self, messages: Iterator[pb.ImportCommandsRequest]) -> Iterator[tuple[ImportItem, int]]:
        for message in messages:
            for command in message.commands:
                yield self._item(command), command.ByteSize()

    def _item(self, command: pb.ImportCommand) -> ImportItem:
        try:
            validate(command)
            return import_item_from_message(command, dimensions_max=self._dimensions_max)
        except WaggleError as error:
            return refused_item(command.idempotency_key, error)


def _opening(
    messages: Iterator[pb.ImportCommandsRequest],
) -> tuple[pb.ImportOpening, pb.ImportCommandsRequest]:
    first = next(messages, None)
    if first is None or not first.HasField("opening"):
        raise InvalidRequest("is required in the first message", member="opening")
    try:
        validate(first.opening)
    except WaggleError as error:
        error.member = "opening" if error.member is None else f"opening.{error.member}"
        raise
    return first.opening, first


def _messages(
    first: pb.ImportCommandsRequest, others: Iterator[pb.ImportCommandsRequest]
) -> Iterator[pb.ImportCommandsRequest]:
    _check_size(first)
    yield first
    for message in others:
        if message.HasField("opening"):
            raise InvalidRequest("is only allowed in the first message", member="opening")
        _check_size(message)
        yield message


def _check_size(message: pb.ImportCommandsRequest) -> None:
    if len(message.commands) > _MESSAGE_COMMANDS_MAX:
        raise InvalidRequest(f"must have at most {_MESSAGE_COMMANDS_MAX} elements", member="commands")


def _progress(
    session: ImportSession, outcomes: Sequence[ImportOutcome], *, complete: bool = False
) -> pb.ImportCommandsResponse:
    progress = session.progress
    return pb.ImportCommandsResponse(
        progress=pb.ImportProgress(
            committed=progress.committed,
            replayed=progress.replayed,
            sequence=progress.sequence,
            outcomes=[
                pb.ImportOutcome(id=outcome.id, revision=outcome.revision, replayed=outcome.is_replay)
                for outcome in outcomes
            ],
            complete=complete,
        )
    )


def _refusal(session: ImportSession, index: int, error: WaggleError) -> pb.ImportCommandsResponse:
    return pb.ImportCommandsResponse(
        refusal=pb.ImportRefusal(
            index=index,
            reason=_REASONS[error.reason],
            member=error.member or "",
            message=error.message,
            committed=session.progress.committed,
            replayed=session.progress.replayed,
        )
    )

"""Execute one command under its idempotency key, inside a transaction that is already authorized."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from services.domain import keys
from services.domain.errors import WaggleError
from services.domain.receipts import Receipt, command_digest
from services.domain.records import Author
from services.memory.assert_relation import assert_relation
from services.memory.attach_embedding import attach_embedding
from services.memory.commands import (
    AssertRelation,
    AttachEmbedding,
    Command,
    CreateRecord,
    DeleteRecord,
    DeriveRecord,
    RestoreRelation,
    RetireRelation,
    ReviewRecord,
    ReviewRelation,
    UpdateRecord,
)
from services.memory.create_record import create_record
from services.memory.delete_record import delete_record
from services.memory.derive_record import derive_record
from services.memory.restore_relation import restore_relation
from services.memory.retire_relation import retire_relation
from services.memory.review_record import review_record
from services.memory.review_relation import review_relation
from services.memory.update_record import update_record
from services.workspace.partition import MemoryPartition


@dataclass(frozen=True, slots=True)
class KeyedCommand:
    """A command under its idempotency key.

    Attributes:
        digest: Digest of the normalised command.
        new_id: Id of what the command creates, chosen before the transaction so that a rerun makes the same one.
        member: Path of the command's members in the request, for refusals; empty when they stand at the top.
    """

    idempotency_key: str
    command: Command
    digest: str
    new_id: str
    member: str = ""


def keyed_command(idempotency_key: str, command: Command, *, new_id: str, member: str = "") -> KeyedCommand:
    """The command with its digest."""
    digest = command_digest(command.family, command.normalized())
    return KeyedCommand(idempotency_key, command, digest, new_id, member)


class Outcome(NamedTuple):
    """What a command led to."""

    receipt: Receipt
    """The documented receipt."""
    is_replay: bool
    """The command had been committed before; nothing was written."""


def execute_command(partition: MemoryPartition, author: Author, keyed: KeyedCommand) -> Outcome:
    """Replay the receipt of a command that was committed before, or apply its rules and buffer all that it changes.

    A refused command leaves nothing behind, its idempotency key included: every operation checks before it writes.

    Raises:
        IdempotencyConflict: The key was used with another command.
        WaggleError: What the operation refuses.
    """
    command = keyed.command
    key = keys.receipt_key(command.family, author.subject_id, keyed.idempotency_key)
    original = partition.replayed_receipt(key, keyed.digest)
    if original is not None:
        return Outcome(original, is_replay=True)
    try:
        receipt = _apply(partition, author, keyed)
    except WaggleError as error:
        if keyed.member and error.member:
            error.member = f"{keyed.member}.{error.member}"
        raise
    partition.put_receipt(key, keyed.digest, receipt)
    return Outcome(receipt, is_replay=False)


def keys_to_read(subject_id: str, keyed: KeyedCommand) -> list[bytes]:
    """Keys of the partition that the command will usually read, for the first round of its transaction."""
    command = keyed.command
    wanted = [keys.receipt_key(command.family, subject_id, keyed.idempotency_key)]
    match command:
        case CreateRecord():
            pass
        case DeriveRecord(derivation=derivation):
            wanted += [keys.record_key(source.record_id) for source in derivation.sources]
        case AssertRelation(relation=relation):
            named = (relation.source, relation.target, *relation.evidence_sources)
            wanted += [keys.record_key(reference.record_id) for reference in named]
        case AttachEmbedding(record_id=record_id, space=space):
            wanted += [keys.record_key(record_id), keys.binding_key(record_id, space.tag)]
        case UpdateRecord(record_id=record_id) | DeleteRecord(record_id=record_id) | ReviewRecord(record_id=record_id):
            wanted.append(keys.record_key(record_id))
        case RetireRelation() | RestoreRelation() | ReviewRelation():
            wanted.append(keys.relation_key(command.relation_id))
    return wanted


def _apply(partition: MemoryPartition, author: Author, keyed: KeyedCommand) -> Receipt:
    key, digest, new_id = keyed.idempotency_key, keyed.digest, keyed.new_id
    match keyed.command:
        case CreateRecord() as command:
            return create_record(partition, author, command, idempotency_key=key, record_id=new_id)
        case AttachEmbedding() as command:
            return attach_embedding(partition, author, command, idempotency_key=key)
        case AssertRelation() as command:
            return assert_relation(partition, author, command, idempotency_key=key, digest=digest, relation_id=new_id)
        case UpdateRecord() as command:
            return update_record(partition, author, command, idempotency_key=key)
        case DeleteRecord() as command:
            return delete_record(partition, author, command, idempotency_key=key)
        case DeriveRecord() as command:
            return derive_record(partition, author, command, idempotency_key=key, record_id=new_id)
        case ReviewRecord() as command:
            return review_record(partition, author, command, idempotency_key=key)
        case RetireRelation() as command:
            return retire_relation(partition, author, command, idempotency_key=key, digest=digest)
        case RestoreRelation() as command:
            return restore_relation(partition, author, command, idempotency_key=key, digest=digest)
        case ReviewRelation() as command:
            return review_relation(partition, author, command, idempotency_key=key, digest=digest)

"""Carry out many commands of one partition in one transaction: all of them, or none and the first refusal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from services.domain import keys
from services.domain.errors import Forbidden, InvalidRequest, WaggleError
from services.domain.receipts import MEMORY_FAMILY, Receipt
from services.domain.records import Author, SourceRef
from services.memory.commands import CreateRecord, DeriveRecord
from services.memory.execute_command import KeyedCommand, execute_command
from services.workspace.partition import MemoryPartition


@dataclass(frozen=True, slots=True)
class RecordRef:
    """A record that a command names.

    Attributes:
        target: The record, or the idempotency key of the earlier command of the same import that made it.
        member: Path of the reference inside the command that has it, for example "derive_record.sources[1]".
    """

    target: SourceRef | str
    member: str

    def path_of(self, step: str) -> str:
        """Path of what stands for `record_id` or `revision` of the record."""
        return f"{self.member}.created_by" if isinstance(self.target, str) else f"{self.member}.record.{step}"


@dataclass(frozen=True, slots=True)
class ImportItem:
    """One command of an import.

    Attributes:
        refs: The records that it names by reference, in the order in which `complete` takes them.
        complete: Makes the command once those records are known. It may refuse with a WaggleError.
        reads: Keys that the command will read beside its receipt and the records of `refs`.
        space_tag: For an embedding, the tag of its space: the binding of the referenced record is read too.
        refusal: The command was refused before it came near the partition; nothing else of the item counts.
    """

    idempotency_key: str
    family: bytes
    refs: tuple[RecordRef, ...]
    complete: Callable[[Sequence[SourceRef]], KeyedCommand]
    reads: tuple[bytes, ...] = ()
    space_tag: bytes | None = None
    refusal: WaggleError | None = None

    @property
    def key_count_max(self) -> int:
        """Greatest number of keys that the command adds to those that a batch reads at once."""
        return 1 + len(self.reads) + len(self.refs) + (self.space_tag is not None)


def refused_item(idempotency_key: str, error: WaggleError) -> ImportItem:
    """A place in the import for a command that is refused whatever the state is."""

    def never(_refs: Sequence[SourceRef]) -> KeyedCommand:
        raise error

    return ImportItem(idempotency_key, MEMORY_FAMILY, (), never, refusal=error)


class ImportRefused(Exception):
    """A command was refused; nothing of its batch is written.

    Attributes:
        index: Position of the command in its batch.
        error: The documented refusal.
    """

    def __init__(self, index: int, error: WaggleError) -> None:
        super().__init__(index, error)
        self.index = index
        self.error = error


class ImportOutcome(NamedTuple):
    """What one command left: id and revision as in its receipt."""

    id: str
    revision: int
    is_replay: bool


@dataclass(slots=True)
class BatchResult:
    """What a batch left.

    Attributes:
        outcomes: One for each command, in order.
        created: The records that the batch's commands made, by idempotency key.
        first_written: Receipt of the first memory command that was not a replay; None when there was none.
    """

    outcomes: list[ImportOutcome] = field(default_factory=list)
    created: dict[str, SourceRef] = field(default_factory=dict)
    first_written: Receipt | None = None


def import_commands(
    partition: MemoryPartition,
    author: Author,
    capabilities: frozenset[str],
    items: Sequence[ImportItem],
    created: Mapping[str, SourceRef],
) -> BatchResult:
    """Carry out a batch inside a transaction that is already authorized for the scope.

    Args:
        author: The caller.
        capabilities: What the caller's credential holds.
        items: The commands, in order.
        created: The records that earlier batches of the import made, by idempotency key.

    Raises:
        ImportRefused: At the first command that is refused.
    """
    result = BatchResult()
    for index, item in enumerate(items):
        try:
            _import_command(partition, author, capabilities, item, created, result)
        except WaggleError as error:
            raise ImportRefused(index, error) from error
    return result


def _import_command(
    partition: MemoryPartition,
    author: Author,
    capabilities: frozenset[str],
    item: ImportItem,
    created: Mapping[str, SourceRef],
    result: BatchResult,
) -> None:
    if item.refusal is not None:
        raise item.refusal
    refs = [_resolved(ref, result.created, created) for ref in item.refs]
    try:
        keyed = item.complete(refs)
        command = keyed.command
        for capability in command.capabilities:
            if capability not in capabilities:
                raise Forbidden(f"the credential lacks the capability {capability}")
        receipt, is_replay = execute_command(partition, author, keyed)
    except WaggleError as error:
        error.member = _import_member(error.member, item.refs)
        raise
    result.outcomes.append(_outcome(receipt, is_replay))
    if item.family != MEMORY_FAMILY:
        return
    if type(command) in (CreateRecord, DeriveRecord):
        result.created[item.idempotency_key] = SourceRef(receipt["record_id"], receipt["revision"])
    if result.first_written is None and not is_replay:
        result.first_written = receipt


# Where a command of an import has the members that stand elsewhere in the same command sent alone.
_IMPORT_MEMBERS = (
    ("assert_relation.relation.", "assert_relation."),
    ("derive_record.derivation.", "derive_record."),
    ("attach_embedding.record_id", "attach_embedding.record.record_id"),
    ("attach_embedding.record_revision", "attach_embedding.record.revision"),
)


def _import_member(member: str | None, refs: Sequence[RecordRef]) -> str | None:
    if member is None:
        return None
    for alone, imported in _IMPORT_MEMBERS:
        if member.startswith(alone):
            member = imported + member.removeprefix(alone)
            break
    for ref in refs:
        for step in ("record_id", "revision"):
            if member == f"{ref.member}.{step}":
                return ref.path_of(step)
    return member


def _outcome(receipt: Receipt, is_replay: bool) -> ImportOutcome:
    subject = receipt.get("record_id") or receipt["relation_id"]
    return ImportOutcome(subject, receipt.get("revision") or receipt["record_revision"], is_replay)


def _resolved(ref: RecordRef, *created: Mapping[str, SourceRef]) -> SourceRef:
    if isinstance(ref.target, SourceRef):
        return ref.target
    for known in created:
        found = known.get(ref.target)
        if found is not None:
            return found
    raise InvalidRequest(
        "no earlier command of this import made a record under this key", member=ref.path_of("record_id")
    )


def batch_keys(subject_id: str, items: Sequence[ImportItem], created: Mapping[str, SourceRef]) -> list[bytes]:
    """Keys of the partition that a batch will usually read.

    Args:
        subject_id: The caller's subject.
        items: The commands.
        created: The records that earlier batches made. Those of this batch itself are not read.
    """
    wanted: dict[bytes, None] = {}
    for item in items:
        wanted.update(dict.fromkeys(_item_keys(subject_id, item, created)))
    return list(wanted)


def _item_keys(subject_id: str, item: ImportItem, created: Mapping[str, SourceRef]) -> Iterator[bytes]:
    if item.refusal is not None:
        return
    yield keys.receipt_key(item.family, subject_id, item.idempotency_key)
    yield from item.reads
    for ref in item.refs:
        known = ref.target if isinstance(ref.target, SourceRef) else created.get(ref.target)
        if known is not None:
            yield keys.record_key(known.record_id)
            if item.space_tag is not None:
                yield keys.binding_key(known.record_id, item.space_tag)

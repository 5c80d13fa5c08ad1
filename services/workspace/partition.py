"""One workspace inside a transaction, as records, bindings, reviews and relations instead of keys and bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from services.domain import keys, limits
from services.domain.canonical_json import canonical_bytes, parse_canonical
from services.domain.eligibility import DependencyCache
from services.domain.embeddings import Binding, Space, decode_binding
from services.domain.errors import InvalidRequest, StorageInconsistency
from services.domain.receipts import Receipt, encode_receipt, replayed_receipt
from services.domain.records import Record, RecordState, record_from_json, state_from_json, state_of_record
from services.domain.relations import Relation, decode_relation, relation_from_json
from services.storage.transaction import Transaction

RECORDS_IN_ONE_READ: Final = 40
"""Records that one round may ask for: together they stay below what one answer of storage may hold."""


class StoredRecord:
    """A record as it lies in storage, read only as far as it is needed.

    Attributes:
        json: The documented object, payload None for a tombstone.
        state: What eligibility needs to know of it.
    """

    __slots__ = ("_record", "json", "state")

    def __init__(self, json: dict[str, Any], state: RecordState, record: Record | None = None) -> None:
        self.json = json
        self.state = state
        self._record = record

    @property
    def record(self) -> Record:
        """The record as a value."""
        if self._record is None:
            self._record = record_from_json(self.json)
        return self._record

    @property
    def size_bytes(self) -> int:
        """Length of the stored form."""
        return self.state.size_bytes


def decode_stored_record(value: bytes) -> StoredRecord:
    """Read the stored form and keep its size."""
    json = parse_canonical(value)
    return StoredRecord(json, state_from_json(json, size_bytes=len(value)))


class MemoryPartition:
    """Typed reads and buffered writes of one workspace. Reads see the writes made before in the same transaction."""

    def __init__(self, transaction: Transaction, partition: bytes) -> None:
        """Look at a partition through a transaction.

        Args:
            transaction: The transaction of the request, or of a batch of an import.
            partition: Partition id, 32 bytes.
        """
        self.transaction = transaction
        self.id = partition
        self.now_ms = transaction.clock_ms
        self._records: dict[str, StoredRecord | None] = {}
        # A record made in this transaction cannot have bindings from before, so none are looked for.
        self._new_ids: set[str] = set()
        self._bindings: dict[bytes, Binding] = {}

    def dependency_cache(self) -> DependencyCache:
        """A fresh count of dependency work over this snapshot; one for each request."""
        return DependencyCache(self)

    # Records

    def stored_record(self, record_id: str) -> StoredRecord | None:
        """The record, tombstones included; None when no such record ever was."""
        try:
            return self._records[record_id]
        except KeyError:
            value = self.transaction.get(self.id, keys.record_key(record_id))
            stored = None if value is None else decode_stored_record(value)
            self._records[record_id] = stored
            return stored

    def load_records(self, record_ids: Iterable[str]) -> None:
        """Read records ahead, in few rounds; later look-ups find them."""
        missing = [record_id for record_id in record_ids if record_id not in self._records]
        if len(missing) > 1:
            missing = list(dict.fromkeys(missing))
        for first in range(0, len(missing), RECORDS_IN_ONE_READ):
            chunk = missing[first : first + RECORDS_IN_ONE_READ]
            values = self.transaction.get_many(self.id, [keys.record_key(record_id) for record_id in chunk])
            for record_id, value in zip(chunk, values, strict=True):
                self._records[record_id] = None if value is None else decode_stored_record(value)

    def load_ancestry(self, record_ids: Iterable[str]) -> None:
        """Read records and their sources ahead, one level of sources after the other."""
        level = list(record_ids)
        seen = set(level)
        while level and len(seen) <= limits.DEPENDENCY_RECORDS_MAX:
            self.load_records(level)
            sources: dict[str, None] = {}
            for record_id in level:
                stored = self._records[record_id]
                if stored is not None and stored.state.sources:
                    sources.update((source.record_id, None) for source in stored.state.sources)
            level = [record_id for record_id in sources if record_id not in seen]
            seen.update(level)

    def keep_record(self, stored: StoredRecord) -> None:
        """Remember a record that a scan of this snapshot has found."""
        self._records[stored.state.record_id] = stored

    def record_state(self, record_id: str) -> RecordState | None:
        """What eligibility needs to know of the record; see `eligibility.RecordReader`."""
        stored = self.stored_record(record_id)
        return None if stored is None else stored.state

    def put_record(self, record: Record) -> None:
        """Write a record at its next revision.

        Raises:
            InvalidRequest: Its stored form is larger than 1 MiB.
        """
        json = record.as_json()
        encoded = canonical_bytes(json)
        # Keeps reads of many records within what one answer of storage may hold.
        if len(encoded) > limits.RECORD_VALUE_BYTES_MAX:
            raise InvalidRequest(f"the record would have more than {limits.RECORD_VALUE_BYTES_MAX} bytes")
        self.transaction.put(self.id, keys.record_key(record.record_id), encoded)
        self._records[record.record_id] = StoredRecord(json, state_of_record(record, size_bytes=len(encoded)), record)

    def put_new_record(self, record: Record) -> None:
        """Write a new record and its place in time.

        Raises:
            InvalidRequest: See `put_record`.
        """
        self.put_record(record)
        self._new_ids.add(record.record_id)
        self.transaction.put(self.id, keys.record_time_key(record.created_at_millis, record.record_id), b"")

    # Bindings

    def binding(self, record_id: str, space: Space) -> Binding | None:
        """The record's binding in a space, stale ones included."""
        key = keys.binding_key(record_id, space.tag)
        if key in self._bindings or record_id in self._new_ids:
            return self._bindings.get(key)
        value = self.transaction.get(self.id, key)
        return None if value is None else decode_binding(value)

    def put_binding(self, binding: Binding) -> None:
        """Bind a vector; a stale binding in the same space gives way."""
        key = keys.binding_key(binding.receipt.record_id, binding.receipt.space.tag)
        self._bindings[key] = binding
        self.transaction.put(self.id, key, binding.encode())

    # Reviews

    def review_receipt(self, record_id: str, revision: int) -> Receipt | None:
        """Receipt of the review decision that made this revision."""
        value = self.transaction.get(self.id, keys.review_key(record_id, revision))
        return None if value is None else parse_canonical(value)

    def put_review_receipt(self, receipt: Receipt) -> None:
        """Keep a review decision."""
        key = keys.review_key(receipt["record_id"], receipt["revision"])
        self.transaction.put(self.id, key, canonical_bytes(receipt))

    # Relations

    def relation(self, relation_id: str) -> Relation | None:
        """The relation at its current revision."""
        value = self.transaction.get(self.id, keys.relation_key(relation_id))
        return None if value is None else decode_relation(value)

    def relation_history(self, relation_id: str, revision: int) -> tuple[Relation, Receipt] | None:
        """The relation as it was at a revision, with the receipt of the command that made it."""
        value = self.transaction.get(self.id, keys.relation_history_key(relation_id, revision))
        if value is None:
            return None
        history = parse_canonical(value)
        relation = relation_from_json(history["relation"])
        if (relation.relation_id, relation.revision) != (relation_id, revision):
            raise StorageInconsistency("a history value does not belong to its key")
        return relation, history["receipt"]

    def put_relation(self, previous: Relation | None, relation: Relation, encoded: bytes, history: bytes) -> None:
        """Write a relation, its history value, and the adjacency that follows from the step.

        Args:
            previous: The revision before; None for a new relation.
            relation: The new revision.
            encoded: Its stored form.
            history: Stored form of its history value.
        """
        transaction, relation_id = self.transaction, relation.relation_id
        transaction.put(self.id, keys.relation_key(relation_id), encoded)
        transaction.put(self.id, keys.relation_history_key(relation_id, relation.revision), history)
        was_served = previous is not None and previous.is_served
        if relation.is_served == was_served:
            return
        source, target = relation.input.source, relation.input.target
        for kind, endpoint in ((keys.OUTGOING, source), (keys.INCOMING, target)):
            entry = keys.adjacency_key(kind, endpoint.record_id, endpoint.revision, relation_id)
            count = keys.adjacency_count_key(kind, endpoint.record_id, endpoint.revision)
            if relation.is_served:
                transaction.put(self.id, entry, relation.input.kind.encode())
                transaction.add(self.id, count, 1)
            else:
                transaction.delete(self.id, entry)
                transaction.add(self.id, count, -1)

    # Receipts

    def replayed_receipt(self, key: bytes, digest: str) -> Receipt | None:
        """The original receipt when this command was committed before; None when the key is unused.

        Args:
            key: The `receipt_key` of the command.
            digest: Digest of the command.

        Raises:
            IdempotencyConflict: The key was used with another command.
        """
        return replayed_receipt(self.transaction.get(self.id, key), digest)

    def put_receipt(self, key: bytes, digest: str, receipt: Receipt) -> None:
        """Keep a receipt under the `receipt_key` of its command."""
        self.transaction.put(self.id, key, encode_receipt(digest, receipt))

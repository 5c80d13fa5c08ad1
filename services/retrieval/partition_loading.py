"""From stored keys and values to a partition in memory: whole, or the changes since a sequence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from services.domain import keys
from services.domain.canonical_json import parse_canonical
from services.domain.embeddings import Float32Vector, space_from_json, split_binding
from services.domain.errors import StorageInconsistency
from services.domain.records import source_ref_from_json
from services.domain.relations import RELATION_KINDS
from services.retrieval.answer_encoder import AnswerEncoder
from services.retrieval.partition import Partition
from services.retrieval.relation_graph import Direction
from services.retrieval.text_index import TextIndexBuilder
from services.retrieval.tokenizer import split_terms
from services.retrieval.vector_space import VectorSpace
from services.retrieval.view import ServedRelation
from services.storage.contract import Row

LOADED_PREFIXES: Final = (
    keys.RECORD,
    keys.BINDING,
    keys.RELATION,
    keys.OUTGOING_COUNT,
    keys.INCOMING_COUNT,
)
"""What the replica reads; everything else in a partition is for others."""

_KIND_CODES: Final[dict[str, int]] = {kind: code for code, kind in enumerate(RELATION_KINDS)}
_ID_END: Final = 17
# Bindings put into a matrix together.
_BINDING_BATCH: Final = 1024


def record_terms(payload: Mapping[str, Any]) -> list[str]:
    """All terms of the searched text of a payload: primary, secondary, context."""
    content = payload["content"]
    terms = split_terms(content["primary"])
    for member in ("secondary", "context"):
        text = content[member]
        if text:
            terms += split_terms(text)
    return terms


class PartitionLoader:
    """Takes the rows of a whole partition, page after page, and makes a Partition."""

    def __init__(self, encoder: AnswerEncoder) -> None:
        self._partition = Partition()
        self._changes = _Changes(self._partition, encoder)
        self._texts = TextIndexBuilder()
        self._received: Counter[int] = Counter()

    def add(self, rows: Iterable[Row]) -> None:
        """Take over one page.

        Raises:
            StorageInconsistency: A row cannot be read.
        """
        changes = self._changes
        for row in rows:
            self._received[row.key[0]] += 1
            if row.key[:1] == keys.RECORD:
                number, payload = changes.put_record(row.value)
                if payload is not None:
                    self._texts.put(number, record_terms(payload))
            else:
                changes.put_dependent(row)

    def finish(self, counts: Mapping[int, int]) -> Partition:
        """The partition.

        Args:
            counts: Number of living keys by kind, as the store's own running count has it.

        Raises:
            StorageInconsistency: Rows are missing, or name records that are not there.
        """
        for prefix in LOADED_PREFIXES:
            kind = prefix[0]
            if self._received[kind] != counts.get(kind, 0):
                raise StorageInconsistency("a partition does not hold as many keys as its header counts")
        self._partition.texts = self._texts.build()
        self._changes.settle()
        return self._partition


def apply_changes(partition: Partition, rows: Iterable[Row], encoder: AnswerEncoder) -> None:
    """Bring a partition up to date. When this raises, the partition is half changed and must be dropped.

    Args:
        rows: Every loaded key that changed, with its present value.

    Raises:
        StorageInconsistency: A row cannot be read, names a record that is not there, or was removed.
    """
    changes = _Changes(partition, encoder)
    for row in rows:
        if row.deleted:
            # Records leave tombstones, bindings are replaced, relations are retired, counts fall to zero.
            raise StorageInconsistency("a key that never goes was removed")
        if row.key[:1] == keys.RECORD:
            number, payload = changes.put_record(row.value)
            if payload is None:
                partition.texts.remove(number)
            else:
                partition.texts.put(number, record_terms(payload))
        else:
            changes.put_dependent(row)
    changes.settle()


class _Changes:
    """Decodes rows and puts them into a partition."""

    def __init__(self, partition: Partition, encoder: AnswerEncoder) -> None:
        self._partition = partition
        self._encoder = encoder
        self._bindings: dict[bytes, _BindingBatch] = {}

    def put_record(self, value: bytes) -> tuple[int, Mapping[str, Any] | None]:
        """Its row, and its payload if the record has a candidate entry."""
        record = parse_canonical(value)
        records = self._partition.records
        row = records.put(record, size_bytes=len(value), answer=self._encoder.encode_record(record))
        return row, record["payload"] if records.is_candidate.living[row] else None

    def put_dependent(self, row: Row) -> None:
        """Put a row that names records, which may come later."""
        kind = row.key[:1]
        if kind == keys.BINDING:
            self._put_binding(row.key, row.value)
        elif kind == keys.RELATION:
            self._put_relation(row.value)
        elif kind == keys.OUTGOING_COUNT or kind == keys.INCOMING_COUNT:
            record_row = self._partition.records.claim(keys.id_text(row.key[1:_ID_END]))
            revision = int.from_bytes(row.key[_ID_END:], "big")
            direction: Direction = "outgoing" if kind == keys.OUTGOING_COUNT else "incoming"
            count = int.from_bytes(row.value, "big", signed=True)
            self._partition.graph.put_count(direction, (record_row, revision), count)

    def _put_binding(self, key: bytes, value: bytes) -> None:
        header, vector = split_binding(value)
        receipt = parse_canonical(header)
        tag = key[_ID_END:]
        batch = self._bindings.get(tag)
        if batch is None:
            space = space_from_json(receipt["space"])
            vectors = self._partition.spaces.setdefault(space, VectorSpace(space))
            batch = self._bindings[tag] = _BindingBatch(vectors)
        if len(vector) != batch.vectors.space.dimensions:
            raise StorageInconsistency("a stored vector does not fit its space")
        batch.rows.append(self._partition.records.claim(receipt["record_id"]))
        batch.values.append(vector)
        batch.bound_revisions.append(receipt["record_revision"])
        batch.sizes_bytes.append(len(value))
        batch.answers.append(self._encoder.encode_receipt(receipt))
        if len(batch.rows) == _BINDING_BATCH:
            batch.flush()

    def _put_relation(self, value: bytes) -> None:
        relation = parse_canonical(value)
        review = relation["review"]
        if relation["state"] != "active" or (review is not None and review["disposition"] == "rejected"):
            self._partition.graph.remove(relation["relation_id"])
            return
        records = self._partition.records
        asserted = relation["input"]
        source, target = asserted["source"], asserted["target"]
        served = ServedRelation(
            relation["relation_id"],
            relation["revision"],
            _KIND_CODES[asserted["kind"]],
            records.claim(source["record_id"]),
            source["revision"],
            records.claim(target["record_id"]),
            target["revision"],
            len(value),
            asserted["valid_from_millis"],
            asserted["valid_until_millis"],
            tuple(map(source_ref_from_json, asserted.get("evidence_sources", ()))),
        )
        self._partition.graph.put(served, self._encoder.encode_relation(relation))

    def settle(self) -> None:
        """Flush what is held and make the partition ready for questions.

        Raises:
            StorageInconsistency: Something names a record that does not exist.
        """
        if self._partition.records.has_unfilled:
            raise StorageInconsistency("a stored key names a record that does not exist")
        for batch in self._bindings.values():
            batch.flush()
        self._partition.records.settle_order()
        self._partition.texts.settle()
        self._partition.examinations.clear()


class _BindingBatch:
    """Bindings of one space on their way into its matrix."""

    def __init__(self, vectors: VectorSpace) -> None:
        self.vectors = vectors
        self.clear()

    def clear(self) -> None:
        self.rows: list[int] = []
        self.values: list[Float32Vector] = []
        self.bound_revisions: list[int] = []
        self.sizes_bytes: list[int] = []
        self.answers: list[bytes] = []

    def flush(self) -> None:
        if self.rows:
            self.vectors.put_many(
                self.rows,
                self.values,
                bound_revisions=self.bound_revisions,
                sizes_bytes=self.sizes_bytes,
                answers=self.answers,
            )
            self.clear()

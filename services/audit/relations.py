"""Relations: an unbroken history each, and adjacency in both directions that is exactly what is served."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from services.audit.command_digests import check_relation_command
from services.audit.findings import Findings, words_of_key
from services.audit.receipts import ReceiptLedger, StepKey, check_relation_receipt
from services.audit.records import RecordFact, judge_references, words_of_step
from services.audit.stored_values import Unsound, fingerprint, read_encodable, read_json, read_value, require
from services.domain import keys
from services.domain.receipts import Receipt
from services.domain.records import SourceRef
from services.domain.relations import Relation, decode_relation, relation_digest, relation_from_json

_MEMBERS = {"relation", "receipt"}


class _RelationFact(NamedTuple):
    revision: int
    fingerprint: bytes
    references: tuple[SourceRef, ...]


class RelationsAudit:
    """All relations of a workspace with histories and adjacency. Keys of one kind come in ascending order.

    Args:
        partition: 32 bytes.
        outputs: Fingerprints of the receipts of relations that jobs have published, by relation id and revision; jobs
            are taken before histories.
        findings: Where to note what does not hold.
    """

    def __init__(self, partition: bytes, outputs: Mapping[StepKey, bytes], findings: Findings) -> None:
        self._partition = partition
        self._outputs = outputs
        self._findings = findings
        self._facts: dict[str, _RelationFact] = {}
        self._adjacency: dict[bytes, bytes] = {}
        self._wanted: dict[bytes, bytes] = {}
        self._counts: dict[bytes, int] = {}
        self._previous: Relation | None = None
        self._newest: dict[str, tuple[int, bytes]] = {}
        self.receipts: dict[StepKey, bytes] = {}
        """Fingerprint of the receipt in each history value, by relation id and revision."""

    def take_relation(self, key: bytes, value: bytes) -> None:
        """Take one relation. Raises Unsound."""
        relation = read_encodable(value, decode_relation)
        stated = relation.input
        references = (stated.source, stated.target, *stated.evidence_sources)
        self._facts[relation.relation_id] = _RelationFact(
            relation.revision, fingerprint(relation.as_json()), references
        )
        if relation.is_served:
            for kind, end in ((keys.OUTGOING, stated.source), (keys.INCOMING, stated.target)):
                entry = keys.adjacency_key(kind, end.record_id, end.revision, relation.relation_id)
                self._wanted[entry] = stated.kind.encode()
        require(key == keys.relation_key(relation.relation_id), "lies under the key of another")

    def take_history(self, key: bytes, value: bytes) -> None:
        """Take a relation as one command left it. Raises Unsound."""
        previous, self._previous = self._previous, None
        stored = read_json(value)
        require(isinstance(stored, dict) and stored.keys() == _MEMBERS, "cannot be read")
        receipt: Receipt = stored["receipt"]
        relation = read_value(lambda: relation_from_json(stored["relation"]))
        require(relation.as_json() == stored["relation"], "is not the documented object")
        where = (relation.relation_id, relation.revision)
        self._previous = relation
        self._newest[relation.relation_id] = (relation.revision, fingerprint(stored["relation"]))
        self.receipts[where] = fingerprint(receipt)
        require(key == keys.relation_history_key(*where), "lies under the key of another")
        check_relation_receipt(self._partition, receipt)
        require((receipt["relation_id"], receipt["revision"]) == where, "carries the receipt of another step")
        require(receipt["relation_digest"] == relation_digest(relation.encode()), "does not agree with its digest")
        if where not in self._outputs:
            check_relation_command(relation, receipt)
        same = previous is not None and previous.relation_id == relation.relation_id
        _check_step(previous if same else None, relation, receipt)

    def take_adjacency(self, key: bytes, value: bytes) -> None:
        """Take one entry of a list."""
        self._adjacency[key] = value

    def take_count(self, key: bytes, value: bytes) -> None:
        """Take the stored length of a list. Raises Unsound."""
        require(len(value) == 8, "cannot be read")
        self._counts[key] = int.from_bytes(value, "big", signed=True)

    def finish(self, ledger: ReceiptLedger, records: Mapping[str, RecordFact]) -> None:
        """Compare what was taken, the receipts, and the records."""
        for relation_id, fact in self._facts.items():
            if self._newest.pop(relation_id, None) != (fact.revision, fact.fingerprint):
                self._findings.add("relation", relation_id, "is not what its history says")
            judge_references(fact.references, records, "relation", relation_id, self._findings)
        for relation_id in sorted(self._newest):
            self._findings.add("relation", relation_id, "is missing, but there is a history of it")
        made = {**self._outputs, **ledger.relations}
        for where in sorted(self.receipts.keys() | made.keys()):
            if self.receipts.get(where) != made.get(where):
                self._findings.add("relation history", words_of_step(where), "does not carry the receipt of its step")
        self._judge_adjacency()

    def _judge_adjacency(self) -> None:
        for key in sorted(self._wanted.keys() | self._adjacency.keys()):
            if key not in self._adjacency:
                problem = f"lacks relation {keys.id_text(key[-16:])}"
            elif key not in self._wanted:
                problem = f"has relation {keys.id_text(key[-16:])}, which is not served there"
            elif self._wanted[key] != self._adjacency[key]:
                problem = f"names another kind for relation {keys.id_text(key[-16:])}"
            else:
                continue
            self._findings.add(*words_of_key(self._partition, key), problem)
        counts: Counter[bytes] = Counter()
        for key in self._wanted:
            counts[(keys.OUTGOING_COUNT if key[:1] == keys.OUTGOING else keys.INCOMING_COUNT) + key[1:-16]] += 1
        for key in sorted(counts.keys() | self._counts.keys()):
            if counts[key] != self._counts.get(key, 0):
                problem = f"is {self._counts.get(key, 0)}, but {counts[key]} relations are served there"
                self._findings.add(*words_of_key(self._partition, key), problem)


def _check_step(previous: Relation | None, relation: Relation, receipt: Receipt) -> None:
    """Check that a revision follows from the one before by what its receipt says was done. Raises Unsound."""
    at_millis, action = receipt["committed_at_millis"], receipt["action"]
    require(relation.modified_at_millis == at_millis, "was made at another time than its receipt says")
    if previous is None:
        is_first = (relation.revision, relation.created_at_millis, relation.state) == (1, at_millis, "active")
        require(is_first and action == "asserted" and relation.review is None, "does not begin with its assertion")
        return
    require(relation.revision == previous.revision + 1, f"does not follow revision {previous.revision}")
    match action:
        case "retired":
            expected = previous.moved("retired", now_ms=at_millis)
            is_legal = previous.state == "active"
        case "restored":
            expected = previous.moved("active", now_ms=at_millis)
            is_legal = previous.state == "retired"
        case "reviewed":
            if relation.review is None:
                raise Unsound("was reviewed, but holds no decision")
            expected, is_legal = previous.reviewed(relation.review), True
        case _:
            expected, is_legal = replace(previous), False
    require(is_legal and expected == relation, "does not follow from the revision before it")

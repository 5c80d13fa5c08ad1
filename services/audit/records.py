"""Records: canonical, each revision made by one step, indexed by time, sources present, decisions kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from services.audit.command_digests import check_record_command
from services.audit.findings import Findings
from services.audit.receipts import ReceiptLedger, RecordStep, StepKey, check_review_receipt
from services.audit.stored_values import fingerprint, read_encodable, read_json, require
from services.domain import keys
from services.domain.records import Author, Record, SourceRef, decode_record

_FIRST_ACTIONS = ("created", "derived")


class RecordFact(NamedTuple):
    """What of a record is compared with other values."""

    revision: int
    created_at_millis: int
    modified_at_millis: int
    author: Author
    is_deleted: bool
    is_derived: bool
    review: bytes | None
    """Fingerprint of its present decision."""


class RecordsAudit:
    """All records of a workspace, their index by time and their decisions. Receipts are taken first.

    Attributes:
        facts: By record id.
    """

    def __init__(self, partition: bytes, ledger: ReceiptLedger, findings: Findings) -> None:
        self._partition = partition
        self._ledger = ledger
        self._findings = findings
        self.facts: dict[str, RecordFact] = {}
        self._sources: list[tuple[str, Sequence[SourceRef]]] = []
        self._times: set[bytes] = set()
        self._reviews: dict[StepKey, tuple[bytes, bytes]] = {}

    def take_record(self, key: bytes, value: bytes) -> None:
        """Take one record. Raises Unsound."""
        record = read_encodable(value, decode_record)
        self.facts[record.record_id] = _fact(record)
        if record.derivation is not None:
            self._sources.append((record.record_id, record.derivation.sources))
        require(key == keys.record_key(record.record_id), "lies under the key of another")
        require(record.revision >= 1 and record.created_at_millis <= record.modified_at_millis, "contradicts itself")
        require(record.payload is not None or record.review is None, "is a tombstone with a decision")
        # Receipts come before records in the order of the keys. A missing one is found at the end.
        step = self._ledger.content_step(record.record_id, record.revision)
        if step is not None:
            check_record_command(record, step[1].action, step[0], step[1].command_digest)

    def take_time(self, key: bytes, value: bytes) -> None:
        """Take one entry of the index by time. Raises Unsound."""
        self._times.add(key)
        require(not value, "holds something")

    def take_review(self, key: bytes, value: bytes) -> None:
        """Take one decision. Raises Unsound."""
        receipt = read_json(value)
        check_review_receipt(self._partition, receipt)
        where = (receipt["record_id"], receipt["revision"])
        self._reviews[where] = (fingerprint(receipt), fingerprint(receipt["review"]))
        require(key == keys.review_key(*where), "lies under the key of another")

    def finish(self) -> None:
        """Compare what was taken, and what the receipts say was made."""
        self._judge_times()
        self._judge_steps(self._ledger)
        self._judge_reviews(self._ledger)
        for record_id, sources in self._sources:
            judge_references(sources, self.facts, "record", record_id, self._findings)

    def _judge_times(self) -> None:
        wanted = {
            keys.record_time_key(fact.created_at_millis, record_id): record_id for record_id, fact in self.facts.items()
        }
        for key in sorted(wanted.keys() - self._times):
            self._findings.add("time index", wanted[key], "is missing")
        for key in sorted(self._times - wanted.keys()):
            self._findings.add("time index", keys.id_text(key[-16:]), "is of no record")

    def _judge_steps(self, ledger: ReceiptLedger) -> None:
        for record_id, fact in self.facts.items():
            made = ledger.revisions.get(record_id, [])
            judge_revisions("record", record_id, made, fact.revision, self._findings)
            steps = [ledger.record_steps[record_id, revision] for revision in sorted(made)]
            if len(steps) == fact.revision and not _are_steps_of(steps, fact):
                self._findings.add("record", record_id, "is not what its receipts led to")
        for record_id in sorted(ledger.revisions.keys() - self.facts.keys()):
            self._findings.add("record", record_id, "is missing, but there are receipts of it")

    def _judge_reviews(self, ledger: ReceiptLedger) -> None:
        for where in sorted(self._reviews.keys() | ledger.reviews.keys()):
            kept = self._reviews.get(where)
            if kept is None or kept[0] != ledger.reviews.get(where):
                self._findings.add("review", words_of_step(where), "is not the one that its receipt tells")
        for record_id, fact in self.facts.items():
            kept = self._reviews.get((record_id, fact.revision))
            if fact.review != (None if kept is None else kept[1]):
                self._findings.add("record", record_id, "does not carry the decision that made its revision")


def words_of_step(where: StepKey) -> str:
    """An id and a revision in words."""
    return f"{where[0]} revision {where[1]}"


def judge_revisions(kind: str, name: str, made: Sequence[int], newest: int, findings: Findings) -> None:
    """Note when the revisions that steps made are not exactly 1, 2, ... up to the present one."""
    # Counted by what is there: a damaged revision may be any number of 64 bits.
    if len(made) != newest or sorted(made) != list(range(1, len(made) + 1)):
        missing = sorted(set(range(1, min(newest, len(made) + 100) + 1)) - set(made))
        detail = f"{missing[0]} is missing" if missing else "there are more steps than revisions"
        findings.add(kind, name, f"is at revision {newest}, but was not made step by step: {detail}")


def judge_references(
    references: Sequence[SourceRef], facts: Mapping[str, RecordFact], kind: str, name: str, findings: Findings
) -> None:
    """Note every reference to a record, or a revision of one, that never was."""
    for reference in references:
        fact = facts.get(reference.record_id)
        if fact is None or not 1 <= reference.revision <= fact.revision:
            findings.add(
                kind, name, f"names record {reference.record_id} revision {reference.revision}, which never was"
            )


def _are_steps_of(steps: Sequence[RecordStep], fact: RecordFact) -> bool:
    """Whether these steps, one a revision, lead to a record as it is."""
    first, last = steps[0], steps[-1]
    author = next((step.author for step in reversed(steps) if step.action != "reviewed"), None)
    actions = [step.action for step in steps]
    times = [step.at_millis for step in steps]
    return (
        first.action == _FIRST_ACTIONS[fact.is_derived]
        and set(actions[1:]) <= ({"updated", "reviewed", "deleted"} if fact.is_deleted else {"updated", "reviewed"})
        and (last.action == "deleted") == fact.is_deleted
        and actions.count("deleted") == int(fact.is_deleted)
        and times == sorted(times)
        and (times[0], times[-1]) == (fact.created_at_millis, fact.modified_at_millis)
        and author == fact.author
    )


def _fact(record: Record) -> RecordFact:
    return RecordFact(
        record.revision,
        record.created_at_millis,
        record.modified_at_millis,
        record.author,
        record.payload is None,
        record.derivation is not None,
        None if record.review is None else fingerprint(record.review.as_json()),
    )

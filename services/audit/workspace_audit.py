"""One workspace as a whole: every kind of key derived again from the others.

Every command writes several keys in one commit. Whatever was written by half, twice or not at all shows, whoever wrote
it and whatever became of the answer.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import NamedTuple

from services.audit.bindings import BindingsAudit
from services.audit.findings import Finding, Findings, words_of_key
from services.audit.jobs import JobsAudit
from services.audit.receipts import ReceiptLedger
from services.audit.records import RecordsAudit
from services.audit.relations import RelationsAudit
from services.audit.stored_values import Unsound, read_json, read_value, require
from services.domain import keys
from services.domain.records import Author
from services.domain.scope import Workspace, workspace_from_json


class WorkspaceFact(NamedTuple):
    """What other parts of a store are compared with.

    Attributes:
        workspace: Its address; None when the entry is missing or unsound.
        authors: Whoever has made anything in it.
        record_stamps: First half of each record id as a number, ascending: 8 bytes a record.
    """

    workspace: Workspace | None
    authors: frozenset[Author]
    record_stamps: array[int]

    def may_have(self, record_id: str) -> bool:
        """Whether there is a record with the same first half of its id."""
        stamp = _stamp(record_id)
        place = bisect_left(self.record_stamps, stamp)
        return place < len(self.record_stamps) and self.record_stamps[place] == stamp


class WorkspaceAudit:
    """Takes all living keys of a workspace in ascending order and judges them together.

    Memory: about one KiB for each record with what belongs to it.

    Args:
        partition: 32 bytes.
    """

    def __init__(self, partition: bytes) -> None:
        self._partition = partition
        self._findings = Findings(partition)
        self._workspace: Workspace | None = None
        self._has_entry = False
        self._ledger = ReceiptLedger(partition)
        self._records = RecordsAudit(partition, self._ledger, self._findings)
        self._bindings = BindingsAudit(self._findings)
        self._jobs = JobsAudit(partition, self._findings)
        self._relations = RelationsAudit(partition, self._jobs.outputs, self._findings)
        self._takers: dict[bytes, Callable[[bytes, bytes], None]] = {
            keys.RECORD: self._records.take_record,
            keys.RECORD_BY_TIME: self._records.take_time,
            keys.REVIEW: self._records.take_review,
            keys.BINDING: self._bindings.take,
            keys.RELATION: self._relations.take_relation,
            keys.RELATION_HISTORY: self._relations.take_history,
            keys.OUTGOING: self._relations.take_adjacency,
            keys.INCOMING: self._relations.take_adjacency,
            keys.OUTGOING_COUNT: self._relations.take_count,
            keys.INCOMING_COUNT: self._relations.take_count,
            keys.RECEIPT: self._ledger.take,
            keys.JOB: self._jobs.take_job,
            keys.JOB_HISTORY: self._jobs.take_history,
            keys.JOB_SUMMARY: self._jobs.take_summary,
            keys.WORKSPACE: self._take_entry,
        }

    def take(self, key: bytes, value: bytes) -> None:
        """Take one living key."""
        taker = self._takers.get(key[:1])
        try:
            if taker is None:
                raise Unsound("is of a kind that this version does not write")
            taker(key, value)
        except Unsound as error:
            self._findings.add(*words_of_key(self._partition, key), str(error))

    def finish(self) -> tuple[list[Finding], WorkspaceFact]:
        """Judge what was taken."""
        facts = self._records.facts
        self._records.finish()
        self._bindings.finish(self._ledger, facts)
        self._jobs.finish(self._ledger, facts)
        self._relations.finish(self._ledger, facts)
        if bool(facts) != self._has_entry:
            problem = "holds records without being entered" if facts else "is entered without a record"
            self._findings.add("workspace", "", problem)
        stamps = array("Q", sorted(map(_stamp, facts)))
        return self._findings.items, WorkspaceFact(self._workspace, frozenset(self._ledger.authors), stamps)

    def _take_entry(self, key: bytes, value: bytes) -> None:
        self._has_entry = True
        require(key == keys.WORKSPACE, "lies under an unknown key")
        stored = read_json(value)
        workspace = read_value(lambda: workspace_from_json(stored))
        require(workspace.as_json() == stored, "is not the documented object")
        require(read_value(lambda: workspace.partition) == self._partition, "lies in the partition of another")
        self._workspace = workspace


def _stamp(record_id: str) -> int:
    return int.from_bytes(keys.id_bytes(record_id)[:8], "big")


def audit_workspace(partition: bytes, rows: Iterable[tuple[bytes, bytes]]) -> list[Finding]:
    """Judge the living keys and values of one workspace, given in ascending order of the keys."""
    audit = WorkspaceAudit(partition)
    for key, value in rows:
        audit.take(key, value)
    return audit.finish()[0]

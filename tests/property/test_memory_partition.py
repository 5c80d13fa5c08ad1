"""A partition against a plain model: any sequence of commands leaves the same records, relations and eligibility."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from services.domain import keys
from services.domain.canonical_json import parse_canonical
from services.domain.errors import InvalidRequest, RecordNotFound, RevisionConflict, WaggleError
from services.domain.records import SourceRef
from services.memory.batch_read_records import batch_read_records
from services.memory.commands import (
    AssertRelation,
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
from services.memory.diagnose_eligibility import diagnose_eligibility
from services.memory.inspect_relation import inspect_relation
from services.memory.query_records import query_records
from services.memory.query_records_ordered import OrderedQuery, query_records_ordered
from services.memory.record_filter import RecordFilter
from tests.harness.memory_world import START_MS, VERIFIER_KEY, MemoryWorld, derivation, record_input, relation_input

DEPTH_MAX, SOURCES_MAX = 8, 64

picks = st.integers(0, 10**6)
dispositions = st.sampled_from(["approved", "rejected", "unreviewed"])


@dataclass
class ModelRecord:
    """What the model knows of a record."""

    created: tuple[int, str]
    valid_until: int | None
    sources: tuple[SourceRef, ...] = ()
    revision: int = 1
    deleted: bool = False
    disposition: str | None = None


@dataclass
class ModelRelation:
    """What the model knows of a relation."""

    source: SourceRef
    target: SourceRef
    evidence: tuple[SourceRef, ...]
    until: int | None
    revision: int = 1
    retired: bool = False
    disposition: str | None = None

    @property
    def is_served(self) -> bool:
        return not self.retired and self.disposition != "rejected"


@dataclass
class Model:
    """The slow definition of a partition."""

    records: dict[str, ModelRecord] = field(default_factory=dict)
    relations: dict[str, ModelRelation] = field(default_factory=dict)

    def is_fit(self, record_id: str, now_ms: int) -> bool:
        record = self.records[record_id]
        expired = record.valid_until is not None and now_ms >= record.valid_until
        return not record.deleted and not expired and record.disposition != "rejected"

    def paths(self, record_id: str) -> list[list[SourceRef]]:
        """Every chain of sources below a record; nothing is shared or remembered."""
        found: list[list[SourceRef]] = []
        for source in self.records[record_id].sources:
            found.append([source])
            found += [[source, *rest] for rest in self.paths(source.record_id)]
        return found

    def is_eligible(self, record_id: str, now_ms: int) -> bool:
        if record_id not in self.records or not self.is_fit(record_id, now_ms):
            return False
        paths = self.paths(record_id)
        named = {source for path in paths for source in path}
        return (
            all(self.records[source.record_id].revision == source.revision for source in named)
            and all(self.is_fit(source.record_id, now_ms) for source in named)
            and all(len(path) <= DEPTH_MAX for path in paths)
            and len({source.record_id for source in named}) <= SOURCES_MAX
        )

    def holds(self, ref: SourceRef, now_ms: int) -> bool:
        return self.is_eligible(ref.record_id, now_ms) and self.records[ref.record_id].revision == ref.revision

    def relation_reason(self, relation: ModelRelation, now_ms: int) -> str:
        if relation.retired:
            return "retired"
        if relation.disposition == "rejected":
            return "rejected"
        if relation.until is not None and now_ms >= relation.until:
            return "expired"
        for ref in (relation.source, relation.target):
            if not self.is_eligible(ref.record_id, now_ms):
                return "endpoint_unavailable"
            if not self.holds(ref, now_ms):
                return "endpoint_revision_changed"
        if not all(self.holds(ref, now_ms) for ref in relation.evidence):
            return "evidence_unavailable"
        return "eligible"


class PartitionMachine(RuleBasedStateMachine):
    """Runs commands on a real partition and on the model side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.world = MemoryWorld()
        self.model = Model()
        self.numbers = itertools.count(1)
        self.done: list[tuple[str, Command, dict[str, Any]]] = []

    def teardown(self) -> None:
        self.world.close()

    @property
    def now_ms(self) -> int:
        return self.world.clock.ms

    def run(self, command: Command, expected: type[WaggleError] | None) -> dict[str, Any] | None:
        """Carry out a command that must be refused with `expected`, or be accepted when it is None."""
        key = f"k{next(self.numbers)}"
        if expected is not None:
            before = self.world.rows()
            with pytest.raises(expected):
                self.world.execute(command, key)
            assert self.world.rows() == before
            return None
        receipt = self.world.execute(command, key)
        self.done.append((key, command, receipt))
        return receipt

    def pick(self, number: int) -> str:
        return list(self.model.records)[number % len(self.model.records)]

    def pick_ref(self, number: int, lag: int) -> SourceRef:
        record_id = self.pick(number)
        return SourceRef(record_id, max(1, self.model.records[record_id].revision - lag))

    def pick_relation(self, number: int) -> str:
        return list(self.model.relations)[number % len(self.model.relations)]

    def add_record(self, receipt: dict[str, Any], valid_until: int | None, sources: tuple[SourceRef, ...] = ()) -> None:
        created = (self.now_ms, receipt["record_id"])
        self.model.records[receipt["record_id"]] = ModelRecord(created, valid_until, sources)

    @initialize()
    def first_records(self) -> None:
        for _ in range(3):
            receipt = self.world.execute(CreateRecord(record_input()))
            self.add_record(receipt, None)

    @rule(ms=st.integers(1, 3))
    def time_passes(self, ms: int) -> None:
        self.world.clock.ms += ms

    @rule(validity=st.one_of(st.none(), st.integers(0, 6)))
    def create(self, validity: int | None) -> None:
        valid_until = None if validity is None else self.now_ms + validity
        receipt = self.run(CreateRecord(record_input(valid_until_millis=valid_until)), None)
        assert receipt is not None
        self.add_record(receipt, valid_until)

    @rule(number=picks, off=st.sampled_from([0, 0, 0, 1, -1]))
    def update(self, number: int, off: int) -> None:
        record_id = self.pick(number)
        record = self.model.records[record_id]
        revision = record.revision + off
        refusal: type[WaggleError] | None = None
        if record.deleted:
            refusal = RecordNotFound
        elif off or record.sources:
            refusal = RevisionConflict
        if self.run(UpdateRecord(record_id, revision, record_input("new")), refusal):
            record.revision += 1
            record.disposition, record.valid_until = None, None

    @rule(number=picks, off=st.sampled_from([0, 0, 0, 1]))
    def delete(self, number: int, off: int) -> None:
        record_id = self.pick(number)
        record = self.model.records[record_id]
        refusal = RecordNotFound if record.deleted else RevisionConflict if off else None
        if self.run(DeleteRecord(record_id, record.revision + off), refusal):
            record.revision += 1
            record.deleted, record.disposition = True, None

    @rule(number=picks, disposition=dispositions)
    def review(self, number: int, disposition: Any) -> None:
        record_id = self.pick(number)
        record = self.model.records[record_id]
        command = ReviewRecord(record_id, record.revision, disposition, "ref")
        if self.run(command, RecordNotFound if record.deleted else None):
            record.revision += 1
            record.disposition = disposition

    @rule(numbers=st.lists(picks, min_size=1, max_size=3), lag=st.sampled_from([0, 0, 0, 1]))
    def derive(self, numbers: list[int], lag: int) -> None:
        refs = {ref.record_id: ref for ref in (self.pick_ref(number, lag) for number in numbers)}
        sources = tuple(refs.values())
        command = DeriveRecord(record_input(), derivation(*sources))
        if all(self.model.holds(ref, self.now_ms) for ref in sources):
            paths = [[ref, *rest] for ref in sources for rest in [[], *self.model.paths(ref.record_id)]]
            too_deep = any(len(path) > DEPTH_MAX for path in paths)
            too_many = len({ref.record_id for path in paths for ref in path}) > SOURCES_MAX
            receipt = self.run(command, InvalidRequest if too_deep or too_many else None)
            if receipt:
                self.add_record(receipt, None, sources)
            return
        with pytest.raises((RevisionConflict, RecordNotFound, InvalidRequest)):
            self.world.execute(command)

    @rule(numbers=st.lists(picks, min_size=2, max_size=4), lag=st.sampled_from([0, 0, 1]), until=st.booleans())
    def assert_relation(self, numbers: list[int], lag: int, until: bool) -> None:
        refs = list({ref.record_id: ref for ref in (self.pick_ref(number, lag) for number in numbers)}.values())
        if len(refs) < 2:
            return
        source, target, *evidence = refs
        valid_until = self.now_ms + 2 if until else None
        value = relation_input(source, target, evidence_sources=tuple(evidence), valid_until_millis=valid_until)
        fits = all(self.model.holds(ref, self.now_ms) for ref in refs)
        receipt = self.run(AssertRelation(value), None if fits else RevisionConflict)
        if receipt:
            self.model.relations[receipt["relation_id"]] = ModelRelation(source, target, tuple(evidence), valid_until)

    @precondition(lambda self: self.model.relations)
    @rule(number=picks, stale=st.sampled_from([False, False, True]))
    def retire_or_restore(self, number: int, stale: bool) -> None:
        relation_id = self.pick_relation(number)
        relation = self.model.relations[relation_id]
        revision = relation.revision + stale
        wrong_step = RetireRelation if relation.retired else RestoreRelation
        self.run(wrong_step(relation_id, revision, "ref"), RevisionConflict if stale else InvalidRequest)
        refs = (relation.source, relation.target, *relation.evidence)
        holds = all(self.model.holds(ref, self.now_ms) for ref in refs)
        command = (RestoreRelation if relation.retired else RetireRelation)(relation_id, revision, "ref")
        if self.run(command, RevisionConflict if stale or (relation.retired and not holds) else None):
            relation.revision += 1
            relation.retired = not relation.retired

    @precondition(lambda self: self.model.relations)
    @rule(number=picks, disposition=dispositions)
    def review_relation(self, number: int, disposition: Any) -> None:
        relation_id = self.pick_relation(number)
        relation = self.model.relations[relation_id]
        self.run(ReviewRelation(relation_id, relation.revision, "ref", disposition), None)
        relation.revision += 1
        relation.disposition = disposition

    @precondition(lambda self: self.done)
    @rule(number=picks)
    def replay(self, number: int) -> None:
        key, command, receipt = self.done[number % len(self.done)]
        before = self.world.rows()
        assert self.world.execute(command, key) == receipt
        assert self.world.rows() == before

    @invariant()
    def eligibility_is_the_slow_definition(self) -> None:
        for record_id, record in self.model.records.items():
            found = self.world.read(lambda partition, at=record_id: diagnose_eligibility(partition, at))  # type: ignore[misc]
            assert found.revision == record.revision
            assert found.verdict.eligible == self.model.is_eligible(record_id, self.now_ms)
        for relation_id, relation in self.model.relations.items():
            seen = self.world.read(lambda partition, at=relation_id: inspect_relation(partition, at))  # type: ignore[misc]
            assert seen.relation.revision == relation.revision
            assert seen.verdict.reason == self.model.relation_reason(relation, self.now_ms)

    @invariant()
    def every_read_serves_the_eligible_records(self) -> None:
        eligible = sorted(at for at in self.model.records if self.model.is_eligible(at, self.now_ms))
        by_time = [at for _, at in sorted(self.model.records[at].created for at in eligible)]
        everything = list(self.model.records)
        batch = self.world.read(lambda partition: batch_read_records(partition, everything))
        assert sorted(at for at, stored in batch.entries if stored is not None) == eligible
        assert self.walk_by_id() == eligible
        assert self.walk_by_time("created_asc") == by_time
        assert self.walk_by_time("created_desc") == by_time[::-1]

    def walk_by_id(self) -> list[str]:
        seen: list[str] = []
        after: str | None = None
        while True:
            page = self.world.read(
                lambda partition, at=after: query_records(  # type: ignore[misc]
                    partition, RecordFilter(), limit=2, after=at, scan_limit=3
                )
            )
            seen += [stored.state.record_id for stored in page.records]
            after = page.next_after
            if after is None:
                return seen

    def walk_by_time(self, order: Any) -> list[str]:
        seen: list[str] = []
        query = OrderedQuery(RecordFilter(), order, limit=2, scan_limit=3)
        while True:
            page = self.world.read(
                lambda partition, wanted=query: query_records_ordered(  # type: ignore[misc]
                    partition, wanted, cursor_key=VERIFIER_KEY
                )
            )
            seen += [stored.state.record_id for stored in page.records]
            if page.next_cursor is None:
                return seen
            query = OrderedQuery(RecordFilter(), order, limit=2, scan_limit=3, cursor=page.next_cursor)

    @invariant()
    def stored_keys_are_those_of_the_key_space(self) -> None:
        rows = self.world.rows()
        adjacency: dict[bytes, bytes] = {}
        counts: dict[bytes, int] = {}
        for relation_id, relation in self.model.relations.items():
            if relation.is_served:
                for kind, ref in ((keys.OUTGOING, relation.source), (keys.INCOMING, relation.target)):
                    adjacency[keys.adjacency_key(kind, ref.record_id, ref.revision, relation_id)] = b"supports"
                    count_key = keys.adjacency_count_key(kind, ref.record_id, ref.revision)
                    counts[count_key] = counts.get(count_key, 0) + 1
        stored_counts = {
            key: int.from_bytes(value, "big", signed=True)
            for key, value in rows.items()
            if key[:1] in (keys.OUTGOING_COUNT, keys.INCOMING_COUNT)
        }
        assert {key: count for key, count in stored_counts.items() if count} == counts
        assert {k: value for k, value in rows.items() if k[:1] in (keys.OUTGOING, keys.INCOMING)} == adjacency
        of_kind = {kind: {key for key in rows if key[:1] == kind} for kind in (b"R", b"T", b"L", b"M", b"V")}
        assert of_kind[b"R"] == {keys.record_key(at) for at in self.model.records}
        assert of_kind[b"T"] == {keys.record_time_key(*record.created) for record in self.model.records.values()}
        assert of_kind[b"L"] == {keys.relation_key(at) for at in self.model.relations}
        assert of_kind[b"M"] == {
            keys.relation_history_key(at, revision)
            for at, relation in self.model.relations.items()
            for revision in range(1, relation.revision + 1)
        }
        decided = [receipt for _, command, receipt in self.done if isinstance(command, ReviewRecord)]
        assert of_kind[b"V"] == {keys.review_key(made["record_id"], made["revision"]) for made in decided}
        for key in of_kind[b"R"]:
            assert parse_canonical(rows[key])["created_at_millis"] >= START_MS


TestPartition = PartitionMachine.TestCase
TestPartition.settings = settings(stateful_step_count=25)
